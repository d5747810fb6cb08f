"""Phones that were asked, while the file of feedback cannot be written or their split is gone."""

from types import SimpleNamespace

import pytest

from backend.errors import NotFound, Unavailable
from backend.middleware.request_ids import new_id
from backend.serving.answers.labels import Breed, Classification
from backend.serving.answers.levels import Level
from backend.serving.feedback import feedback as module
from backend.serving.feedback import votes
from backend.serving.feedback.feedback import Feedback
from backend.serving.feedback.request_ids import Signer
from backend.serving.feedback.store import Store
from backend.serving.metrics import Metrics
from backend.serving.repository.model import ModelSpec
from backend.serving.tensors.signatures import ServableId

REFUSED = (
    "CREATE TRIGGER refused BEFORE INSERT ON phones WHEN NEW.version = 2 BEGIN SELECT RAISE(FAIL, 'disk full'); END"
)


class TwoVersions:
    """A repository as far as feedback asks it."""

    def has_started(self):
        return False

    def status(self, spec):
        return [SimpleNamespace(version=version) for version in (1, 2)]

    def acquire(self, spec):
        raise NotFound("no such version")


@pytest.fixture
def feedback(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 4, raising=False)
    store = Store(tmp_path / "feedback.db", 30)
    with store.transaction() as connection:
        votes.follow(connection, {("dogs", "", 1, 2, 0.5)})
    feedback = Feedback(store, Signer(b"x" * 32), TwoVersions(), Metrics())
    yield feedback
    feedback.close()


def answer(feedback, phone: str, version: int) -> None:
    breeds = (Breed("a", "a", "", 0.9),)
    result = Classification(ServableId("dogs", version), dog=True, confident=True, level=Level.BREED, breeds=breeds)
    feedback.signed(new_id(), result, ModelSpec("dogs", sticky_key=phone))


def asked(feedback) -> list[int]:
    (found,) = feedback.verdict("dogs")["comparisons"]
    return found["asked"]


def test_phones_that_were_asked_wait_until_the_file_can_be_written_but_not_without_end(feedback):
    feedback.store.run(REFUSED)
    answer(feedback, "a", 2)
    with pytest.raises(Unavailable):
        asked(feedback)
    for phone in "bcdefgh":
        answer(feedback, phone, 2)
    feedback.store.run("DROP TRIGGER refused")
    assert asked(feedback) == [0, 4]


def test_none_is_lost_of_a_few_and_the_file_is_left_alone_where_nobody_waits(feedback):
    feedback.store.run(REFUSED)
    for phone, version in (("a", 1), ("b", 2), ("c", 1)):
        answer(feedback, phone, version)
    with pytest.raises(Unavailable):
        asked(feedback)
    feedback.store.run("DROP TRIGGER refused")
    assert asked(feedback) == [2, 1]
    statements: list[str] = []
    feedback.store._connection.set_trace_callback(statements.append)
    feedback._write_asked()
    assert statements == []


def test_a_phone_asked_in_a_split_that_is_deleted_meanwhile_is_not_counted(feedback):
    feedback.store.run("DELETE FROM splits")
    answer(feedback, "a", 1)
    assert feedback.verdict("dogs")["comparisons"] == []
    assert feedback.store.run("SELECT * FROM phones") == []
