"""What each kind of switch changes, and what it refuses: pure functions of
choices and versions.

Each gives the changes, the main one first; they raise the types of
`dogsnap.errors`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dogsnap.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unimplemented,
)
from dogsnap.routing.choices import Change, Choices
from dogsnap.routing.resolver import answering_version, uses_of
from dogsnap.routing.spec import MAX_INT64
from dogsnap.routing.switches import describe, describe_setting, describe_value

LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
Planner = Callable[[Choices, "Versions"], list[Change]]  # the changes that a switch asks for
ANY = object()  # for `expected`: any value


@dataclass(frozen=True)
class Versions:
    """What is known of a model's versions where they run.

    `available`: by number, largest first. `default`: the one that answers by
    default. `existing`: those on disk or loaded; `unloading`: those that take
    no new requests; `by_policy`: those that the version policy selects.
    `incomplete`: what folders lack. `engines`: behind a gateway, the versions
    of each engine by its address, None for one that does not answer.
    """

    model: str
    available: tuple[int, ...]
    default: int | None = None
    existing: frozenset[int] = frozenset()
    unloading: frozenset[int] = frozenset()
    by_policy: frozenset[int] = frozenset()
    follows_latest: bool = False
    incomplete: Mapping[int, str] = field(default_factory=dict)
    engines: Mapping[str, frozenset[int] | None] = field(default_factory=dict)

    def is_available(self, number: int) -> bool:
        """Whether it runs here, or on every engine."""
        return number in self.available and None not in self.engines.values()

    def without_silent_engines(self) -> "Versions":
        """To go back, it is enough that the engines that answer have a version."""
        answering = {}
        for address, numbers in self.engines.items():
            if numbers is not None:
                answering[address] = numbers
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
        return FailedPrecondition("; ".join(reasons))


def change_label(
    choices: Choices, versions: Versions, label: str, version: int | None, expected: Any = ANY
) -> list[Change]:
    """Point a label to a version, which it waits for; None removes it.

    Ends its split.

    `expected`: the version that it must point to before; None: there must be no
    such label.
    """
    now = choices.labels.get(label)
    change = Change(versions.model, "label", label, now, version)
    # A configuration may name labels in any way, and these can be moved.
    if now is None and not LABEL.fullmatch(label):
        raise InvalidArgument(
            f"label is {label!r}; expected 1 to 64 of the characters A-Z a-z 0-9 _ . -"
        )
    if expected is not ANY and now != expected:
        was, found = describe_value("label", expected), describe_value("label", now)
        raise Aborted(
            f"{describe_setting(change)} points to {found}, not {was}: somebody moved it; "
            "see `dogsnap models list`"
        )
    if version is None:
        if now is None:
            raise NotFound(f"{versions.model} has no label {label}; its labels: {_labels(choices)}")
        if label in choices.splits:
            raise FailedPrecondition(f"{describe_setting(change)} has a split; end the split first")
    else:
        _check_label_target(choices, versions, version)
    if now == version:
        return []
    return [change, *label_side_changes(choices, versions, change)]


def label_side_changes(choices: Choices, versions: Versions, change: Change) -> list[Change]:
    """What comes with the move of a label: the end of its split, and who
    answers while it waits.
    """
    label, until = change.name, None
    if change.after is not None and not versions.is_available(change.after):
        until = answering_version(choices, label, versions.is_available)
    side_changes = end_split(choices, versions, label)
    before = choices.until.get(label)
    if before != until:
        side_changes.append(Change(versions.model, "until", label, before, until))
    return side_changes


def change_default(choices: Choices, versions: Versions, version: int | None) -> list[Change]:
    """Choose the default, which ends its split.

    None: the largest that is available now, or always with the version policy `latest`.
    """
    if version is None and not versions.follows_latest:
        version = next(iter(versions.available), None)
    if version is not None:
        check_available(choices, versions, version)
    change = Change(versions.model, "default", "", choices.default, version)
    if change.before == change.after:
        return []
    return [change, *end_split(choices, versions, "")]


def forget_default(choices: Choices, versions: Versions) -> list[Change]:
    """As if none had been chosen, which ends its split."""
    if choices.default is None:
        return []
    change = Change(versions.model, "default", "", choices.default, None)
    return [change, *end_split(choices, versions, "")]


def change_split(
    choices: Choices, versions: Versions, label: str, version: int | None, share: float
) -> list[Change]:
    """Send a share (0 to 1) of a label's requests, or with "" the default's, to
    a version.

    A share of 0 ends the split.
    """
    value = {"version": version, "share": share} if share else None
    if value is not None:
        if label and label not in choices.labels:
            raise NotFound(
                f"{versions.model} has no label {label} to split; its labels: {_labels(choices)}"
            )
        if version is None:
            raise InvalidArgument("version is null; expected the version that gets the share")
        if not 0 < share <= 1:
            raise InvalidArgument(
                f"the share is {100 * share:g} percent; expected more than 0, at most 100"
            )
        check_available(choices, versions, version)
    split = Change(versions.model, "split", label, choices.get("split", label), value)
    return [split, *end_rollout(choices, versions, label)]


def change_shadow(choices: Choices, versions: Versions, version: int | None) -> list[Change]:
    """Choose the shadow version, which gets copies of the photos; None ends it."""
    if version is not None:
        check_available(choices, versions, version)
    return [Change(versions.model, "shadow", "", choices.shadow, version)]


def change_load(choices: Choices, versions: Versions, version: int, value: bool) -> list[Change]:
    """Keep a version loaded, or unloaded."""
    model = versions.model
    if versions.engines:
        raise Unimplemented(
            f"the engines behind this gateway load versions of {model} themselves: add or remove "
            "the version in their models folder, or send this to an engine (--url)"
        )
    if version not in versions.existing:
        raise NotFound(
            f"{model} has no version {version}; its versions: {_join(sorted(versions.existing))}"
        )
    if value and (lacks := versions.incomplete.get(version)):
        raise FailedPrecondition(
            f"version {version} of {model} cannot be loaded: {lacks}; expected all files of a "
            "SavedModel, copy them there and load it again"
        )
    if not value:
        _check_unused(choices, versions, version)
    return [Change(model, "load", str(version), choices.loads.get(version), value)]


def undo_changes(
    choices: Choices, versions: Versions, changes: list[Change], text: str
) -> list[Change]:
    """The changes that bring back the values before `changes`; `text` describes these."""
    back = []
    for change in changes:
        value = change.before
        if change.kind in ("default", "shadow") and value is not None:
            check_available(choices, versions, value)
        elif change.kind in ("split", "rollout") and value is not None:
            check_available(choices, versions, value["version"])
            if change.kind == "rollout":  # otherwise its next step, which is due, would follow
                value = {**value, "is_paused": True}
        elif change.kind == "label" and value is not None:
            _check_staying(choices, versions, value)
            if not versions.is_available(value):
                raise FailedPrecondition(f"cannot undo {text}: {versions.refuse(value).message}")
        elif change.kind == "load":
            unloads = int(change.name) not in versions.by_policy if value is None else not value
            if unloads:
                _check_unused(choices, versions, int(change.name))
        now = choices.get(change.kind, change.name)
        back.append(Change(change.model, change.kind, change.name, now, value))
    split_names = {change.name for change in back if change.kind == "split"}
    for change in changes:
        if change.kind in ("default", "label") and change.name not in split_names:
            back += end_split(choices, versions, change.name)
    return back


def withdraw(choices: Choices, versions: Versions, change: Change) -> list[Change]:
    """Send no more requests to the version that a split, or the move of a label
    or default, chose.
    """
    if change.kind == "split":
        return end_split(choices, versions, change.name)
    if change.kind == "label":
        return change_label(choices, versions, change.name, change.before)
    if change.before is not None:
        return change_default(choices, versions, change.before)
    return forget_default(choices, versions)


@dataclass(frozen=True)
class Replacement:
    """A version that takes over requests for a label, or with "" for the
    default, from another.
    """

    label: str
    before: int
    after: int


def replacements(
    choices: Choices, versions: Versions, changes: list[Change]
) -> tuple[list[Replacement], list[str]]:
    """What the changes replace; and, as sentences, what cannot be compared with it."""
    found, unknown = [], []
    for change in changes:
        label = change.name
        if change.kind in ("split", "rollout") and change.after:
            after = change.after["version"]
        elif change.kind in ("default", "label"):
            after = change.after
        else:
            continue
        is_default = change.kind == "default" or not label
        if is_default and after is None:
            after = next(iter(versions.available), None)
        before = answering_version(choices, label, versions.is_available)
        if is_default:
            before = versions.default
        if None in (before, after) or before == after or not versions.is_available(before):
            continue
        replacement = Replacement("" if is_default else label, before, after)
        if versions.is_available(after):
            found += [] if replacement in found else [replacement]
        else:
            unknown.append(
                f"version {after} is not available yet: it was not compared with {before}"
            )
    return found, unknown


def check_guard(changes: Sequence[Change], replaced: Sequence[Replacement]) -> None:
    """Raises InvalidArgument unless a guard can compare what the changes replace."""
    if not changes:
        return
    first = changes[0]
    is_whole = first.kind == "split" and first.after is not None and first.after["share"] == 1
    if first.after is None or is_whole or not replaced:
        raise InvalidArgument(
            f"{describe(first)}: that leaves a guard nothing to compare with; expected a split of "
            "more than 0 and less than 100 percent, or a label or default that moves from one "
            "available version to another"
        )


def check_available(choices: Choices, versions: Versions, number: int) -> None:
    """Raises FailedPrecondition unless requests can be sent to a version now."""
    _check_staying(choices, versions, number)
    if not versions.is_available(number):
        raise versions.refuse(number)


def _check_label_target(choices: Choices, versions: Versions, number: int) -> None:
    """A label may wait for its version, but not behind a gateway, nor for one
    that is unloaded.
    """
    if not 0 <= number <= MAX_INT64:
        raise InvalidArgument(f"version is {number}; expected 0 to {MAX_INT64}")
    if versions.engines:
        check_available(choices, versions, number)
    _check_staying(choices, versions, number)


def _check_staying(choices: Choices, versions: Versions, number: int) -> None:
    """Raises FailedPrecondition for a version that is being unloaded or kept unloaded."""
    if number in versions.unloading:
        state = "is being unloaded"
    elif choices.loads.get(number) is False:
        state = "was unloaded by hand"
    else:
        return
    raise FailedPrecondition(f"version {number} of {versions.model} {state}; load it again first")


def _check_unused(choices: Choices, versions: Versions, number: int) -> None:
    """Raises FailedPrecondition for a version whose requests would be left
    without an answer.
    """
    uses = uses_of(choices, number, versions.default, versions.is_available)
    if versions.available == (number,):
        uses.append("the last one available")
    if uses:
        raise FailedPrecondition(
            f"version {number} of {versions.model} is in use: {', '.join(uses)}; move that first"
        )


def end_split(choices: Choices, versions: Versions, label: str) -> list[Change]:
    split = choices.get("split", label)
    ends = [Change(versions.model, "split", label, split, None)] if split else []
    return ends + end_rollout(choices, versions, label)


def end_rollout(choices: Choices, versions: Versions, label: str) -> list[Change]:
    rollout = choices.get("rollout", label)
    return [Change(versions.model, "rollout", label, rollout, None)] if rollout else []


def _labels(choices: Choices) -> str:
    return ", ".join(choices.labels) or "none"


def _join(numbers: Any) -> str:
    return ", ".join(map(str, numbers)) or "none"
