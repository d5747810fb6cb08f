"""Switching without a server: labels, default, splits, loading, the log, and undoing, on real small versions."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from watched_models import WatchedModels

from backend.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from backend.serving.administration.undo import is_undoable, undo
from backend.serving.repository import repository, switches
from backend.serving.repository.model import ModelSpec, State
from backend.serving.repository.switch_log import SwitchLog
from backend.serving.repository.switches import (
    CONFIGURATION,
    CONFIGURED,
    WATCHER,
    Default,
    Label,
    Load,
    Shadow,
    SplitOf,
    Switch,
    Who,
    checked_who,
)
from backend.serving.versions.model_configs import ModelConfig
from backend.serving.versions.servable import Servable
from backend.serving.versions.version_folders import version_folders

ALICE = Who("alice", "127.0.0.1")
LABELLED = "version_labels {{ key: 'stable' value: {stable} }} version_labels {{ key: 'canary' value: 2 }}"


class Scenario(WatchedModels):
    """A repository, and its log of switches."""

    def __init__(self, made: Path, models: Path, switch_file: Path | None = None):
        super().__init__(made, models, switches=SwitchLog(switch_file))

    def log(self) -> list[str]:
        return [f"{each.by.name}: {each}" for each in reversed(self.repository.switches.switches())]


def share(version: int, share: float) -> dict[str, float]:
    return {"version": version, "share": share}


def started(made: Path, models: Path, switch_file: Path | None, *versions: int) -> Scenario:
    scenario = Scenario(made, models, switch_file)
    scenario.with_versions(*versions)
    return scenario


@pytest.fixture
def scenario(made_half, tmp_path) -> Scenario:
    return started(made_half, tmp_path / "models", None, 1, 2)


def test_a_label_is_set_moved_and_removed(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    assert scenario.answers(label="stable") == 1
    Label("half", "stable").switch(scenario.repository, 2, ALICE)
    assert scenario.answers(label="stable") == 2
    assert Label("half", "stable").switch(scenario.repository, 2, ALICE) is None
    assert len(scenario.log()) == 2
    Label("half", "stable").switch(scenario.repository, None, ALICE)
    with pytest.raises(InvalidArgument, match="Unrecognized servable version label: stable"):
        scenario.answers(label="stable")


def test_every_switch_is_logged_with_who_made_it_when_and_from_what_to_what(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    switch = Label("half", "stable").switch(scenario.repository, 2, checked_who("bob", "10.0.0.7"))
    assert switch.to_json() == {
        "id": 2,
        "at": switch.at,
        "by": {"name": "bob", "address": "10.0.0.7"},
        "model": "half",
        "kind": "label",
        "name": "stable",
        "from": 1,
        "to": 2,
        "undoes": None,
        "part_of": None,
    }
    assert scenario.repository.switches.switches()[0] == switch
    assert switch.at.endswith("Z")


@pytest.mark.parametrize("undone", [False, True])
def test_a_label_that_moves_to_a_version_that_is_not_there_answers_from_the_old_one_until_then(scenario, undone):
    Label("half", "stable").switch(scenario.repository, 2, ALICE)
    Label("half", "stable").switch(scenario.repository, 3, ALICE)
    assert scenario.answers(label="stable") == 2
    if undone:
        undo(scenario.repository, ALICE)
    scenario.with_versions(1, 2, 3)
    assert scenario.answers(label="stable") == (2 if undone else 3)
    assert ("watcher: label stable of half: 2 -> 3" in scenario.log()) != undone


def test_a_label_is_moved_only_from_where_it_was_expected(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE, expected=None)
    with pytest.raises(Aborted, match="was expected at 2, but it is at 1"):
        Label("half", "stable").switch(scenario.repository, 2, ALICE, expected=2)
    assert scenario.answers(label="stable") == 1


@pytest.mark.parametrize("label", ["", "a b", "-x", "x" * 65, "a/b", "é"])
def test_a_label_with_odd_characters_is_refused(scenario, label):
    with pytest.raises(InvalidArgument, match="expected 1 to 64 of the characters"):
        Label("half", label).switch(scenario.repository, 1, ALICE)


def test_a_chosen_default_that_is_gone_leaves_the_answer_to_the_largest(scenario):
    scenario.with_versions(1, 2, 3)
    Default("half").switch(scenario.repository, 2, ALICE)
    scenario.with_versions(1, 3)
    assert scenario.answers() == 3
    assert scenario.log()[-1] == "watcher: default of half: 2 -> 3"


def test_a_new_version_takes_over_neither_from_the_one_that_answers_nor_from_a_chosen_one(scenario):
    scenario.with_versions(1, 2, 3)
    assert (scenario.answers(), scenario.answers(version=3), scenario.log()) == (2, 3, [])
    assert str(Default("half").switch(scenario.repository, None, ALICE)) == "default of half: not chosen -> 3"
    undo(scenario.repository, ALICE)
    assert scenario.answers() == 2
    scenario.with_versions(1, 2)
    Default("half").switch(scenario.repository, 1, ALICE)
    scenario.with_versions(1, 2, 3)
    assert scenario.answers() == 1
    undo(scenario.repository, ALICE)
    assert scenario.answers() == 2


def test_the_version_that_answered_by_default_does_so_after_a_restart_where_a_file_keeps_it(made_half, tmp_path):
    for file, expected in ((tmp_path / "switches", 2), (None, 3)):
        started(made_half, tmp_path / "models", file, 1, 2)
        restarted = started(made_half, tmp_path / "models", file, 1, 2, 3)
        assert restarted.answers() == expected


def test_a_new_version_that_takes_over_by_the_policy_is_a_switch_that_can_be_undone(scenario):
    scenario.config_text = "model_version_policy { latest { num_versions: 2 } }"
    scenario.with_versions(1, 2, 3)
    assert scenario.log() == ["watcher: default of half: 2 -> 3"]
    undo(scenario.repository, ALICE)
    assert scenario.answers() == 2


@pytest.fixture
def empty(made_half, tmp_path) -> Scenario:
    """A scenario that was started before there was a version, and has got version 1 since."""
    scenario = Scenario(made_half, tmp_path / "models")
    scenario.scan()
    scenario.with_versions(1)
    return scenario


def test_the_first_default_of_all_came_about_by_itself_and_is_not_undone(empty):
    (first,) = empty.repository.switches.switches()
    assert str(first) == "default of half: not chosen -> 1"
    assert not is_undoable(empty.repository, first)
    with pytest.raises(Aborted, match="cannot be undone: it came about by itself"):
        undo(empty.repository, ALICE, number=first.id)
    with pytest.raises(FailedPrecondition, match="no switch to undo"):
        undo(empty.repository, ALICE)
    assert empty.answers() == 1


def test_what_the_watcher_did_because_a_version_is_gone_does_not_stand_before_what_can_be_undone(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    scenario.with_versions(1)
    assert scenario.log()[-1] == "watcher: default of half: 2 -> 1"
    assert str(undo(scenario.repository, ALICE)) == "label stable of half: 1 -> none"


def test_undo_goes_back_step_by_step(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    Label("half", "stable").switch(scenario.repository, 2, ALICE)
    Default("half").switch(scenario.repository, 1, ALICE)
    assert str(undo(scenario.repository, ALICE)) == "default of half: 1 -> not chosen"
    assert str(undo(scenario.repository, ALICE)) == "label stable of half: 2 -> 1"
    assert str(undo(scenario.repository, ALICE)) == "label stable of half: 1 -> none"
    with pytest.raises(FailedPrecondition, match="no switch to undo"):
        undo(scenario.repository, ALICE)


def test_an_undo_can_be_undone_by_its_number(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    Label("half", "stable").switch(scenario.repository, 2, ALICE)
    back = undo(scenario.repository, ALICE)
    assert back.undoes == 2
    undo(scenario.repository, ALICE, number=back.id)
    assert scenario.answers(label="stable") == 2


def test_undo_is_refused_for_a_switch_that_something_followed_and_back_to_a_version_that_is_gone(scenario):
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


def test_unloading_holds_at_once_the_last_request_ends_on_its_version_and_it_can_be_loaded_again(scenario):
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


def point(scenario: Scenario, use: str) -> Switch:
    subject, value = POINTING[use]
    return subject.switch(scenario.repository, value, ALICE)


@pytest.mark.parametrize("use", POINTING)
def test_nothing_is_pointed_to_a_version_that_is_being_or_was_unloaded(scenario, use):
    with scenario.repository.acquire(ModelSpec("half", 1)):
        Load("half", "1").switch(scenario.repository, False, ALICE)
        with pytest.raises(FailedPrecondition, match="version 1 of half is being unloaded; load it again first"):
            point(scenario, use)
    scenario.scan()
    with pytest.raises(FailedPrecondition, match="version 1 of half was unloaded by hand; load it again first"):
        point(scenario, use)
    Load("half", "1").switch(scenario.repository, True, ALICE)
    scenario.scan()
    assert point(scenario, use).after


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
    assert (scenario.answers(), scenario.answers(version=2), scenario.answers(version=1)) == (3, 2, 1)


@pytest.mark.parametrize("use", [use for use in POINTING if use != "stable"])
def test_a_version_that_was_chosen_stays_when_the_policy_would_let_it_go_and_goes_once_it_is_not(scenario, use):
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
    scenario.scan()
    assert scenario.states()[3] == State.END
    loads = []
    scenario.repository._load = lambda model, version: loads.append(version.id.version)
    scenario.scan()
    assert loads == []
    Load("half", "3").switch(scenario.repository, True, ALICE)
    scenario.scan()
    assert loads == [3]


@pytest.mark.parametrize("use", POINTING)
def test_a_version_in_use_is_not_unloaded(scenario, use):
    point(scenario, use)
    with pytest.raises(FailedPrecondition, match=f"version 1 of half is in use: {use}; move that first"):
        Load("half", "1").switch(scenario.repository, False, ALICE)


def test_a_version_that_answers_by_itself_is_not_unloaded_until_another_one_does(scenario):
    with pytest.raises(FailedPrecondition, match="version 2 of half is in use: default; move that first"):
        Load("half", "2").switch(scenario.repository, False, ALICE)
    Default("half").switch(scenario.repository, 1, ALICE)
    Load("half", "2").switch(scenario.repository, False, ALICE)
    with pytest.raises(FailedPrecondition, match="in use: default, the last one available; move that first"):
        Load("half", "1").switch(scenario.repository, False, ALICE)
    assert str(undo(scenario.repository, ALICE)) == "version 2 of half: unloaded -> as the policy says"


def sent(*models: tuple[str, Path], stable: int | None = None) -> list[ModelConfig]:
    """A configuration as a client sends it; with the label stable at a version of the first model."""
    configs = [ModelConfig(name=name, base_path=str(path)) for name, path in models]
    if stable is not None:
        configs[0].version_labels["stable"] = stable
    return configs


@pytest.mark.parametrize(
    ("switch", "error", "sentence"),
    [
        ((Load("half", "9"), True), NotFound, "half has no version 9"),
        ((Default("third"), 1), NotFound, "models served here: half"),
        ((Label("half", "gone"), None), NotFound, "half has no label gone"),
        ((Label("half", "stable"), -1), InvalidArgument, "version is -1; expected 0 to"),
        ((Default("half"), 9), FailedPrecondition, "9 of half is not .*; available: 1, 2"),
        ((SplitOf("half", "gone"), share(1, 0.5)), NotFound, "half has no label gone"),
        ((SplitOf("half", ""), share(1, 0.0)), InvalidArgument, "the share is 0 percent"),
        ((SplitOf("half", ""), share(1, 1.5)), InvalidArgument, "the share is 150 percent"),
        ((SplitOf("half", ""), share(9, 0.5)), FailedPrecondition, "available: 1, 2"),
        ((CONFIGURED, sent(("half", Path("/none")))), InvalidArgument, "No versions of servable"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused_and_changes_nothing(scenario, switch, error, sentence):
    subject, value = switch
    with pytest.raises(error, match=sentence):
        subject.switch(scenario.repository, value, ALICE)
    assert (scenario.log(), scenario.answers()) == ([], 2)


def test_a_split_sends_about_its_share_and_the_same_key_always_to_the_same_side(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    SplitOf("half", "stable").switch(scenario.repository, share(2, 0.05), ALICE)
    keys = [f"client {number}" for number in range(4000)]
    taken = {key for key in keys if scenario.answers(label="stable", key=key) == 2}
    assert 0.035 < len(taken) / len(keys) < 0.065  # four standard deviations of a fair 5 %
    assert taken == {key for key in keys if scenario.answers(label="stable", key=key) == 2}
    SplitOf("half", "stable").switch(scenario.repository, share(2, 0.2), ALICE)
    assert taken < {key for key in keys if scenario.answers(label="stable", key=key) == 2}
    SplitOf("half", "stable").switch(scenario.repository, share(2, 1.0), ALICE)
    assert all(scenario.answers(label="stable", key=key) == 2 for key in keys[:100])
    Label("half", "other").switch(scenario.repository, 1, ALICE)
    assert (scenario.answers(version=1), scenario.answers(label="other")) == (1, 1)
    scenario.with_versions(1)  # its version went away
    assert scenario.answers(label="stable") == 1


def test_a_label_with_a_split_is_not_removed(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    SplitOf("half", "stable").switch(scenario.repository, share(2, 0.5), ALICE)
    with pytest.raises(FailedPrecondition, match="end the split first"):
        Label("half", "stable").switch(scenario.repository, None, ALICE)


def keys_answered_by(scenario: Scenario, version: int, label: str | None) -> int:
    return sum(scenario.answers(label=label, key=f"client {number}") == version for number in range(100))


@pytest.mark.parametrize("label", ["stable", None])
def test_moving_a_label_or_the_default_ends_its_split_and_one_undo_brings_back_both(scenario, label):
    def move(version: int) -> None:
        if label:
            Label("half", label).switch(scenario.repository, version, ALICE)
        else:
            Default("half").switch(scenario.repository, version, ALICE)

    move(1)
    SplitOf("half", label or "").switch(scenario.repository, share(2, 0.3), ALICE)
    before = keys_answered_by(scenario, 2, label)
    assert 10 < before < 60
    move(2)
    assert keys_answered_by(scenario, 2, label) == 100
    assert scenario.log()[-1].endswith("30 % to 2 -> none")
    move(1)
    assert keys_answered_by(scenario, 1, label) == 100
    undo(scenario.repository, ALICE)
    assert keys_answered_by(scenario, 2, label) == 100
    undo(scenario.repository, ALICE)
    assert keys_answered_by(scenario, 2, label) == before
    undo(scenario.repository, ALICE)
    assert keys_answered_by(scenario, 1, label) == 100


def test_the_end_of_a_split_is_undone_with_the_move_that_ended_it_and_not_by_itself(scenario):
    Label("half", "stable").switch(scenario.repository, 1, ALICE)
    SplitOf("half", "stable").switch(scenario.repository, share(2, 0.3), ALICE)
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
    assert scenario.log()[-1] == f"{CONFIGURATION.name}: label stable of half: 1 -> 2"
    scenario.config_text = ""
    scenario.scan()
    assert scenario.repository.labels("half") == ({}, {})


def test_a_configuration_that_is_sent_is_a_switch_and_is_undone_with_all_it_brought_about(
    scenario, made_half, tmp_path
):
    shutil.copytree(made_half, tmp_path / "elsewhere" / "other" / "1")
    configs = sent(("half", scenario.models / "half"), ("other", tmp_path / "elsewhere" / "other"), stable=1)
    switch = CONFIGURED.switch(scenario.repository, configs, checked_who("bob", "10.0.0.7"))
    assert (switch.by, switch.before, [each["name"] for each in switch.after]) == (
        Who("bob", "10.0.0.7"),
        None,
        ["half", "other"],
    )
    assert str(switch) == (
        f"configuration: as at the start -> half in {scenario.models}/half, all; other in {tmp_path}/elsewhere/other, all"
    )
    assert scenario.answers(label="stable") == 1
    scenario.scan()
    assert scenario.repository.models() == ["half", "other"]
    back = undo(scenario.repository, ALICE)
    assert (back.undoes, back.after) == (switch.id, None)
    scenario.scan()
    assert scenario.repository.models() == ["half"]
    assert scenario.repository.labels("half") == ({}, {})


def test_configurations_are_undone_one_after_the_other_and_one_that_something_followed_is_not(scenario):
    first = CONFIGURED.switch(scenario.repository, sent(("half", scenario.models / "half")), ALICE)
    second = CONFIGURED.switch(scenario.repository, sent(("half", scenario.models / "half"), stable=2), ALICE)
    assert CONFIGURED.switch(scenario.repository, sent(("half", scenario.models / "half"), stable=2), ALICE) is None
    with pytest.raises(Aborted, match="not in force any more"):
        undo(scenario.repository, ALICE, number=first.id)
    assert undo(scenario.repository, ALICE).undoes == second.id
    assert scenario.repository.labels("half") == ({}, {})
    assert undo(scenario.repository, ALICE).undoes == first.id
    assert scenario.repository.sent_configuration() is None


def test_a_configuration_that_was_sent_ends_with_the_server(made_half, tmp_path):
    file = tmp_path / "switches.jsonl"
    first = started(made_half, tmp_path / "models", file, 1, 2)
    switch = CONFIGURED.switch(first.repository, sent(("half", first.models / "half"), stable=1), ALICE)

    second = Scenario(made_half, tmp_path / "models", file)
    second.scan()
    assert second.repository.labels("half") == ({}, {})
    assert not is_undoable(
        second.repository, next(each for each in second.repository.switches.switches() if each.id == switch.id)
    )


def test_a_label_of_a_configuration_is_moved_whatever_it_is_called_and_no_new_one_is_called_so(scenario):
    odd = 'a"b<c>/d e'
    config = sent(("half", scenario.models / "half"))
    config[0].version_labels[odd] = 1
    CONFIGURED.switch(scenario.repository, config, ALICE)
    Label("half", odd).switch(scenario.repository, 2, ALICE)
    assert scenario.answers(label=odd) == 2
    with pytest.raises(InvalidArgument, match="expected 1 to 64 of the characters"):
        Label("half", odd + "!").switch(scenario.repository, 2, ALICE)


def test_what_was_switched_survives_a_restart_when_a_file_keeps_the_log(made_half, tmp_path):
    file = tmp_path / "switches.jsonl"
    first = Scenario(made_half, tmp_path / "models", file)
    first.config_text = LABELLED.format(stable=1)
    first.with_versions(1, 2)
    Label("half", "stable").switch(first.repository, 2, ALICE)
    Default("half").switch(first.repository, 1, ALICE)
    SplitOf("half", "stable").switch(first.repository, share(1, 1.0), ALICE)
    SplitOf("half", "canary").switch(first.repository, share(2, 0.5), ALICE)
    Label("half", "canary").switch(first.repository, 1, ALICE)  # ends that split
    Shadow("half").switch(first.repository, 2, ALICE)

    second = Scenario(made_half, tmp_path / "models", file)
    second.config_text = first.config_text
    second.scan()
    assert second.repository.labels("half") == ({"stable": 2, "canary": 1}, {})
    assert second.repository.splits() == [("half", "stable", 1, 1.0)]
    assert (second.answers(), second.answers(label="stable"), second.answers(label="canary")) == (1, 1, 1)
    assert second.log() == first.log()
    assert str(undo(second.repository, ALICE)) == "shadow of half: 2 -> none"
    assert str(undo(second.repository, ALICE)) == "label canary of half: 1 -> 2"
    assert second.repository.splits() == [("half", "canary", 2, 0.5), ("half", "stable", 1, 1.0)]


def test_a_configuration_that_changed_while_the_server_was_down_is_followed(made_half, tmp_path):
    file = tmp_path / "switches.jsonl"
    first = Scenario(made_half, tmp_path / "models", file)
    first.config_text = LABELLED.format(stable=1)
    first.with_versions(1, 2)
    Label("half", "canary").switch(first.repository, 1, ALICE)

    second = Scenario(made_half, tmp_path / "models", file)
    second.config_text = LABELLED.format(stable=2)
    second.scan()
    assert second.repository.labels("half") == ({"stable": 2, "canary": 1}, {})


def test_two_processes_with_the_same_file_never_give_a_number_twice(tmp_path):
    one, other = SwitchLog(tmp_path / "switches"), SwitchLog(tmp_path / "switches")
    numbers = [log.add(ALICE, [(Label("half", "stable"), 1, 2)]).id for log in (one, other, other, one)]
    assert numbers == [1, 2, 3, 4]
    assert [each.id for each in one.switches()] == [4, 3, 2, 1]


def test_while_another_process_that_has_read_the_file_lives_switches_are_refused(tmp_path):
    log, change = SwitchLog(tmp_path / "switches"), [(Label("half", "stable"), 1, 2)]
    assert log.add(ALICE, change).id == 1
    code = "from backend.serving.repository.switch_log import *; import sys; SwitchLog(Path(sys.argv[1])); print(); input()"
    reading = [sys.executable, "-c", code, str(tmp_path / "switches")]
    with subprocess.Popen(reading, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(Unavailable, match=f"process {other.pid}.* the switch was not made, try again"):
            log.add(ALICE, change)
        log.note(WATCHER, change)
        log.write()  # what has happened already is written by either
        other.communicate(b"\n")
    assert log.add(ALICE, change).id == 3  # the other one did not take over


def waits(thread: threading.Thread) -> bool:
    thread.join(0.3)
    return thread.is_alive()


def test_while_the_disk_of_the_log_hangs_requests_are_answered_and_the_switch_waits(made_half, tmp_path):
    file = tmp_path / "switches"
    scenario = started(made_half, tmp_path / "models", file, 1, 2)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")  # whoever wants to write waits, as for a disk
        switching = threading.Thread(target=Label("half", "stable").switch, args=(scenario.repository, 1, ALICE))
        switching.start()
        asking = threading.Thread(target=scenario.answers)
        asking.start()
        asking.join(2)
        is_answered = not asking.is_alive()
        assert scenario.repository.labels("half")[0] == {}
        assert waits(switching)
        other.execute("ROLLBACK")
    switching.join(30)
    assert is_answered
    assert scenario.repository.labels("half")[0] == {"stable": 1}


def test_while_the_disk_of_the_models_hangs_requests_are_answered(scenario, monkeypatch):
    hangs, goes_on = threading.Event(), threading.Event()

    def hanging(folder: Path) -> dict[int, Path]:
        hangs.set()
        goes_on.wait(30)
        return version_folders(folder)

    for module in (repository, switches):
        monkeypatch.setattr(module, "version_folders", hanging, raising=False)
    loading = threading.Thread(target=Load("half", "1").switch, args=(scenario.repository, True, ALICE))
    loading.start()
    assert hangs.wait(30)
    asking = threading.Thread(target=scenario.answers)
    asking.start()
    is_held_up = waits(asking)
    goes_on.set()
    for thread in (loading, asking):
        thread.join(30)
    assert not is_held_up
    assert scenario.log()[-1] == "alice: version 1 of half: as the policy says -> loaded"


def test_a_client_cannot_pose_as_the_server():
    for name in ("", WATCHER.name, f" {CONFIGURATION.name}\n"):
        assert checked_who(name, "127.0.0.1").name == "someone"
    assert checked_who(" a\n b ", "").name == "a b"
    assert len(checked_who("x" * 1000, "").name) == 64
