"""Signed request ids that contain which version answered and what it claimed, so that nothing is stored until feedback arrives.

An id is `<16 hexadecimal digits>.<facts and signature, base64url>`, at most 64 characters for all but the longest claims, so
that it passes as a header and in a log. What comes before the dot is the id that the request had from its beginning.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backend.errors import InvalidArgument, NotFound
from backend.serving.feedback.claims import LEVELS

NUMBER = re.compile(r"[0-9a-f]{16}")
# 80 bits: whoever tries one a microsecond needs 38 billion years. NIST SP 800-107 (5.3.3) asks for 32 bits at least.
SIGNATURE_BYTES = 10
SECRET_BYTES = 32
# Time in seconds since 1970, flags, probability in 65,535ths, the model's digest; then the version and the classes.
HEAD = struct.Struct(">IBH3s")
SPLIT, WIDE, LEVEL_BITS, VERSION_BITS = 1, 2, 2, 5


@dataclass(frozen=True)
class Facts:
    """`time` in seconds since 1970; `model` as `model_digest` gives it; `classes`: indices into the version's labels."""

    time: int
    model: bytes
    version: int
    split: bool
    level: str
    probability: float
    classes: tuple[int, ...]

    def packed(self) -> bytes:
        size = max(1, (self.version.bit_length() + 7) // 8)
        is_wide = max(self.classes, default=0) > 255
        flags = (
            self.split * SPLIT | is_wide * WIDE | LEVELS.index(self.level) << LEVEL_BITS | (size - 1) << VERSION_BITS
        )
        head = HEAD.pack(self.time, flags, round(65_535 * self.probability), self.model)
        classes = struct.pack(f">{len(self.classes)}{'H' if is_wide else 'B'}", *self.classes)
        return head + self.version.to_bytes(size) + classes

    @classmethod
    def unpacked(cls, packed: bytes) -> "Facts":
        """The counterpart; `packed` is as this server wrote it, since it is signed."""
        time, flags, probability, model = HEAD.unpack_from(packed)
        end = HEAD.size + (flags >> VERSION_BITS) + 1
        kind, size = ("H", 2) if flags & WIDE else ("B", 1)
        classes = struct.unpack_from(f">{(len(packed) - end) // size}{kind}", packed, end)
        level = LEVELS[flags >> LEVEL_BITS & 7]
        version = int.from_bytes(packed[HEAD.size : end])
        return cls(time, model, version, bool(flags & SPLIT), level, probability / 65_535, classes)


def model_digest(name: str) -> bytes:
    """Three bytes that stand for a model's name, which may be long."""
    return hashlib.blake2b(name.encode(), digest_size=3).digest()


class Signer:
    """Signs and verifies request ids. Thread-safe."""

    def __init__(self, secret: bytes):
        self._secret = secret

    def signed(self, number: str, facts: Facts) -> str:
        packed = facts.packed()
        return f"{number}.{_text(packed + self._signature(number, packed))}"

    def opened(self, request_id: str) -> tuple[str, Facts]:
        """The number and the facts. Raises InvalidArgument for anything else than such an id, NotFound for another signature."""
        number, _, text = request_id.partition(".")
        try:
            both = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            both = b""
        packed, signature = both[:-SIGNATURE_BYTES], both[-SIGNATURE_BYTES:]
        if not NUMBER.fullmatch(number) or len(packed) <= HEAD.size or _text(both) != text:
            raise InvalidArgument(
                "request_id is not one that takes feedback; expected the feedback_id of an answer of POST /api/classify"
            )
        if not hmac.compare_digest(signature, self._signature(number, packed)):
            raise NotFound("this server gave out no such request id; send the feedback_id of an answer as it came")
        return number, Facts.unpacked(packed)

    def _signature(self, number: str, packed: bytes) -> bytes:
        return hmac.digest(self._secret, b"feedback " + number.encode() + packed, "sha256")[:SIGNATURE_BYTES]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def read_or_create_secret(file: Path) -> bytes:
    """The secret in `file`, which only its owner may read; created if missing. Raises OSError, InvalidArgument."""
    if not file.exists():
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_hex(SECRET_BYTES))
            with suppress(FileExistsError):  # another process was first: its secret counts
                os.link(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
    secret = file.read_bytes().strip()
    if len(secret) < SECRET_BYTES:
        raise InvalidArgument(
            f"{file} holds no secret: expected at least {SECRET_BYTES} characters; remove it for a new one"
        )
    return secret
