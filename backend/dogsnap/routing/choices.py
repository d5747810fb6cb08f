"""The value of a model: its chosen default, labels, splits, rollouts, shadow
and loads; immutable.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

BUCKETS = 2**32


@dataclass(frozen=True)
class Split:
    """`share` in (0, 1] of the requests goes to `version`."""

    version: int
    share: float

    def takes(self, model: str, key: str) -> bool:
        """Whether a client with this key is in the share; it stays in while the
        share grows.

        The version is hashed, too: not always the same clients get new versions
        first.
        """
        digest = hashlib.blake2b(f"{model}/{self.version}/{key}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) < self.share * BUCKETS


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

    `kind` is one of `dogsnap.routing.switches.KINDS`; `name` tells settings of
    a kind apart.
    """

    model: str
    kind: str
    name: str
    before: Any
    after: Any


class Choices:
    """What was chosen for a model, from the values of its settings by kind and name."""

    def __init__(self, values: Mapping[tuple[str, str], Any] | None = None):
        self._values = dict(values or {})
        self.default: int | None = self.get("default")
        self.shadow: int | None = self.get("shadow")
        self.labels: dict[str, int] = self._values_of("label")
        # The versions that answer for labels while these wait for theirs.
        self.until: dict[str, int] = self._values_of("until")
        self.splits: dict[str, Split] = {}  # by label; with "" that of the default
        for label, value in self._values_of("split").items():
            self.splits[label] = Split(**value)
        self.rollouts: dict[str, Rollout] = {}  # by label; with "" that of the default
        for label, value in self._values_of("rollout").items():
            self.rollouts[label] = Rollout(**value)
        # Whether a version is kept loaded or unloaded; the version policy decides on others.
        self.loads: dict[int, bool] = {}
        for number, is_loaded in self._values_of("load").items():
            self.loads[int(number)] = is_loaded

    def get(self, kind: str, name: str = "") -> Any:
        """The value of a setting; None if nothing was chosen."""
        return self._values.get((kind, name))

    def is_empty(self) -> bool:
        return not self._values

    def with_changes(self, changes: Iterable[Change]) -> "Choices":
        values = dict(self._values)
        for change in changes:
            values.pop((change.kind, change.name), None)
            if change.after is not None:
                values[change.kind, change.name] = change.after
        return Choices(values)

    def versions_to_load(self, by_policy: Iterable[int], existing: Iterable[int]) -> set[int]:
        """The versions that are chosen or selected by the policy, without those
        to be unloaded.
        """
        used = {*by_policy, self.default, self.shadow}
        used.update(split.version for split in self.splits.values())
        used.update(rollout.version for rollout in self.rollouts.values())
        return {number for number in existing if self.loads.get(number, number in used)}

    def _values_of(self, kind: str) -> dict[str, Any]:
        found = {}
        for (of_kind, name), value in sorted(self._values.items()):
            if of_kind == kind:
                found[name] = value
        return found
