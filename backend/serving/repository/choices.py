"""Which version answers a request that names a label or nothing: the chosen default, splits and shadow."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

BUCKETS = 2**32


@dataclass(frozen=True)
class Split:
    """`share` in (0, 1] of the requests goes to `version`."""

    version: int
    share: float

    def takes(self, model: str, key: str) -> bool:
        """Whether the request with this key is in the share: the same key always is or never is, at this or a larger share.

        The version is hashed in as well, so that it is not the same people who get every new version first.
        """
        digest = hashlib.blake2b(f"{model}/{self.version}/{key}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) < self.share * BUCKETS

    def to_json(self) -> dict[str, Any]:
        return {"version": self.version, "share": self.share}


@dataclass
class Choices:
    """What people chose for a model, over its configuration and its folders; guarded by the repository's lock.

    `default`: the version that answers when none is named, None for the largest; `shadow`: the version that sees photos
    without answering; `splits`: by label, "" for the default; `loads`: versions told to be loaded (True) or not (False).
    """

    default: int | None = None
    shadow: int | None = None
    splits: dict[str, Split] = field(default_factory=dict)
    loads: dict[int, bool] = field(default_factory=dict)

    def aspired(self, by_policy: Iterable[int], there: Iterable[int]) -> set[int]:
        """The versions to hold loaded: those the policy wants and those chosen to answer or to see photos.

        What somebody told to be loaded, or not, goes before that.
        """
        told = {number for number, wanted in self.loads.items() if wanted}
        kept_out = {number for number, wanted in self.loads.items() if not wanted}
        chosen = {self.default, self.shadow, *(split.version for split in self.splits.values())}
        wanted = {*by_policy, *told, *chosen}
        return {number for number in there if number in wanted} - kept_out
