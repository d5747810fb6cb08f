"""What travels in a signed request id, and who may sign one."""

from datetime import UTC, datetime

import pytest
from dogsnap.errors import DogsnapError, FailedPrecondition
from dogsnap.server.middleware.request_ids import new_id
from dogsnap.serving.feedback.signed_ids import Signer, read_or_create_secret
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.feedback_ids import SECRET, signed

SIGNER = Signer(SECRET.encode())

# A busy machine is no failure.
AT_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
facts = st.fixed_dictionaries(
    {
        "model": st.text(),
        "version": st.integers(0, 2**63 - 1),
        "breeds": st.lists(st.text(), max_size=8),
        "probability": st.none() | st.floats(0, 1),
        "asked": st.booleans(),
    }
)


@AT_ANY_SPEED
@given(facts)
def test_what_is_signed_is_opened_the_same(known):
    number = new_id()
    signed_id = SIGNER.sign(number, known)
    assert SIGNER.verify(signed_id)[:2] == (number, known)
    assert signed_id.isascii()


@AT_ANY_SPEED
@given(st.text())
def test_any_text_that_was_not_signed_is_refused(text):
    with pytest.raises(DogsnapError):
        SIGNER.verify(text)


def test_an_empty_secret_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(DogsnapError, match="has no secret"):
        read_or_create_secret(tmp_path / "empty")


DAY = 86_400


@pytest.mark.parametrize("ahead", [0, 1, 600, 5 * 3600, DAY - 60])
def test_an_answer_of_a_clock_that_was_ahead_takes_feedback_as_of_now(ahead):
    _, _, at = SIGNER.verify(signed(-ahead))
    assert abs((datetime.now(UTC) - at).total_seconds()) < 10


@pytest.mark.parametrize(
    ("age", "said"),
    [(DAY + 60, "too late: "), (-DAY - 60, "this server's clock says "), (-400 * DAY, "by NTP")],
)
def test_what_is_too_far_from_this_clock_is_refused_naming_the_clocks(age, said):
    with pytest.raises(FailedPrecondition, match="clock") as refused:
        SIGNER.verify(signed(age))
    assert said in refused.value.message
    assert ("too late" in refused.value.message) == (age > 0)
    SIGNER.verify(signed(age), max_age=None)  # to delete it
