"""Switching without a server: labels, default, splits, loading, the log, and undoing, on real small versions."""

import json
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from dogsnap.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound
from dogsnap.model_urls import without_secrets
from dogsnap.routing import planners, switch_log
from dogsnap.routing.choices import CONFIGURATION_KIND, Change
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.sqlite_store import SqliteStore
from dogsnap.routing.switch_log import Who, check_author
from dogsnap.serving.repository import local_repository
from dogsnap.serving.repository.model import State
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.version_folders import version_folders
from support.watched_models import WatchedModels

pytestmark = pytest.mark.early

ALICE = Who("alice", "127.0.0.1")
LABELLED = (
    "version_labels {{ key: 'stable' value: {stable} }} version_labels {{ key: 'canary' value: 2 }}"
)


class Scenario(WatchedModels):
    def __init__(
        self,
        made: Path,
        models: Path,
        log: Path | None = None,
        versions: tuple = (),
        config: str = "",
    ):
        super().__init__(made, models, store=SqliteStore(log))
        self.config_text = config
        if versions:
            self.with_versions(*versions)

    def switch(self, change, *values, by: Who = ALICE):
        def planner(choices, versions):
            return change(choices, versions, *values)

        return self.switcher.apply(self.switcher.plan({"half": planner}), by)

    def label(self, *values, by: Who = ALICE):
        return self.switch(planners.change_label, *values, by=by)

    def default(self, version: int | None):
        return self.switch(planners.change_default, version)

    def split(self, label: str, version: int, share: float):
        return self.switch(planners.change_split, label, version, share)

    def shadow(self, version: int | None):
        return self.switch(planners.change_shadow, version)

    def load(self, version: int, is_loaded: bool):
        return self.switch(planners.change_load, version, is_loaded)

    def undo(self, number: int | None = None):
        return self.switcher.apply(self.switcher.plan_undo(number), ALICE)

    def log(self) -> list[str]:
        return [f"{each.by.name}: {each}" for each in reversed(self.repository.chosen.switches())]


@pytest.fixture
def scenario(made_half, tmp_path) -> Scenario:
    return Scenario(made_half, tmp_path / "models", versions=(1, 2))


@pytest.fixture
def start(made_half, tmp_path):
    """Starts a repository whose log is in a file."""

    def start(*versions: int, config: str = "", file: str = "switches") -> Scenario:
        return Scenario(made_half, tmp_path / "models", tmp_path / file, versions, config)

    return start


def test_every_switch_is_logged_with_who_made_it_when_and_from_what_to_what(scenario):
    scenario.label("stable", 1)
    switch = scenario.label("stable", 2, by=check_author("bob", "10.0.0.7"))
    moved = {"model": "half", "kind": "label", "name": "stable", "from": 1, "to": 2}
    by = {"name": "bob", "address": "10.0.0.7"}
    assert switch.to_json() == {
        "id": 2,
        "at": switch.at,
        "by": by,
        **moved,
        "undoes": None,
        "forced": [],
        "guarded": False,
        "reason": "",
        "text": "label stable of half: 1 -> 2",
    }
    assert scenario.repository.chosen.switches()[0] == switch
    assert switch.at.endswith("Z")


@pytest.mark.parametrize("undone", [False, True])
def test_a_label_that_moves_to_a_version_that_is_not_there_answers_from_the_old_one_until_then(
    scenario, undone
):
    scenario.label("stable", 2)
    scenario.label("stable", 3)
    assert scenario.answers(label="stable") == 2
    if undone:
        scenario.undo()
    scenario.with_versions(1, 2, 3)
    assert scenario.answers(label="stable") == (2 if undone else 3)


@pytest.fixture
def other(made_half, tmp_path) -> Scenario:
    """Another server on the log of `start()`, with folders of its own, which has versions 1 and 2."""
    other = Scenario(made_half, tmp_path / "other models", tmp_path / "switches", (1, 2))
    return other


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_is_moved_where_the_new_version_is_answers_elsewhere_from_the_one_before_until_it_is_there(
    start, other, made_half, tmp_path, is_restarted
):
    first = start(1, 2, 3, 4)
    for version in (1, 2, 4) if is_restarted else (1, 2, 3, 4):
        first.label("stable", version)
        first.default(version)
        other.repository.chosen.follow()
        wanted = min(version, 2)
        assert (first.answers(label="stable"), first.answers()) == (version, version)
        assert (other.answers(label="stable"), other.answers()) == (wanted, wanted)
    if is_restarted:
        log = tmp_path / "switches"
        other = Scenario(made_half, tmp_path / "other models", log, (1, 2))
        assert (other.answers(label="stable"), other.answers()) == (2, 2)
    other.with_versions(1, 2, 4)
    assert (other.answers(label="stable"), other.answers()) == (4, 4)
    assert not [line for line in other.log() if line.startswith("watcher")]


def test_a_default_that_is_undone_or_not_chosen_any_more_leaves_the_answer_to_who_had_it(scenario):
    scenario.with_versions(1, 2, 3)
    assert scenario.answers() == 2
    scenario.default(1)
    scenario.default(3)
    scenario.undo()
    assert scenario.answers() == 1
    scenario.undo()
    assert scenario.answers() == 2


def test_a_chosen_default_that_is_gone_leaves_the_answer_to_the_largest_and_what_came_before_can_be_undone(
    scenario,
):
    scenario.with_versions(1, 2, 3)
    scenario.default(2)
    scenario.label("stable", 1)
    scenario.with_versions(1, 3)
    assert scenario.answers() == 3
    assert scenario.log()[-1] == "watcher: default of half: 2 -> 3"
    assert str(scenario.undo()) == "label stable of half: 1 -> none"


def test_a_chosen_default_that_leaves_and_comes_back_is_logged_each_time(scenario):
    scenario.with_versions(1, 2, 3)
    scenario.label("stable", 1)
    scenario.default(2)
    for _ in range(2):
        scenario.with_versions(1, 3)
        assert scenario.log()[-1] == "watcher: default of half: 2 -> 3"
        scenario.with_versions(1, 2, 3)
        assert scenario.log()[-1] == "watcher: default of half: 3 -> 2"
    assert scenario.answers() == 2
    assert str(scenario.undo()).startswith("default of half: 2 -> ")  # what a person chose


def test_a_new_version_takes_over_neither_from_the_one_that_answers_nor_from_a_chosen_one(scenario):
    scenario.with_versions(1, 2, 3)
    assert (scenario.answers(), scenario.answers(version=3), scenario.log()) == (2, 3, [])
    assert str(scenario.default(None)) == "default of half: not chosen -> 3"
    scenario.undo()
    assert scenario.answers() == 2
    scenario.default(1)
    scenario.with_versions(1, 2, 3, 4)
    assert scenario.answers() == 1


def test_the_version_that_answered_by_default_does_so_after_a_restart_where_a_file_keeps_it(start):
    start(1, 2)
    for file, expected in (("switches", 2), ("another", 3)):
        assert start(1, 2, 3, file=file).answers() == expected


def test_a_new_version_that_takes_over_by_the_policy_is_a_switch_that_can_be_undone(scenario):
    scenario.config_text = "model_version_policy { latest { num_versions: 2 } }"
    scenario.with_versions(1, 2, 3)
    assert scenario.log() == ["watcher: default of half: 2 -> 3"]
    scenario.undo()
    assert scenario.answers() == 2


def test_the_first_default_of_all_came_about_by_itself_and_is_not_undone(made_half, tmp_path):
    empty = Scenario(made_half, tmp_path / "models")
    empty.scan()
    empty.with_versions(1)
    (first,) = empty.repository.chosen.switches()
    assert str(first) == "default of half: not chosen -> 1"
    assert not empty.switcher.is_undoable(first)
    with pytest.raises(Aborted, match="cannot be undone: it came about by itself"):
        empty.undo(first.id)
    with pytest.raises(FailedPrecondition, match="no switch to undo"):
        empty.undo()
    assert empty.answers() == 1


def test_undo_is_refused_for_a_switch_that_something_followed_and_back_to_a_version_that_is_gone(
    scenario,
):
    chosen = scenario.default(1)
    back = scenario.undo()
    assert (back.undoes, scenario.answers()) == (chosen.id, 2)
    scenario.undo(back.id)
    assert scenario.answers() == 1
    first = scenario.label("stable", 1)
    scenario.label("stable", 2)
    with pytest.raises(Aborted, match="not in force any more"):
        scenario.undo(first.id)
    with pytest.raises(NotFound, match="no switch 77"):
        scenario.undo(77)
    scenario.with_versions(2)
    with pytest.raises(FailedPrecondition, match="version 1 of half is not available"):
        scenario.undo()
    assert scenario.answers(label="stable") == 2


def test_who_planned_a_switch_before_another_one_was_made_is_told_who_was_first(scenario):
    def move_to_2(choices, versions):
        return planners.change_label(choices, versions, "stable", 2)

    planned = scenario.switcher.plan({"half": move_to_2})
    scenario.label("stable", 1, by=Who("bob", "10.0.0.2"))
    with pytest.raises(Aborted, match=r"bob 10\.0\.0\.2 was first: switch 1 \(label stable"):
        scenario.switcher.apply(planned, ALICE)
    assert scenario.repository.labels("half")[0] == {"stable": 1}


def test_who_planned_a_switch_of_several_models_is_told_who_was_first_at_any_of_them(scenario):
    shutil.copytree(scenario.models / "half", scenario.models / "another")
    scenario.scan()

    def move_to_2(choices, versions):
        return planners.change_label(choices, versions, "stable", 2)

    planned = scenario.switcher.plan({"another": move_to_2, "half": move_to_2})
    scenario.label("stable", 1, by=Who("bob", "10.0.0.2"))
    with pytest.raises(
        Aborted, match=r"bob 10\.0\.0\.2 was first: switch \d+ \(label stable of half"
    ):
        scenario.switcher.apply(planned, ALICE)


def test_unloading_holds_at_once_the_last_request_ends_on_its_version_and_it_can_be_loaded_again(
    scenario,
):
    with scenario.repository.acquire(ModelSpec("half", 1)) as servable:
        scenario.load(1, False)
        assert scenario.states()[1] == State.UNLOADING
        with pytest.raises(NotFound, match="available versions: 2"):
            scenario.answers(version=1)
        scenario.scan()
        assert float(servable.run(servable.signature(), {"x": 0.0})["y"]) == 2.0
    for _ in range(2):
        scenario.scan()
        assert scenario.states() == {2: State.AVAILABLE, 1: State.END}
    scenario.load(1, True)
    scenario.scan()
    assert scenario.answers(version=1) == 1


# By what is said of a version in use.
POINTING = {
    "stable": (planners.change_label, "stable", 1),
    "default": (planners.change_default, 1),
    "50 % of default": (planners.change_split, "", 1, 0.5),
    "shadow": (planners.change_shadow, 1),
}


def point(scenario: Scenario, use: str) -> switch_log.Switch:
    return scenario.switch(*POINTING[use])


@pytest.mark.parametrize("use", POINTING)
def test_nothing_is_pointed_to_a_version_that_is_being_or_was_unloaded_and_one_in_use_is_not_unloaded(
    scenario, use
):
    with scenario.repository.acquire(ModelSpec("half", 1)):
        scenario.load(1, False)
        with pytest.raises(
            FailedPrecondition, match="version 1 of half is being unloaded; load it again first"
        ):
            point(scenario, use)
    scenario.scan()
    with pytest.raises(
        FailedPrecondition, match="version 1 of half was unloaded by hand; load it again first"
    ):
        point(scenario, use)
    scenario.load(1, True)
    scenario.scan()
    assert point(scenario, use).changes[0].after
    with pytest.raises(
        FailedPrecondition, match=f"version 1 of half is in use: {use}; move that first"
    ):
        scenario.load(1, False)


def test_a_version_unloaded_while_it_loads_never_answers(scenario, monkeypatch):
    def load_and_think_better(identity, path):
        scenario.load(3, False)
        return LocalServable(identity, path)

    monkeypatch.setattr(local_repository, "LocalServable", load_and_think_better)
    scenario.with_versions(1, 2, 3)
    assert (scenario.answers(), scenario.states()[3]) == (2, State.END)


def test_a_version_that_is_told_to_be_loaded_is_whatever_the_policy_says_and_stays(scenario):
    scenario.config_text = "model_version_policy { latest { num_versions: 1 } }"
    scenario.with_versions(1, 2)
    assert scenario.states()[1] == State.END
    for number in (1, 2):
        scenario.load(number, True)
    scenario.with_versions(1, 2, 3)
    assert (scenario.answers(), scenario.answers(version=2), scenario.answers(version=1)) == (
        3,
        2,
        1,
    )


@pytest.mark.parametrize("use", [use for use in POINTING if use != "stable"])
def test_a_version_that_was_chosen_stays_when_the_policy_would_let_it_go_and_goes_once_it_is_not(
    scenario, use
):
    switch = point(scenario, use)
    scenario.config_text = "model_version_policy { latest { num_versions: 1 } }"
    scenario.with_versions(1, 2, 3)
    assert (scenario.answers(version=3), scenario.answers(version=1)) == (3, 1)
    scenario.undo(switch.id)
    scenario.scan()
    assert scenario.states() == {1: State.END, 2: State.END, 3: State.AVAILABLE}


def test_a_version_that_failed_is_tried_again_at_once_when_told_to(scenario):
    (scenario.models / "half" / "3").mkdir()
    (scenario.models / "half" / "3" / "saved_model.pb").write_bytes(b"no model")
    loads = []
    scenario.scan()
    scenario.repository._load = lambda model, version: loads.append(version.id.version)
    scenario.scan()
    assert (loads, scenario.states()[3]) == ([], State.END)
    scenario.load(3, True)
    scenario.scan()
    assert loads == [3]


def test_a_version_that_answers_by_itself_is_not_unloaded_until_another_one_does(scenario):
    with pytest.raises(
        FailedPrecondition, match="version 2 of half is in use: default; move that first"
    ):
        scenario.load(2, False)
    scenario.default(1)
    scenario.load(2, False)
    with pytest.raises(
        FailedPrecondition, match="in use: default, the last one available; move that first"
    ):
        scenario.load(1, False)
    assert str(scenario.undo()) == "version 2 of half: unloaded -> as the policy says"


def sent(folder: Path, stable: int | None = None) -> list[ModelConfig]:
    """A configuration of the model half as a client sends it, perhaps with a label."""
    return [
        ModelConfig(
            name="half", base_path=str(folder), version_labels={"stable": stable} if stable else {}
        )
    ]


@pytest.mark.parametrize(
    ("switch", "error", "sentence"),
    [
        ((planners.change_load, 9, True), NotFound, "half has no version 9"),
        ((planners.change_label, "gone", None), NotFound, "half has no label gone"),
        *(
            ((planners.change_label, odd, 1), InvalidArgument, "expected 1 to 64 of the characters")
            for odd in ("", "a b", "-x", "x" * 65, "a/b", "é")
        ),
        ((planners.change_default, 9), FailedPrecondition, "9 of half is not .*; available: 1, 2"),
        ((planners.change_split, "gone", 1, 0.5), NotFound, "half has no label gone"),
        ((planners.change_split, "", 9, 0.5), FailedPrecondition, "available: 1, 2"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused_and_changes_nothing(
    scenario, switch, error, sentence
):
    with pytest.raises(error, match=sentence):
        scenario.switch(*switch)
    assert (scenario.log(), scenario.answers()) == ([], 2)


def test_a_split_sends_about_its_share_and_the_same_key_always_to_the_same_side(scenario):
    scenario.label("stable", 1)
    scenario.split("stable", 2, 0.05)
    keys = [f"client {number}" for number in range(4000)]

    def taken() -> set[str]:
        return {key for key in keys if scenario.answers(label="stable", key=key) == 2}

    few = taken()
    assert 0.035 < len(few) / len(keys) < 0.065  # four standard deviations of a fair 5 %
    assert taken() == few
    scenario.split("stable", 2, 0.2)
    assert taken() > few
    scenario.split("stable", 2, 1.0)
    assert taken() == set(keys)
    scenario.label("other", 1)
    assert (scenario.answers(version=1), scenario.answers(label="other")) == (1, 1)
    scenario.with_versions(1)  # its version went away
    assert scenario.answers(label="stable") == 1


@pytest.mark.parametrize("label", ["stable", None])
def test_moving_a_label_or_the_default_ends_its_split_and_one_undo_brings_back_both(
    scenario, label
):
    def move(version: int) -> None:
        scenario.label(label, version) if label else scenario.default(version)

    def by_version_2() -> int:
        return sum(
            scenario.answers(label=label, key=f"client {number}") == 2 for number in range(100)
        )

    move(1)
    scenario.split(label or "", 2, 0.3)
    before = by_version_2()
    assert 10 < before < 60
    for version, answered in ((2, 100), (1, 0)):
        move(version)
        assert by_version_2() == answered
    assert [line.endswith("30 % to 2 -> none") for line in scenario.log()[-2:]] == [True, False]
    for answered in (100, before, 0):
        scenario.undo()
        assert by_version_2() == answered


def test_the_end_of_a_split_is_undone_with_the_move_that_ended_it_and_not_by_itself(scenario):
    scenario.label("stable", 1)
    scenario.split("stable", 2, 0.3)
    with pytest.raises(FailedPrecondition, match="end the split first"):
        scenario.label("stable", None)
    move = scenario.label("stable", 2)
    scenario.split("stable", 1, 0.5)
    with pytest.raises(Aborted, match="not in force any more"):
        scenario.undo(move.id)


def test_a_changed_configuration_moves_its_labels_and_leaves_alone_what_people_switched(scenario):
    scenario.config_text = LABELLED.format(stable=1)
    scenario.scan()
    scenario.label("canary", 1)
    scenario.config_text = LABELLED.format(stable=2)
    scenario.scan()
    assert (scenario.answers(label="stable"), scenario.answers(label="canary")) == (2, 1)
    assert scenario.log()[-1] == f"{switch_log.CONFIGURATION.name}: label stable of half: 1 -> 2"
    scenario.config_text = ""
    scenario.scan()
    assert scenario.repository.labels("half") == ({}, {})


def test_configurations_are_undone_one_after_the_other_and_one_that_something_followed_is_not(
    scenario,
):
    first = scenario.repository.reconfigure(sent(scenario.models / "half"), ALICE)
    second = scenario.repository.reconfigure(sent(scenario.models / "half", 2), ALICE)
    assert scenario.repository.reconfigure(sent(scenario.models / "half", 2), ALICE) is None
    with pytest.raises(Aborted, match="not in force any more"):
        scenario.undo(first.id)
    assert scenario.answers(label="stable") == 2
    assert scenario.undo().undoes == second.id
    assert scenario.repository.labels("half") == ({}, {})
    assert scenario.undo().undoes == first.id
    assert scenario.repository.sent is None


def test_a_configuration_that_was_sent_ends_with_the_server(start):
    first = start(1, 2)
    switch = first.repository.reconfigure(sent(first.models / "half", 1), ALICE)
    second = start(1, 2)
    assert second.repository.labels("half") == ({}, {})
    (kept,) = [each for each in second.repository.chosen.switches() if each.id == switch.id]
    assert not second.switcher.is_undoable(kept)


def test_what_was_switched_survives_a_restart_and_a_configuration_that_changed_meanwhile_is_followed(
    start,
):
    first = start(1, 2, config=LABELLED.format(stable=1))
    first.label("stable", 2)
    first.default(1)
    first.split("stable", 1, 1.0)
    first.split("canary", 2, 0.5)
    first.label("canary", 1)  # ends that split
    first.shadow(2)

    second = start(1, 2, config=first.config_text)
    assert second.repository.labels("half") == ({"stable": 2, "canary": 1}, {})
    assert second.repository.chosen.splits() == [("half", "stable", 1, 1.0)]
    assert (second.answers(), second.answers(label="stable"), second.answers(label="canary")) == (
        1,
        1,
        1,
    )
    assert second.log() == first.log()
    assert str(second.undo()) == "shadow of half: 2 -> none"
    assert str(second.undo()).startswith("label canary of half: 1 -> 2; split of label canary")
    assert second.repository.chosen.splits() == [
        ("half", "canary", 2, 0.5),
        ("half", "stable", 1, 1.0),
    ]

    for name in ("stable", "canary"):
        second.label(name, 1)
    third = start(1, 2, config=LABELLED.format(stable=2))
    assert third.repository.labels("half") == ({"stable": 2, "canary": 1}, {})


def test_while_the_disk_of_the_log_hangs_requests_are_answered_and_the_switch_waits(
    start, tmp_path
):
    scenario = start(1, 2)
    file = sqlite3.connect(tmp_path / "switches", isolation_level=None)
    with ThreadPoolExecutor(2) as pool, closing(file) as other:
        other.execute("BEGIN EXCLUSIVE")  # whoever wants to write waits, as for a disk
        switching = pool.submit(scenario.label, "stable", 1)
        assert pool.submit(scenario.answers).result(2) == 2
        with pytest.raises(TimeoutError):
            switching.result(0.3)
        assert scenario.repository.labels("half")[0] == {}
        other.execute("ROLLBACK")
        switching.result(30)
    assert scenario.repository.labels("half")[0] == {"stable": 1}


def test_while_the_disk_of_the_models_hangs_requests_are_answered(scenario, monkeypatch):
    hangs, goes_on = threading.Event(), threading.Event()

    def hanging(folder: Path) -> dict[int, Path]:
        hangs.set()
        goes_on.wait(30)
        return version_folders(folder)

    monkeypatch.setattr(local_repository, "version_folders", hanging)
    with ThreadPoolExecutor(2) as pool:
        loading = pool.submit(scenario.load, 1, True)
        assert hangs.wait(30)
        try:
            assert pool.submit(scenario.answers).result(2) == 2
        finally:
            goes_on.set()
        loading.result(30)
    assert scenario.log()[-1] == "alice: version 1 of half: as the policy says -> loaded"


def test_a_client_cannot_pose_as_the_server():
    for name in ("", switch_log.WATCHER.name, f" {switch_log.CONFIGURATION.name}\n"):
        assert check_author(name, "127.0.0.1").name == "someone"
    assert check_author(" a\n b ", "").name == "a b"
    assert len(check_author("x" * 1000, "").name) == 64


def test_a_configuration_is_described_without_the_password_of_its_bucket():
    url = "s3://me:secret@bucket/half?key=secret"
    after = [{"name": "half", "base_path": url}]
    text = switch_log.describe(Change("", CONFIGURATION_KIND, "", None, after))
    assert "half in s3://bucket/half, all" in text
    of_package = without_secrets("the bucket 'me:secret@bucket' at 12:30 is not that of me@home")
    assert of_package == "the bucket 'bucket' at 12:30 is not that of me@home"


def test_a_load_that_another_client_has_made_at_this_moment_is_no_conflict(
    made_half, tmp_path, monkeypatch
):
    scenario = Scenario(made_half, tmp_path / "models", versions=(1,))
    switcher, planned = scenario.switcher, scenario.switcher.plan
    switcher.unload_model("half", ALICE)

    def plan_while_another_loads(planners):
        monkeypatch.setattr(switcher, "plan", planned)
        mine = planned(planners)
        switcher.apply(planned(planners), Who("bob"))
        return mine

    monkeypatch.setattr(switcher, "plan", plan_while_another_loads)
    monkeypatch.setattr(scenario.repository, "load_model", lambda name, choose, *_: choose())
    switcher.load_model("half", ALICE, 1.0, lambda: True)
    assert not scenario.repository.chosen.choices("half").is_unloaded


def test_an_entry_has_a_field_that_0_2_0_does_not_know_only_where_it_says_something():
    change = Change("half", "label", "stable", 1, 2)
    plain = switch_log.Switch(1, "2026-01-01T00:00:00Z", Who("x"), (change,))
    known = {"format", "at", "by", "changes", "undoes"}
    assert json.loads(plain.to_text()).keys() == known
    told = replace(plain, reason="slower")
    assert json.loads(told.to_text()).keys() == {*known, "reason"}
    assert switch_log.Switch.from_text(1, told.to_text()) == told
