"""What was chosen of versions: the default, splits and shadow. `Model.default` decides which version answers."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

BUCKETS = 2**32


@dataclass(frozen=True)
class Split:
    """`share` in (0, 1] of the requests goes to `version`."""

    version: int
    share: float

    def takes(self, model: str, key: str) -> bool:
        """Whether a client with this sticky key is in the share; a client in it stays in it while the share grows.

        The version is part of the hash, so that not always the same clients get new versions first.
        """
        digest = hashlib.blake2b(f"{model}/{self.version}/{key}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) < self.share * BUCKETS


@dataclass
class Choices:
    """The administrators' choices for a model, on top of its configuration; guarded by the repository's lock.

    `default`: the chosen default version; `shadow`: the shadow version; `splits`: by label, "" for the
    default; `loads`: versions to keep loaded (True) or unloaded (False).
    """

    default: int | None = None
    shadow: int | None = None
    splits: dict[str, Split] = field(default_factory=dict)
    loads: dict[int, bool] = field(default_factory=dict)

    def aspired(self, by_policy: Iterable[int], existing: Iterable[int]) -> set[int]:
        """The versions to keep loaded: those of the version policy and those in use by a default, split or shadow.

        Explicit loads and unloads take precedence.
        """
        used = {*by_policy, self.default, self.shadow, *(split.version for split in self.splits.values())}
        return {number for number in existing if self.loads.get(number, number in used)}
