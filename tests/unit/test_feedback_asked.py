"""Phones that were asked, while the file of feedback cannot be written or their split is gone."""

import pytest
from dogsnap.errors import Unavailable
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.middleware.request_ids import new_id
from dogsnap.serving.feedback import feedback as module
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.feedback.signed_ids import Signer
from dogsnap.serving.feedback.store import Store
from dogsnap.serving.metrics import Metrics
from support.feedback_ids import DOGS, SECRET, SplitRepository, answer

REFUSED = "CREATE TRIGGER refused BEFORE INSERT ON phones WHEN NEW.version = 2 BEGIN SELECT RAISE(FAIL, 'full'); END"


@pytest.fixture
def feedback(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 4)
    monkeypatch.setattr(module, "TICK_SECONDS", 1000)  # nothing is written by itself
    feedback = Feedback(
        Store(tmp_path / "feedback.db", 30), Signer(SECRET.encode()), SplitRepository(), Metrics()
    )
    feedback._follow_splits()
    yield feedback
    feedback.close()


def ask(feedback, phone: str, version: int) -> None:
    feedback.sign_answer(new_id(), answer(version), ModelSpec(DOGS, sticky_key=phone))


def asked(feedback) -> list[int]:
    (found,) = feedback.verdict(DOGS)["comparisons"]
    return found["asked"]


def test_phones_that_were_asked_wait_until_the_file_can_be_written_but_not_without_end(feedback):
    feedback.store.run(REFUSED)
    for phone, version in (("a", 1), ("b", 2), ("c", 1)):
        ask(feedback, phone, version)
    with pytest.raises(Unavailable):
        asked(feedback)
    for phone in "defgh":
        ask(feedback, phone, 2)
    feedback.store.run("DROP TRIGGER refused")
    assert asked(feedback) == [2, 2]
    statements: list[str] = []
    feedback.store._connection.set_trace_callback(statements.append)
    feedback._write_asked()
    assert statements == []


def test_a_phone_asked_in_a_split_that_is_deleted_meanwhile_is_not_counted(feedback):
    feedback.store.run("DELETE FROM splits")
    ask(feedback, "a", 1)
    feedback._write_asked()
    assert feedback.store.run("SELECT * FROM phones") == []
