"""How switches change what is chosen for a model, and what is refused: pure
functions of choices and versions.

A planner makes the next value of a model from the one now. `find_changes` adds
what comes along, checks the new value, whoever made it, and returns the
difference. All raise the types of `dogsnap.errors`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dogsnap.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unimplemented,
)
from dogsnap.routing.choices import HIDDEN, KINDS, Change, Choices
from dogsnap.routing.resolver import answering_version, uses_of
from dogsnap.routing.switch_log import WATCHER, Switch, describe, describe_value

LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
Planner = Callable[[Choices, "Versions"], Choices]  # the next value of a model
ANY = object()  # for `expected`: any value


@dataclass(frozen=True)
class Versions:
    """What is known of a model's versions where they run.

    `available`: by number, largest first. `default`: the one that answers by
    default. `existing`: those on disk or loaded; `unloading`: those that take
    no new requests; `by_policy`: those that the version policy selects.
    `faults`: why folders cannot be loaded. `engines`: behind a gateway, the
    versions of each engine by its address, None for one that does not answer.
    `unreadable`: why it is not known what is on disk.
    """

    model: str
    available: tuple[int, ...]
    default: int | None = None
    existing: frozenset[int] = frozenset()
    unloading: frozenset[int] = frozenset()
    by_policy: frozenset[int] = frozenset()
    follows_latest: bool = False
    faults: Mapping[int, str] = field(default_factory=dict)
    engines: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    unreadable: str = ""

    def is_available(self, number: int) -> bool:
        """Whether it runs here, or on every engine."""
        return number in self.available and None not in self.engines.values()

    def without_silent_engines(self) -> "Versions":
        """To go back, it is enough that the engines that answer have a version."""
        answering = {address: seen for address, seen in self.engines.items() if seen is not None}
        return replace(self, engines=answering)

    def refuse(self, number: int) -> FailedPrecondition:
        """The error for a version that cannot be chosen, with what is available and why."""
        reasons = [f"version {number} of {self.model} is not available"]
        reasons.append(f"available: {_join(sorted(self.available))}")
        for address, numbers in self.engines.items():
            if numbers is None:
                reasons.append(f"the engine at {address} does not answer")
            elif number not in numbers:
                reasons.append(f"the engine at {address} lacks it")
        if self.unreadable:
            reasons.append(self.unreadable)
        return FailedPrecondition("; ".join(reasons))


# -- planners ------------------------------------------------------------------------------------


def change_label(
    choices: Choices, versions: Versions, label: str, version: int | None, expected: Any = ANY
) -> Choices:
    """Point a label to a version, which it waits for; None removes it.

    `expected`: the version that it must point to before; None: there must be no
    such label.
    """
    now = choices.labels.get(label)
    # A configuration may name labels in any way, and these can be moved.
    if now is None and not LABEL.fullmatch(label):
        raise InvalidArgument(
            f"label is {label!r}; expected 1 to 64 of the characters A-Z a-z 0-9 _ . -"
        )
    if expected is not ANY and now != expected:
        was, found = describe_value("label", expected), describe_value("label", now)
        raise Aborted(
            f"label {label} of {versions.model} points to {found}, not {was}: somebody moved it; "
            "see `dogsnap models list`"
        )
    if now is None and version is None:
        raise NotFound(
            f"{versions.model} has no label {label}; its labels: {_join(choices.labels)}"
        )
    return choices.with_value("label", label, version)


def change_default(choices: Choices, versions: Versions, version: int | None) -> Choices:
    """Choose the default.

    None: the largest that is available now, or always with the version policy `latest`.
    """
    if version is None and not versions.follows_latest:
        version = next(iter(versions.available), None)
    return choices.with_value("default", "", version)


def change_split(
    choices: Choices, versions: Versions, label: str, version: int | None, share: float
) -> Choices:
    """Send a share (0 to 1) of a label's requests, or with "" the default's, to
    a version.

    A share of 0 ends the split. A rollout ends, even if its split stays the same.
    """
    if share and version is None:
        raise InvalidArgument("version is null; expected the version that gets the share")
    split = {"version": version, "share": share} if share else None
    return choices.with_value("rollout", label, None).with_value("split", label, split)


def change_shadow(choices: Choices, versions: Versions, version: int | None) -> Choices:
    """Choose the shadow version, which gets copies of the requests; None ends it."""
    return choices.with_value("shadow", "", version)


def change_load(choices: Choices, versions: Versions, version: int, value: bool | None) -> Choices:
    """Keep a version loaded, or unloaded; None: as the version policy says."""
    model = versions.model
    if value is not None:
        _refuse_engines(versions)
    if value is not None and version not in versions.existing:
        if versions.unreadable:
            raise FailedPrecondition(versions.unreadable)
        raise NotFound(
            f"{model} has no version {version}; its versions: {_join(sorted(versions.existing))}"
        )
    if value and (fault := versions.faults.get(version)):
        raise FailedPrecondition(
            f"version {version} of {model} cannot be loaded: {fault}; expected all files of a "
            "SavedModel, copy them there and load it again"
        )
    if value:
        choices = choices.with_value("unload", "", None)
    return choices.with_value("load", str(version), value)


def change_unload(choices: Choices, versions: Versions, is_unloaded: bool) -> Choices:
    """Unload all versions of a model, also those that come, until it is loaded again."""
    _refuse_engines(versions)
    return choices.with_value("unload", "", is_unloaded or None)


def _refuse_engines(versions: Versions) -> None:
    if versions.engines:
        raise Unimplemented(
            f"the engines behind this gateway load versions of {versions.model} themselves: add or "
            "remove them in their models folder, or send this to an engine (--url)"
        )


def undo(choices: Choices, versions: Versions, switch: Switch) -> Choices:
    """Bring back the values from before a switch.

    Raises Aborted if those of the switch are not in force.
    """
    check_in_force(choices, versions, switch)
    for change in sorted(switch.changes, key=lambda change: KINDS.index(change.kind)):
        value = change.before
        if change.model != versions.model:
            continue
        if change.kind == "label" and value is None:
            choices = choices.with_value("split", change.name, None)
        elif change.kind == "label" and not versions.is_available(value):
            raise FailedPrecondition(f"cannot undo {switch}: {versions.refuse(value).message}")
        elif change.kind == "rollout" and value is not None:
            is_same_step = (change.after or {}).get("step") == value["step"]
            if not is_same_step:  # otherwise its next step, which is due, would follow
                value = {**value, "is_paused": True}
        choices = choices.with_value(change.kind, change.name, value)
    return choices


def withdraw(choices: Choices, versions: Versions, switch: Switch, change: Change) -> Choices:
    """Send no more requests to the version that a split, or the move of a label
    or default, chose.

    `change`: that of the switch. Raises Aborted if it is not in force.
    """
    if choices.get(change.kind, change.name) != change.after:
        raise not_in_force(switch)
    value = None if change.kind == "split" else change.before
    return choices.with_value(change.kind, change.name, value)


def check_in_force(choices: Choices, versions: Versions, switch: Switch) -> None:
    """Raises Aborted unless the values of this model are as `switch` left them."""
    # It set a split again so that its guard counts afresh: there is nothing to bring back.
    if all(change.before == change.after for change in switch.changes):
        raise not_in_force(switch)
    for change in switch.changes:
        now = choices.get(change.kind, change.name)
        if switch.by == WATCHER and now is None:
            now = versions.default
        if change.model == versions.model and change.kind != HIDDEN and now != change.after:
            raise not_in_force(switch)
    if switch.by == WATCHER and switch.changes[0].before not in versions.available:
        raise Aborted(
            f"switch {switch.id} ({switch}) cannot be undone: it came about by itself, and no "
            "version that answered before is available; choose a default instead"
        )


def not_in_force(switch: Switch) -> Aborted:
    return Aborted(
        f"switch {switch.id} ({switch}) is not in force any more; see the log of switches"
    )


# -- what comes along, and checks ----------------------------------------------------------------


def find_changes(
    planner: Planner, choices: Choices, versions: Versions, is_guarded: bool = False
) -> list[Change]:
    """What a planner changes, the main setting first."""
    after = keep_answering(choices, planner(choices, versions), versions)
    # Loads first: a version that is unloaded by the same switch is named as in use.
    for kind, name in sorted(after.edits, key=lambda setting: setting[0] != "load"):
        _check(kind, name, choices, after, versions)
    return after.changes_since(choices, versions.model, is_guarded)


def keep_answering(before: Choices, after: Choices, versions: Versions) -> Choices:
    """Where a label or default has moved, the version that answered goes on while
    the new one is not there: here, or at another server that loads it later.
    """
    for label in {"", *before.labels, *after.labels}:
        number, until = after.of(label), None
        if number == before.of(label):
            continue
        if number is not None:
            until = answering_version(before, label, versions.is_available)
            if not label:
                until = versions.default
            elif until is None:  # as where undo brings a label back
                until = after.until.get(label)
        elif not label and not versions.follows_latest:
            until = after.until.get("")  # as a planner says, or from before what was chosen
        after = after.with_value(HIDDEN, label, None if until == number else until)
    return after


def _check(kind: str, name: str, before: Choices, after: Choices, versions: Versions) -> None:
    """Raises unless a setting can have its value in `after`."""
    # A label may wait for its version, but not behind a gateway, whose engines load versions.
    may_wait = bool(name) and not versions.engines
    value = after.get(kind, name)
    if kind == "load":
        _check_unused(after, versions, int(name))
    elif kind == "label" and value is None:
        if name in before.splits and ("split", name) not in after.edits:
            raise FailedPrecondition(
                f"label {name} of {versions.model} has a split; end the split first"
            )
    elif value is None:
        return
    elif kind in ("label", "default", "shadow"):
        _check_version(after, versions, value, may_wait)
    elif kind == "split":
        _check_share(after, versions, name, value["version"])
    elif kind == "rollout" and name not in before.rollouts:  # of one that runs, its splits are
        if value["steps"][0] == 100:  # it has no split
            _check_version(after, versions, value["version"], may_wait)
        else:
            _check_share(after, versions, name, value["version"])


def _check_share(after: Choices, versions: Versions, label: str, number: int) -> None:
    if label and label not in after.labels:
        raise NotFound(
            f"{versions.model} has no label {label} to split; its labels: {_join(after.labels)}"
        )
    _check_version(after, versions, number)


def _check_version(after: Choices, versions: Versions, number: int, may_wait: bool = False) -> None:
    """Raises unless requests can be sent to a version now, or, if it may wait,
    once it is there.
    """
    state = "is being unloaded" if number in versions.unloading else ""
    if after.keeps_out(number):
        state = state or "was unloaded by hand"
    if state:
        raise FailedPrecondition(
            f"version {number} of {versions.model} {state}; load it again first"
        )
    if not may_wait and not versions.is_available(number):
        raise versions.refuse(number)


def _check_unused(after: Choices, versions: Versions, number: int) -> None:
    """Raises FailedPrecondition for a version that is to be unloaded and whose
    requests would be left without an answer.
    """
    if number in after.versions_to_load(versions.by_policy, [number]):
        return
    default = versions.default
    if after.default is not None and versions.is_available(after.default):
        default = after.default
    uses = uses_of(after, number, default, versions.is_available)
    if versions.available == (number,):
        uses.append("the last one available")
    if uses:
        raise FailedPrecondition(
            f"version {number} of {versions.model} is in use: {', '.join(uses)}; move that first"
        )


def _join(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values)) or "none"


# -- what a switch replaces ----------------------------------------------------------------------


def replacements(
    choices: Choices, versions: Versions, changes: Iterable[Change]
) -> tuple[list[tuple[int, int]], list[str]]:
    """The versions that lose requests by the changes, each with the one that
    gets them; and, as sentences, what cannot be compared.
    """
    found: list[tuple[int, int]] = []
    unknown: list[str] = []
    for change in changes:
        label, after = change.name, change.after
        if change.kind in ("split", "rollout") and after is not None:
            after = after["version"]
        elif change.kind not in ("default", "label"):
            continue
        before = versions.default
        if label:
            before = answering_version(choices, label, versions.is_available)
        elif after is None:
            after = next(iter(versions.available), None)
        if before is None or after is None or before == after:
            continue
        if not versions.is_available(before):
            continue
        if not versions.is_available(after):
            unknown.append(
                f"version {after} is not available yet: it was not compared with {before}"
            )
        elif (before, after) not in found:
            found.append((before, after))
    return found, unknown


def check_guard(changes: Sequence[Change], replaced: Sequence[tuple[int, int]]) -> None:
    """Raises InvalidArgument unless a guard can compare what the changes replace."""
    if not changes:
        return
    first = next((change for change in changes if change.after is not None), changes[0])
    is_whole = first.kind == "split" and first.after is not None and first.after["share"] == 1
    if first.after is None or is_whole or not replaced:
        raise InvalidArgument(
            f"{describe(first)}: that leaves a guard nothing to compare with; expected a split of "
            "more than 0 and less than 100 percent, or a label or default that moves from one "
            "available version to another"
        )
