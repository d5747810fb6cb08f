"""What travels in a signed request id, and who may sign one."""

import pytest
from feedback_ids import SECRET, signed
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import DogsnapError, FailedPrecondition
from backend.middleware.request_ids import new_id
from backend.serving.feedback.signed_ids import Signer, read_or_create_secret

SIGNER = Signer(SECRET.encode())

facts = st.fixed_dictionaries(
    {
        "model": st.text(),
        "version": st.integers(0, 2**63 - 1),
        "breeds": st.lists(st.text(), max_size=8),
        "probability": st.none() | st.floats(0, 1),
        "asked": st.booleans(),
    }
)


@given(facts)
def test_what_is_signed_is_opened_the_same(known):
    number = new_id()
    signed_id = SIGNER.signed(number, known)
    assert SIGNER.opened(signed_id)[:2] == (number, known)
    assert signed_id.isascii()


@given(st.text())
def test_any_text_that_was_not_signed_is_refused(text):
    with pytest.raises(DogsnapError):
        SIGNER.opened(text)


def test_a_late_id_is_refused_unless_any_age_is_taken():
    with pytest.raises(FailedPrecondition, match="within 24 hours"):
        SIGNER.opened(signed(86_500))
    assert SIGNER.opened(signed(86_500), max_age=None)


def test_a_secret_is_made_once_and_an_empty_one_is_refused(tmp_path):
    first = read_or_create_secret(tmp_path / "secret")
    assert len(first) == 64
    assert read_or_create_secret(tmp_path / "secret") == first
    (tmp_path / "empty").touch()
    with pytest.raises(DogsnapError, match="has no secret"):
        read_or_create_secret(tmp_path / "empty")
