"""What travels in a signed request id, and who may sign one."""

import pytest
from dogsnap.errors import DogsnapError
from dogsnap.server.middleware.request_ids import new_id
from dogsnap.serving.feedback.signed_ids import Signer, read_or_create_secret
from hypothesis import given
from hypothesis import strategies as st
from support.feedback_ids import SECRET

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
    signed_id = SIGNER.sign(number, known)
    assert SIGNER.verify(signed_id)[:2] == (number, known)
    assert signed_id.isascii()


@given(st.text())
def test_any_text_that_was_not_signed_is_refused(text):
    with pytest.raises(DogsnapError):
        SIGNER.verify(text)


def test_an_empty_secret_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(DogsnapError, match="has no secret"):
        read_or_create_secret(tmp_path / "empty")
