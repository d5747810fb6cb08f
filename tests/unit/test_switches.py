"""Switching without a server: labels, default, splits, loading, the log, and undoing, on real small versions."""

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from dogsnap.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from dogsnap.routing import switch_log, switches
from dogsnap.routing.switch_log import SwitchLog
from dogsnap.routing.switches import (
    CONFIGURED,
    Default,
    Label,
    Load,
    Shadow,
    SplitOf,
    Who,
    checked_who,
)
from dogsnap.routing.undo import is_undoable, undo
from dogsnap.serving.repository import repository
from dogsnap.serving.repository.model import ModelSpec, State
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.servable import Servable
from dogsnap.serving.versions.version_folders import version_folders
from watched_models import WatchedModels

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
        super().__init__(made, models, switches=SwitchLog(log))
        self.config_text = config
        if versions:
            self.with_versions(*versions)

    def log(self) -> list[str]:
        return [f"{each.by.name}: {each}" for each in reversed(self.repository.switches.switches())]


def share(version: int, share: float) -> dict[str, float]:
    return {"version": version, "share": share}


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
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    switch = Label("half", "stable").switch(scenario.repository, 2, checked_who("bob", "10.0.0.7"))
    moved = {"model": "half", "kind": "label", "name": "stable", "from": 1, "to": 2}
    by = {"name": "bob", "address": "10.0.0.7"}
    assert switch.to_json() == {
        "id": 2,
        "at": switch.at,
        "by": by,
        **moved,
        "undoes": None,
        "part_of": None,
    }
    assert scenario.repository.switches.switches()[0] == switch
    assert switch.at.endswith("Z")


@pytest.mark.parametrize("undone", [False, True])
def test_a_label_that_moves_to_a_version_that_is_not_there_answers_from_the_old_one_until_then(
    scenario, undone
):
    Label("half", "stable").switch(scenario.repository, 2, ALICE)
    Label("half", "stable").switch(scenario.repository, 3, ALICE)
    assert scenario.answers(label="stable") == 2
    if undone:
        undo(scenario.repository, ALICE)
    scenario.with_versions(1, 2, 3)
    assert scenario.answers(label="stable") == (2 if undone else 3)
    assert ("watcher: label stable of half: 2 -> 3" in scenario.log()) != undone


def test_a_chosen_default_that_is_gone_leaves_the_answer_to_the_largest_and_what_came_before_can_be_undone(
    scenario,
):
    scenario.with_versions(1, 2, 3)
    Default("half").switch(scenario.repository, 2, ALICE)
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    scenario.with_versions(1, 3)
    assert scenario.answers() == 3
    assert scenario.log()[-1] == "watcher: default of half: 2 -> 3"
    assert str(undo(scenario.repository, ALICE)) == "label stable of half: 1 -> none"


def test_a_new_version_takes_over_neither_from_the_one_that_answers_nor_from_a_chosen_one(scenario):
    scenario.with_versions(1, 2, 3)
    assert (scenario.answers(), scenario.answers(version=3), scenario.log()) == (2, 3, [])
    assert (
        str(Default("half").switch(scenario.repository, None, ALICE))
        == "default of half: not chosen -> 3"
    )
    undo(scenario.repository, ALICE)
    assert scenario.answers() == 2
    Default("half").switch(scenario.repository, 1, ALICE)
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
    undo(scenario.repository, ALICE)
    assert scenario.answers() == 2


def test_the_first_default_of_all_came_about_by_itself_and_is_not_undone(made_half, tmp_path):
    empty = Scenario(made_half, tmp_path / "models")
    empty.scan()
    empty.with_versions(1)
    (first,) = empty.repository.switches.switches()
    assert str(first) == "default of half: not chosen -> 1"
    assert not is_undoable(empty.repository, first)
    with pytest.raises(Aborted, match="cannot be undone: it came about by itself"):
        undo(empty.repository, ALICE, number=first.id)
    with pytest.raises(FailedPrecondition, match="no switch to undo"):
        undo(empty.repository, ALICE)
    assert empty.answers() == 1


def test_undo_is_refused_for_a_switch_that_something_followed_and_back_to_a_version_that_is_gone(
    scenario,
):
    chosen = Default("half").switch(scenario.repository, 1, ALICE)
    back = undo(scenario.repository, ALICE)
    assert (back.undoes, scenario.answers()) == (chosen.id, 2)
    undo(scenario.repository, ALICE, number=back.id)
    assert scenario.answers() == 1
    first = Label("half", "stable").switch(scenario.repository, 1, ALICE)
    Label("half", "stable").switch(scenario.repository, 2, ALICE)
    with pytest.raises(Aborted, match="not in force any more"):
        undo(scenario.repository, ALICE, number=first.id)
    with pytest.raises(NotFound, match="no switch 77"):
        undo(scenario.repository, ALICE, number=77)
    scenario.with_versions(2)
    with pytest.raises(FailedPrecondition, match="version 1 is not available"):
        undo(scenario.repository, ALICE)
    assert scenario.answers(label="stable") == 2


def test_unloading_holds_at_once_the_last_request_ends_on_its_version_and_it_can_be_loaded_again(
    scenario,
):
    with scenario.repository.acquire(ModelSpec("half", 1)) as servable:
        Load("half", "1").switch(scenario.repository, False, ALICE)
        assert scenario.states()[1] == State.UNLOADING
        with pytest.raises(NotFound, match="available versions: 2"):
            scenario.answers(version=1)
        scenario.scan()
        assert float(servable.run(servable.signature(), {"x": 0.0})["y"]) == 2.0
    for _ in range(2):
        scenario.scan()
        assert scenario.states() == {2: State.AVAILABLE, 1: State.END}
    Load("half", "1").switch(scenario.repository, True, ALICE)
    scenario.scan()
    assert scenario.answers(version=1) == 1


# By what is said of a version in use.
POINTING = {
    "stable": (Label("half", "stable"), 1),
    "default": (Default("half"), 1),
    "50 % of default": (SplitOf("half", ""), share(1, 0.5)),
    "shadow": (Shadow("half"), 1),
}


def point(scenario: Scenario, use: str) -> switches.Switch:
    subject, value = POINTING[use]
    return subject.switch(scenario.repository, value, ALICE)


@pytest.mark.parametrize("use", POINTING)
def test_nothing_is_pointed_to_a_version_that_is_being_or_was_unloaded_and_one_in_use_is_not_unloaded(
    scenario, use
):
    with scenario.repository.acquire(ModelSpec("half", 1)):
        Load("half", "1").switch(scenario.repository, False, ALICE)
        with pytest.raises(
            FailedPrecondition, match="version 1 of half is being unloaded; load it again first"
        ):
            point(scenario, use)
    scenario.scan()
    with pytest.raises(
        FailedPrecondition, match="version 1 of half was unloaded by hand; load it again first"
    ):
        point(scenario, use)
    Load("half", "1").switch(scenario.repository, True, ALICE)
    scenario.scan()
    assert point(scenario, use).after
    with pytest.raises(
        FailedPrecondition, match=f"version 1 of half is in use: {use}; move that first"
    ):
        Load("half", "1").switch(scenario.repository, False, ALICE)


def test_a_version_unloaded_while_it_loads_never_answers(scenario, monkeypatch):
    def load_and_think_better(identity, path):
        Load("half", "3").switch(scenario.repository, False, ALICE)
        return load(identity, path)

    load = Servable.load
    monkeypatch.setattr(Servable, "load", load_and_think_better)
    scenario.with_versions(1, 2, 3)
    assert (scenario.answers(), scenario.states()[3]) == (2, State.END)


def test_a_version_that_is_told_to_be_loaded_is_whatever_the_policy_says_and_stays(scenario):
    scenario.config_text = "model_version_policy { latest { num_versions: 1 } }"
    scenario.with_versions(1, 2)
    assert scenario.states()[1] == State.END
    for number in (1, 2):
        Load("half", str(number)).switch(scenario.repository, True, ALICE)
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
    undo(scenario.repository, ALICE, switch.id)
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
    Load("half", "3").switch(scenario.repository, True, ALICE)
    scenario.scan()
    assert loads == [3]


def test_a_version_that_answers_by_itself_is_not_unloaded_until_another_one_does(scenario):
    with pytest.raises(
        FailedPrecondition, match="version 2 of half is in use: default; move that first"
    ):
        Load("half", "2").switch(scenario.repository, False, ALICE)
    Default("half").switch(scenario.repository, 1, ALICE)
    Load("half", "2").switch(scenario.repository, False, ALICE)
    with pytest.raises(
        FailedPrecondition, match="in use: default, the last one available; move that first"
    ):
        Load("half", "1").switch(scenario.repository, False, ALICE)
    assert (
        str(undo(scenario.repository, ALICE)) == "version 2 of half: unloaded -> as the policy says"
    )


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
        ((Load("half", "9"), True), NotFound, "half has no version 9"),
        ((Default("third"), 1), NotFound, "models served here: half"),
        ((Label("half", "gone"), None), NotFound, "half has no label gone"),
        ((Label("half", "stable"), -1), InvalidArgument, "version is -1; expected 0 to"),
        *(
            ((Label("half", odd), 1), InvalidArgument, "expected 1 to 64 of the characters")
            for odd in ("", "a b", "-x", "x" * 65, "a/b", "é")
        ),
        ((Default("half"), 9), FailedPrecondition, "9 of half is not .*; available: 1, 2"),
        ((SplitOf("half", "gone"), share(1, 0.5)), NotFound, "half has no label gone"),
        ((SplitOf("half", ""), share(1, 0.0)), InvalidArgument, "the share is 0 percent"),
        ((SplitOf("half", ""), share(1, 1.5)), InvalidArgument, "the share is 150 percent"),
        ((SplitOf("half", ""), share(9, 0.5)), FailedPrecondition, "available: 1, 2"),
        ((CONFIGURED, sent(Path("/none"))), InvalidArgument, "No versions of servable"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused_and_changes_nothing(
    scenario, switch, error, sentence
):
    subject, value = switch
    with pytest.raises(error, match=sentence):
        subject.switch(scenario.repository, value, ALICE)
    assert (scenario.log(), scenario.answers()) == ([], 2)


def test_a_split_sends_about_its_share_and_the_same_key_always_to_the_same_side(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    SplitOf("half", "stable").switch(scenario.repository, share(2, 0.05), ALICE)
    keys = [f"client {number}" for number in range(4000)]

    def taken() -> set[str]:
        return {key for key in keys if scenario.answers(label="stable", key=key) == 2}

    few = taken()
    assert 0.035 < len(few) / len(keys) < 0.065  # four standard deviations of a fair 5 %
    assert taken() == few
    SplitOf("half", "stable").switch(scenario.repository, share(2, 0.2), ALICE)
    assert taken() > few
    SplitOf("half", "stable").switch(scenario.repository, share(2, 1.0), ALICE)
    assert taken() == set(keys)
    Label("half", "other").switch(scenario.repository, 1, ALICE)
    assert (scenario.answers(version=1), scenario.answers(label="other")) == (1, 1)
    scenario.with_versions(1)  # its version went away
    assert scenario.answers(label="stable") == 1


@pytest.mark.parametrize("label", ["stable", None])
def test_moving_a_label_or_the_default_ends_its_split_and_one_undo_brings_back_both(
    scenario, label
):
    moved = Label("half", label) if label else Default("half")

    def by_version_2() -> int:
        return sum(
            scenario.answers(label=label, key=f"client {number}") == 2 for number in range(100)
        )

    moved.switch(scenario.repository, 1, ALICE)
    SplitOf("half", label or "").switch(scenario.repository, share(2, 0.3), ALICE)
    before = by_version_2()
    assert 10 < before < 60
    for version, answered in ((2, 100), (1, 0)):
        moved.switch(scenario.repository, version, ALICE)
        assert by_version_2() == answered
    assert [
        line for line in scenario.log() if line.endswith("30 % to 2 -> none")
    ] == scenario.log()[-2:-1]
    for answered in (100, before, 0):
        undo(scenario.repository, ALICE)
        assert by_version_2() == answered


def test_the_end_of_a_split_is_undone_with_the_move_that_ended_it_and_not_by_itself(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    SplitOf("half", "stable").switch(scenario.repository, share(2, 0.3), ALICE)
    with pytest.raises(FailedPrecondition, match="end the split first"):
        Label("half", "stable").switch(scenario.repository, None, ALICE)
    move = Label("half", "stable").switch(scenario.repository, 2, ALICE)
    end = scenario.repository.switches.switches()[0]
    assert (end.part_of, is_undoable(scenario.repository, end)) == (move.id, False)
    with pytest.raises(Aborted, match=f"is a part of switch {move.id}; undo that one"):
        undo(scenario.repository, ALICE, number=end.id)
    SplitOf("half", "stable").switch(scenario.repository, share(1, 0.5), ALICE)
    with pytest.raises(Aborted, match="not in force any more"):
        undo(scenario.repository, ALICE, number=move.id)


def test_a_changed_configuration_moves_its_labels_and_leaves_alone_what_people_switched(scenario):
    scenario.config_text = LABELLED.format(stable=1)
    scenario.scan()
    Label("half", "canary").switch(scenario.repository, 1, ALICE)
    scenario.config_text = LABELLED.format(stable=2)
    scenario.scan()
    assert (scenario.answers(label="stable"), scenario.answers(label="canary")) == (2, 1)
    assert scenario.log()[-1] == f"{switches.CONFIGURATION.name}: label stable of half: 1 -> 2"
    scenario.config_text = ""
    scenario.scan()
    assert scenario.repository.labels("half") == ({}, {})


def test_configurations_are_undone_one_after_the_other_and_one_that_something_followed_is_not(
    scenario,
):
    first = CONFIGURED.switch(scenario.repository, sent(scenario.models / "half"), ALICE)
    second = CONFIGURED.switch(scenario.repository, sent(scenario.models / "half", 2), ALICE)
    assert CONFIGURED.switch(scenario.repository, sent(scenario.models / "half", 2), ALICE) is None
    with pytest.raises(Aborted, match="not in force any more"):
        undo(scenario.repository, ALICE, number=first.id)
    assert scenario.answers(label="stable") == 2
    assert undo(scenario.repository, ALICE).undoes == second.id
    assert scenario.repository.labels("half") == ({}, {})
    assert undo(scenario.repository, ALICE).undoes == first.id
    assert scenario.repository.sent is None


def test_a_configuration_that_was_sent_ends_with_the_server(start):
    first = start(1, 2)
    switch = CONFIGURED.switch(first.repository, sent(first.models / "half", 1), ALICE)
    second = start(1, 2)
    assert second.repository.labels("half") == ({}, {})
    (kept,) = [each for each in second.repository.switches.switches() if each.id == switch.id]
    assert not is_undoable(second.repository, kept)


def test_what_was_switched_survives_a_restart_and_a_configuration_that_changed_meanwhile_is_followed(
    start,
):
    first = start(1, 2, config=LABELLED.format(stable=1))
    Label("half", "stable").switch(first.repository, 2, ALICE)
    Default("half").switch(first.repository, 1, ALICE)
    SplitOf("half", "stable").switch(first.repository, share(1, 1.0), ALICE)
    SplitOf("half", "canary").switch(first.repository, share(2, 0.5), ALICE)
    Label("half", "canary").switch(first.repository, 1, ALICE)  # ends that split
    Shadow("half").switch(first.repository, 2, ALICE)

    second = start(1, 2, config=first.config_text)
    assert second.repository.labels("half") == ({"stable": 2, "canary": 1}, {})
    assert second.repository.splits() == [("half", "stable", 1, 1.0)]
    assert (second.answers(), second.answers(label="stable"), second.answers(label="canary")) == (
        1,
        1,
        1,
    )
    assert second.log() == first.log()
    assert str(undo(second.repository, ALICE)) == "shadow of half: 2 -> none"
    assert str(undo(second.repository, ALICE)) == "label canary of half: 1 -> 2"
    assert second.repository.splits() == [("half", "canary", 2, 0.5), ("half", "stable", 1, 1.0)]

    for name in ("stable", "canary"):
        Label("half", name).switch(second.repository, 1, ALICE)
    third = start(1, 2, config=LABELLED.format(stable=2))
    assert third.repository.labels("half") == ({"stable": 2, "canary": 1}, {})


def test_two_processes_with_the_same_file_never_give_a_number_twice(tmp_path):
    one, other = SwitchLog(tmp_path / "switches"), SwitchLog(tmp_path / "switches")
    numbers = [
        log.add(ALICE, [(Label("half", "stable"), 1, 2)]).id for log in (one, other, other, one)
    ]
    assert numbers == [1, 2, 3, 4]
    assert [each.id for each in one.switches()] == [4, 3, 2, 1]


def test_while_another_process_that_has_read_the_file_lives_switches_are_refused(tmp_path):
    log, change = SwitchLog(tmp_path / "switches"), [(Label("half", "stable"), 1, 2)]
    assert log.add(ALICE, change).id == 1
    code = "from dogsnap.routing.switch_log import *; import sys; SwitchLog(Path(sys.argv[1])); print(); input()"
    reading = [sys.executable, "-c", code, str(tmp_path / "switches")]
    with subprocess.Popen(reading, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(
            Unavailable, match=f"process {other.pid}.* the switch was not made, try again"
        ):
            log.add(ALICE, change)
        log.note(switches.WATCHER, change)
        log.write()  # what has happened already is written by either
        other.communicate(b"\n")
    assert log.add(ALICE, change).id == 3  # the other one did not take over


def test_a_server_that_could_not_write_at_its_start_does_not_claim_the_file_without_a_switch(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(switch_log, "BUSY_SECONDS", 0.0)
    with closing(sqlite3.connect(tmp_path / "switches", isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        log = SwitchLog(tmp_path / "switches")
        file.execute("ROLLBACK")
        SwitchLog(tmp_path / "switches")
        file.execute("UPDATE reader SET process = 0")  # as if another process had read it
        log.write()
        assert file.execute("SELECT process FROM reader").fetchall() == [(0,)]


def test_a_file_that_is_no_log_of_switches_is_refused_by_its_name(tmp_path):
    (tmp_path / "switches").write_text('{"id": 1}\n', encoding="utf-8")
    with pytest.raises(
        InvalidArgument,
        match=r"/switches is no log of switches \(.*\); choose another --switch-log",
    ):
        SwitchLog(tmp_path / "switches")


def test_while_the_disk_of_the_log_hangs_requests_are_answered_and_the_switch_waits(
    start, tmp_path
):
    scenario = start(1, 2)
    file = sqlite3.connect(tmp_path / "switches", isolation_level=None)
    with ThreadPoolExecutor(2) as pool, closing(file) as other:
        other.execute("BEGIN EXCLUSIVE")  # whoever wants to write waits, as for a disk
        switching = pool.submit(Label("half", "stable").switch, scenario.repository, 1, ALICE)
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

    for module in (repository, switches):
        monkeypatch.setattr(module, "version_folders", hanging, raising=False)
    with ThreadPoolExecutor(2) as pool:
        loading = pool.submit(Load("half", "1").switch, scenario.repository, True, ALICE)
        assert hangs.wait(30)
        try:
            assert pool.submit(scenario.answers).result(2) == 2
        finally:
            goes_on.set()
        loading.result(30)
    assert scenario.log()[-1] == "alice: version 1 of half: as the policy says -> loaded"


def test_a_client_cannot_pose_as_the_server():
    for name in ("", switches.WATCHER.name, f" {switches.CONFIGURATION.name}\n"):
        assert checked_who(name, "127.0.0.1").name == "someone"
    assert checked_who(" a\n b ", "").name == "a b"
    assert len(checked_who("x" * 1000, "").name) == 64
