"""What was chosen of versions: the default, labels, splits, shadow, loads. `resolver.py` decides which version answers."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

BUCKETS = 2**32


@dataclass(frozen=True)
class Split:
    """`share` in (0, 1] of the requests goes to `version`."""

    version: int
    share: float

    def takes(self, model: str, key: str) -> bool:
        """Whether a client with this key is in the share; it stays in while the share grows.

        The version is hashed, too: not always the same clients get new versions first.
        """
        digest = hashlib.blake2b(f"{model}/{self.version}/{key}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) < self.share * BUCKETS


class Choices(dict[tuple[str, str], Any]):
    """What was chosen for a model, as the log of switches has it, by kind and name ("" for a kind of which there is one)."""

    def of(self, kind: str) -> dict[str, Any]:
        return {name: value for (each, name), value in self.items() if each == kind}

    @property
    def default(self) -> int | None:
        return self.get(("default", ""))

    @property
    def shadow(self) -> int | None:
        return self.get(("shadow", ""))

    def split(self, label: str) -> Split | None:
        value = self.get(
            ("split", label)
        )  # asked for each request, hence without building all splits
        return value and Split(**value)

    def splits(self) -> dict[str, Split]:
        """By label; with "" that of the default."""
        return {label: Split(**value) for label, value in sorted(self.of("split").items())}

    def load(self, number: int) -> bool | None:
        """Whether a version is to be kept loaded (True) or unloaded (False); None: by the version policy."""
        return self.get(("load", str(number)))

    def aspired(self, by_policy: Iterable[int], existing: Iterable[int]) -> set[int]:
        """The versions to keep loaded: told to be, or not told and selected by the policy or used by default, split, shadow."""
        used = {
            *by_policy,
            self.default,
            self.shadow,
            *(split.version for split in self.splits().values()),
        }
        told = {number: self.load(number) for number in existing}
        return {
            number for number, load in told.items() if (number in used if load is None else load)
        }
