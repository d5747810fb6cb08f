"""Ids that take feedback, signed as a server signs them that was started with SECRET."""

import time

from backend.middleware.client_identity import new_number
from backend.serving.feedback.request_ids import Facts, Signer, model_digest

SECRET = "0123456789abcdef0123456789abcdef"


def signed(
    age: float = 0, secret: str = SECRET, version: int = 2, split: bool = False, model: str = "inception_v3"
) -> str:
    """The id of an answer `age` seconds ago that named the version's first breed."""
    facts = Facts(int(time.time() - age), model_digest(model), version, split, "breed", 0.9, (0,))
    return Signer(secret.encode()).signed(new_number(), facts)
