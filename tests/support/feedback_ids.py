"""Ids that take feedback, signed as a server signs them that was started with SECRET."""

import time

from itsdangerous import TimestampSigner

from backend.middleware.request_ids import new_id
from backend.serving.feedback.request_ids import Signer

SECRET = "0123456789abcdef0123456789abcdef"


def signed(
    age: float = 0, secret: str = SECRET, version: int = 2, split: int = 0, phone: str = "", model: str = "inception_v3"
) -> str:
    """The id of an answer `age` seconds ago that named the version's first breed, and that the app asks about."""

    class Then(TimestampSigner):
        def get_timestamp(self) -> int:
            return int(time.time() - age)

    facts = {"model": model, "version": version, "level": "breed", "breeds": ["c1"], "probability": 0.9}
    return Signer(secret.encode(), Then).signed(new_id(), {**facts, "asked": True, "split": split, "phone": phone})
