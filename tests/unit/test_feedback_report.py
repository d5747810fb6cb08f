"""The report on feedback: intervals, votes that are taken back, and files of other formats."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from dogsnap.errors import FailedPrecondition, Unavailable
from dogsnap.serving.feedback import feedback_store
from dogsnap.serving.feedback.feedback_store import Store
from dogsnap.serving.feedback.report import verdict, wilson
from support.feedback_ids import DOGS, row


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "feedback.db", 30)
    yield store
    store.close()


def test_a_share_has_the_published_interval():
    """Newcombe 1998 (Statistics in Medicine 17, 857), table I, method 3: 81 of 263."""
    found = wilson(81, 263)
    assert (round(found["low"], 4), round(found["high"], 4)) == (0.2553, 0.3662)
    assert wilson(0, 0) is None


def test_a_phone_that_took_its_vote_back_votes_again(store):
    assert store.add(row(1, 1, False))
    assert not store.add(row(1, 1, True, request_id="again"))
    assert store.forget(["1", "again", "unknown"]) == 2
    assert store.add(row(1, 1, True, request_id="third"))
    (version,) = verdict(store, DOGS, {1: None, 2: None})["versions"]
    assert (version["right"], version["counted"]) == (1, 1)


def test_of_each_breed_the_votes_that_count_are_told_the_most_first(store):
    said = [("a", True), ("a", False), ("b", True), ("a", None), ("b", True), ("b", False)]
    for number, (breed, is_right) in enumerate(said):
        store.add(row(number, 1, is_right, breeds=f'["{breed}"]'))
    store.add(row(90, 1, True, breeds="[]", level="no_dog"))
    (version,) = verdict(store, DOGS, {1: {"a": "akita", "b": "b"}})["versions"]
    told = [(each["breed"], each["right"], each["counted"]) for each in version["breeds"]]
    assert told == [("b", 2, 3), ("akita", 1, 2), ("no dog", 1, 1)]
    assert version["breeds"][0]["share"] == wilson(2, 3)


def test_votes_on_classes_that_a_version_no_longer_has_are_those_of_one_before_it(store):
    for number, breed in enumerate("aab"):
        store.add(row(number, 1, False, breeds=f'["{breed}"]', breed="b"))
    (version,) = verdict(store, DOGS, {1: {"b": "beagle"}})["versions"]
    assert (version["counted"], [each["breed"] for each in version["breeds"]]) == (1, ["beagle"])
    assert [each["answered"] for each in version["corrections"]] == ["beagle"]
    (version,) = verdict(store, DOGS, {1: None})["versions"]
    assert version["counted"] == 3


@pytest.mark.parametrize("number", [1, 4, 7])
def test_a_file_of_another_format_is_refused_and_stays_as_it_is(tmp_path, number):
    Store(tmp_path / "feedback.db", 30).close()
    with closing(sqlite3.connect(tmp_path / "feedback.db")) as connection:
        connection.execute(f"PRAGMA user_version={number}")
        with pytest.raises(
            FailedPrecondition, match=f"format {number}; this version has format 6: choose another"
        ):
            Store(tmp_path / "feedback.db", 30)
        assert connection.execute("PRAGMA user_version").fetchall() == [(number,)]


def test_a_server_that_was_killed_while_it_renewed_a_file_goes_on_at_its_next_start(
    tmp_path, monkeypatch
):
    old = (Path(__file__).parents[1] / "support" / "feedback_format_5.sql").read_text()
    file = tmp_path / "feedback.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(old)
    with monkeypatch.context() as patch:
        patch.setattr(feedback_store, "_finish_renewal", lambda connection: None)
        Store(file, 30).close()
    for _ in range(2):
        store = Store(file, 30)
        (version,) = verdict(store, "inception_v3", {2: None})["versions"]
        assert (version["right"], version["counted"]) == (4, 6)
        assert store.add(row(version["counted"] + 50, 2, True, request_id=str(id(store))))
        store.forget([str(id(store))])
        store.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchall() == [(6,)]


def spoil(file: Path, how: str) -> Callable[[], object]:
    """Make it unusable; returns what mends that."""
    kept = file.parent.with_name("kept")
    shutil.copytree(file.parent, kept)
    if how == "no folder":
        shutil.rmtree(file.parent)
    elif how == "another file":
        file.write_bytes(b"no database, but some text of more than a hundred bytes" * 20)
    else:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 99")
    return lambda: shutil.copytree(kept, file.parent, dirs_exist_ok=True)


@pytest.mark.parametrize("how", ["no folder", "another file", "another format"])
def test_a_store_that_has_served_waits_for_its_file_and_another_is_refused(tmp_path, how):
    file = tmp_path / "state" / "feedback.db"
    file.parent.mkdir()
    Store(file, 30).close()
    mend = spoil(file, how)
    with pytest.raises((sqlite3.Error, FailedPrecondition)):
        Store(file, 30)
    store = Store(file, 30, is_patient=True)
    for _ in range(2):
        with pytest.raises(Unavailable):
            store.run("SELECT 1")
    mend()
    assert store.run("SELECT count(*) FROM feedback")[0][0] == 0
    store.close()
