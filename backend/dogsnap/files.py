"""Helpers for files: replacing one atomically, and one writer at a time."""

import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# An absolute path up to its last name, where it begins a word: neither `and/or` nor an
# address as http://host/path.
FOLDERS = re.compile(r"(?<![\w./-])(?:file://)?/(?:[^\s/:;,'\"()<>]+/)+")


def without_folders(text: str) -> str:
    """`text` for strangers: of each absolute path the last name alone,
    "/srv/models/dog/2/a.pb is short" -> "a.pb is short".
    """
    return FOLDERS.sub("", text)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary path beside `file`, which atomically replaces it when the
    block ends, and is on disk then.

    If the block raises, the temporary file is removed and `file` is unchanged.
    Raises OSError.
    """
    # A folder of its own for each writer: two that write the same file at once do not
    # touch each other's.
    with tempfile.TemporaryDirectory(
        prefix=".partial.", dir=file.parent, ignore_cleanup_errors=True
    ) as folder:
        temporary = Path(folder) / file.name
        yield temporary
        sync(temporary)
        os.replace(temporary, file)
        sync(file.parent)


def write_json(content: object, file: Path) -> None:
    """Write `json_text`; the file is replaced atomically. Raises OSError."""
    with replacing(file) as temporary:
        temporary.write_text(json_text(content), encoding="utf-8")


def json_text(content: object) -> str:
    """Indented JSON; what JSON does not know is written as text."""
    return json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n"


def write_private(text: str, file: Path) -> None:
    """Replace the file atomically; only its owner may read it. Raises OSError."""
    with replacing(file) as temporary:
        temporary.touch(0o600)
        temporary.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on disk.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for `file`: it reads,
    changes and writes it alone.

    The lock is on an empty file beside it, which stays: `file` itself is
    replaced, and a lock on it with it. Raises OSError.
    """
    with file.with_name(f".{file.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
