"""Signed ids that contain version and claim of an answer, so that nothing is
stored until feedback arrives.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from itsdangerous import BadData, TimestampSigner, URLSafeTimedSerializer

from dogsnap.errors import FailedPrecondition, InvalidArgument, NotFound
from dogsnap.files import hold_lock, write_private

# The request's id or a new one, and what itsdangerous signed.
FORM = re.compile(r"([0-9a-f]{16})\.([A-Za-z0-9_.-]+)")
SECRET_BYTES = 32
HASH_BYTES = 8  # of a phone: two of a million share one with a probability of 1 in 10 million
# Feedback is accepted for a day after the answer: later, users do not remember which dog it was.
# By so much the clock may also have been ahead that gave the answer, of this server before it was
# set right, or of another one.
MAX_AGE = timedelta(days=1)


class Signer:
    """Signs and verifies ids with `facts`: columns of the table of feedback.
    Thread-safe.
    """

    def __init__(self, secret: bytes, clock: type[TimestampSigner] = TimestampSigner):
        self._secret = secret
        options = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}
        self._serializer = URLSafeTimedSerializer(secret, signer=clock, signer_kwargs=options)

    def sign(self, number: str, facts: Mapping[str, Any]) -> str:
        return f"{number}.{self._serializer.dumps(facts, salt=number)}"

    def voter(self, *parts: str | int) -> str:
        """A hash of a phone and what it votes on; those of one phone for two
        versions cannot be matched.
        """
        text = json.dumps(("voter", *parts))
        return hmac.digest(self._secret, text.encode(), "sha256")[:HASH_BYTES].hex()

    def verify(
        self, request_id: str, max_age: timedelta | None = MAX_AGE
    ) -> tuple[str, dict[str, Any], datetime]:
        """Number, facts and time of the answer, which is not later than now.

        Raises InvalidArgument, NotFound (not ours), FailedPrecondition (too
        old, or from a clock that was further ahead).
        """
        found = FORM.fullmatch(request_id)
        if found is None:
            raise InvalidArgument(
                "this is no feedback id; send the feedback_id from the answer of POST /api/classify"
            )
        number, text = found.groups()
        try:
            facts, at = self._serializer.loads(text, return_timestamp=True, salt=number)
        except BadData:
            raise NotFound(
                "this server gave out no such request id; send the feedback_id of an "
                "answer as it came"
            ) from None
        now = datetime.now(UTC)
        if max_age is not None and now - at > max_age:
            raise FailedPrecondition(
                "too late: feedback on an answer is accepted for 24 hours, by the servers' clocks"
            )
        if max_age is not None and at - now > max_age:
            raise FailedPrecondition(
                f"the answer is of {at:%Y-%m-%d %H:%M} UTC, and this server's clock says "
                f"{now:%Y-%m-%d %H:%M}: set the clocks of all servers by NTP, and ask again"
            )
        return number, facts, min(at, now)


def read_or_create_secret(file: Path) -> bytes:
    """The secret in `file`, which only its owner may read; created if missing.

    Raises OSError, InvalidArgument.
    """
    with hold_lock(file):  # of two processes, the first one's secret counts
        if not file.exists():
            write_private(secrets.token_hex(SECRET_BYTES), file)
    secret = file.read_bytes().strip()
    if len(secret) < SECRET_BYTES:
        raise InvalidArgument(
            f"{file} has no secret of {SECRET_BYTES} characters; remove it for a new one"
        )
    return secret
