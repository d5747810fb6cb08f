"""The file of API keys: a name and a SHA-256 digest for each.

Which requests need a key is decided in `middleware/access_control.py`.
"""

import hashlib
import json
import logging
import re
import secrets
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from dogsnap.errors import InvalidArgument, NotFound
from dogsnap.files import locked, write_private

log = logging.getLogger("dogsnap.keys")

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
DIGEST = re.compile(r"[0-9a-f]{64}")
# A key has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess, unlike with passwords.
KEY_BYTES = 32
PREFIX = "dogsnap_"  # by which secret scanners recognise a leaked key


@dataclass(frozen=True)
class Key:
    """`sha256` of the key in hexadecimal digits; `created` as ISO 8601."""

    name: str
    sha256: str
    created: str


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read(file: Path) -> list[Key]:
    """The keys of a file, none if it does not exist. Raises InvalidArgument, OSError."""
    if not file.exists():
        return []
    try:
        keys = [Key(**row) for row in json.loads(file.read_text(encoding="utf-8"))["keys"]]
        if not all(NAME.fullmatch(key.name) and DIGEST.fullmatch(key.sha256) for key in keys):
            raise ValueError("a name or a SHA-256 is of another form")
        return keys
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidArgument(
            f"{file} is not a key file ({error}); `dogsnap keys add` writes one"
        ) from None


def add(file: Path, name: str) -> str:
    """Add a key to the file, as a digest, and return the key, which is stored nowhere. Raises InvalidArgument."""
    if not NAME.fullmatch(name):
        raise InvalidArgument(
            f"the key's name is {name!r}; expected up to 64 letters, digits, dots, dashes or underscores"
        )
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    with locked(file):
        keys = read(file)
        if any(each.name == name for each in keys):
            raise InvalidArgument(
                f"there is a key {name!r} already; remove it first, or choose another name"
            )
        _write(
            file, [*keys, Key(name, digest(key), datetime.now(UTC).isoformat(timespec="seconds"))]
        )
    return key


def remove(file: Path, name: str) -> None:
    """Raises NotFound, naming the existing keys."""
    with locked(file):
        keys = read(file)
        if not any(each.name == name for each in keys):
            raise NotFound(
                f"there is no key {name!r}; there are: {', '.join(each.name for each in keys) or 'none'}"
            )
        _write(file, [each for each in keys if each.name != name])


def _write(file: Path, keys: Sequence[Key]) -> None:
    write_private(json.dumps({"keys": [asdict(each) for each in keys]}, indent=1) + "\n", file)


class KeyFile:
    """The keys in the file, which is reloaded when it changes: a removed key is refused from the next request on. Thread-safe.

    Without the file no key is valid; while it cannot be read, its last keys are. Either is logged once.
    """

    def __init__(self, file: Path):
        self._file = file
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, str] = {}  # names by digest
        self._trouble = ""

    def name_of(self, key: str) -> str:
        """The name of a key; "" for one that is not in the file."""
        with self._lock:
            trouble = self._read_changes()
            if trouble and trouble != self._trouble:
                log.error("%s", trouble)
            self._trouble = trouble
            # How long a look-up takes may tell something of the digest, but of the key behind it nothing.
            return self._keys.get(digest(key), "")

    def _read_changes(self) -> str:
        """What is wrong with the file; "" for nothing."""
        try:
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._keys, self._seen = {key.sha256: key.name for key in read(self._file)}, seen
        except FileNotFoundError:
            self._keys, self._seen = {}, None
            return f"{self._file} is gone: no API key is valid until it is there again"
        except (OSError, InvalidArgument) as error:
            return f"the API keys stay as they were: {error}"
        return ""
