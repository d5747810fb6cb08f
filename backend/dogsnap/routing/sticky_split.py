"""A share of the clients who get another version, always the same ones."""

import hashlib
from dataclasses import dataclass

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
