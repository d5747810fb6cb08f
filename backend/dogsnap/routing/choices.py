"""The value of a model: its chosen default, labels, splits, rollouts, shadow
and loads; immutable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dogsnap.routing.sticky_split import Split

# The configuration of a server, which is no part of a model's value.
CONFIGURATION_KIND = "configuration"
HIDDEN = "until"  # goes along with a label or default, and is not shown
# The settings of a model, in the order in which changes are shown: the main one first.
KINDS = (
    CONFIGURATION_KIND,
    "default",
    "label",
    "split",
    "rollout",
    "shadow",
    "load",
    "unload",
    HIDDEN,
)
GUARDED_KINDS = ("split", "label", "default")  # which version requests are sent to
# What ends when a setting takes another value.
ENDED_KINDS = {
    "default": ("split", "rollout"),
    "label": ("split", "rollout"),
    "split": ("rollout",),
}
Setting = tuple[str, str]  # kind and name


@dataclass(frozen=True)
class Rollout:
    """A version takes over by `steps` in percent, the last of which is 100.

    Each lasts at least `every` seconds and `requests` of the new version.
    `step`: the index of the one in force since `since` (UTC in ISO 8601); -1:
    the first one begins then.
    """

    version: int
    steps: Sequence[float]
    every: float
    requests: int
    since: str
    step: int = -1
    is_paused: bool = False

    def to_value(self) -> dict[str, Any]:
        return {**asdict(self), "steps": list(self.steps)}


@dataclass(frozen=True)
class Change:
    """A setting of a model and its value before and after; None: there was or
    is none.

    `kind` is one of KINDS; `name` tells settings of a kind apart.
    """

    model: str
    kind: str
    name: str
    before: Any
    after: Any


class Choices:
    """What was chosen for a model, from the values of its settings by kind and name.

    `edits`: the settings that `with_value` has set, perhaps to the value that
    they had.
    """

    def __init__(
        self, values: Mapping[Setting, Any] | None = None, edits: frozenset[Setting] = frozenset()
    ):
        given = values or {}
        self._values = {setting: value for setting, value in given.items() if value is not None}
        self.edits = edits
        self.default: int | None = self.get("default")
        self.shadow: int | None = self.get("shadow")
        self.labels: dict[str, int] = self._values_of("label")
        # The versions that answer for labels, and with "" by default, where that which was
        # chosen is not available.
        self.until: dict[str, int] = self._values_of("until")
        # By label; with "" those of the default.
        splits, rollouts = self._values_of("split"), self._values_of("rollout")
        self.splits = {label: Split(**value) for label, value in splits.items()}
        self.rollouts = {label: Rollout(**value) for label, value in rollouts.items()}
        # Whether a version is kept loaded or unloaded; the version policy decides on others.
        loads = self._values_of("load")
        self.loads: dict[int, bool] = {int(number): value for number, value in loads.items()}
        self.is_unloaded: bool = self.get("unload") is True  # the model, with all of its versions

    def get(self, kind: str, name: str = "") -> Any:
        """The value of a setting; None if nothing was chosen."""
        return self._values.get((kind, name))

    def of(self, label: str) -> int | None:
        """The version of a label, or with "" the default."""
        return self.labels.get(label) if label else self.default

    @property
    def answering(self) -> set[int]:
        """The versions that requests are sent to."""
        chosen = {self.default, *self.labels.values()}
        chosen.update(split.version for split in self.splits.values())
        return {number for number in chosen if number is not None}

    def keeps_out(self, number: int) -> bool:
        """Whether this version was unloaded, by itself or with its model."""
        return self.is_unloaded or self.loads.get(number) is False

    def with_value(self, kind: str, name: str, value: Any) -> "Choices":
        """With another value of a setting; None: nothing chosen.

        A default or label that moves ends its split and rollout, a split that
        changes its rollout.
        """
        values = {**self._values, (kind, name): value}
        if value != self.get(kind, name):
            for ended_kind in ENDED_KINDS.get(kind, ()):
                values[ended_kind, name] = None
        return Choices(values, self.edits | {(kind, name)})

    def with_edits_since(self, before: "Choices") -> "Choices":
        """Without the edits that leave the value of `before`."""
        edits = {edit for edit in self.edits if self.get(*edit) != before.get(*edit)}
        return Choices(self._values, frozenset(edits))

    def with_changes(self, changes: Iterable[Change]) -> "Choices":
        """As an entry of the log says, which names all that ended."""
        values = dict(self._values)
        for change in changes:
            values[change.kind, change.name] = change.after
        return Choices(values)

    def changes_since(
        self, before: "Choices", model: str, is_guarded: bool = False
    ) -> list[Change]:
        """The settings whose values differ from `before`, in the order of KINDS.

        With a guard also, at the end, splits that were set again: it counts
        afresh.
        """
        changes, again = [], []
        for kind in KINDS:
            for name in sorted(before._values_of(kind) | self._values_of(kind)):
                change = Change(model, kind, name, before.get(kind, name), self.get(kind, name))
                if change.before != change.after:
                    changes.append(change)
                elif is_guarded and kind == "split" and (kind, name) in self.edits:
                    again.append(change)
        return changes + again

    def versions_to_load(self, by_policy: Iterable[int], existing: Iterable[int]) -> set[int]:
        """The versions that are chosen or selected by the policy, without those
        to be unloaded.
        """
        if self.is_unloaded:
            return set()
        used = {*by_policy, self.default, self.shadow}
        used.update(split.version for split in self.splits.values())
        used.update(rollout.version for rollout in self.rollouts.values())
        return {number for number in existing if self.loads.get(number, number in used)}

    def _values_of(self, kind: str) -> dict[str, Any]:
        values = sorted(self._values.items())
        return {name: value for (of_kind, name), value in values if of_kind == kind}
