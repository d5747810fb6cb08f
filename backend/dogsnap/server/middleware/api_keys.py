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
from dogsnap.files import hold_lock, write_private

log = logging.getLogger("dogsnap.keys")

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
DIGEST = re.compile(r"[0-9a-f]{64}")
# A key has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess,
# unlike with passwords.
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
            raise ValueError("a name or a SHA-256 is not valid")
        return keys
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidArgument(
            f"{file} is not a key file ({error}); put back the one that it was, or "
            "remove it: `dogsnap keys add` writes a new one"
        ) from None


def add(file: Path, name: str) -> str:
    """Add a key to the file, as a digest, and return the key, which is stored
    nowhere. Raises InvalidArgument.
    """
    if not NAME.fullmatch(name):
        raise InvalidArgument(
            f"the key's name is {name!r}; "
            "expected up to 64 letters, digits, dots, dashes or underscores"
        )
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    with hold_lock(file):
        keys = read(file)
        if name in _names(keys):
            raise InvalidArgument(
                f"there is a key {name!r} already; remove it first, or choose another name"
            )
        created = datetime.now(UTC).isoformat(timespec="seconds")
        keys.append(Key(name, digest(key), created))
        _write(file, keys)
    return key


def remove(file: Path, name: str) -> None:
    """Raises NotFound, naming the existing keys."""
    with hold_lock(file):
        keys = read(file)
        if name not in _names(keys):
            known = ", ".join(_names(keys)) or "none"
            raise NotFound(f"there is no key {name!r}; there are: {known}")
        _write(file, [key for key in keys if key.name != name])


def _names(keys: Sequence[Key]) -> list[str]:
    return [key.name for key in keys]


def _write(file: Path, keys: Sequence[Key]) -> None:
    rows = [asdict(key) for key in keys]
    write_private(json.dumps({"keys": rows}, indent=1) + "\n", file)


class KeyFile:
    """The keys in the file, which is reloaded when it changes: a removed key is
    refused from the next request on. Thread-safe.

    Without the file, or the right to read it, no key is valid; while it is damaged,
    its last keys are. Each is logged once.
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
            # How long a look-up takes may reveal something of the digest, but nothing
            # of the key behind it.
            return self._keys.get(digest(key), "")

    def _read_changes(self) -> str:
        """What is wrong with the file; "" for nothing."""
        try:
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._keys = {key.sha256: key.name for key in read(self._file)}
                self._seen = seen
        except FileNotFoundError:
            self._keys, self._seen = {}, None
            return f"{self._file} is gone: no API key is valid until it is there again"
        except OSError as error:
            self._keys, self._seen = {}, None
            return f"no API key is valid until the file can be read: {error}"
        except InvalidArgument as error:
            return f"the API keys stay as they were: {error}"
        return ""
