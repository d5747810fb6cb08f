"""Helpers for files: replacing one atomically, and one writer at a time."""

import errno
import fcntl
import json
import os
import re
import shutil
import sqlite3
import tempfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

# SQLite's codes (sqlite.org/rescode.html) where another process writes, and of a full disk.
PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

# An absolute path up to its last name, where it begins a word: neither `and/or` nor an
# address as http://host/path.
FOLDERS = re.compile(r"(?<![\w./-])(?:file://)?/(?:[^\s/:;,'\"()<>]+/)+")


def user_folder(variable: str, below_home: str) -> Path:
    """The folder that a variable of the XDG Base Directory Specification names, or else one in
    the user's home.

    Raises OSError for a user without a home, as those of containers may be.
    """
    named = os.environ.get(variable)
    try:
        return Path(named).expanduser() if named else Path.home() / below_home
    except RuntimeError as error:
        sentence = f"this user has no home; set {variable} to a folder"
        raise FileNotFoundError(errno.ENOENT, sentence) from error


def without_folders(text: str) -> str:
    """`text` for strangers: of each absolute path the last name alone,
    "/srv/models/dog/2/a.pb is short" -> "a.pb is short".
    """
    return FOLDERS.sub("", text)


def read_text(file: Path) -> str:
    """A user's text in UTF-8, or in what Windows calls Unicode. Raises OSError, and
    ValueError for another encoding.
    """
    content = file.read_bytes()
    is_utf16 = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
        if "\0" in text:
            raise ValueError(
                f"{file} is no text in UTF-8: character {text.index(chr(0))} is a null character;"
                " save it as UTF-8"
            )
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is no text in UTF-8: {error.reason} at byte {error.start}; save it as UTF-8"
        ) from None
    return text


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary path beside `file`, which atomically replaces it when the
    block ends, and is on disk then.

    Owner and permissions stay, and a link, whose file is replaced. If the block
    raises, the temporary file is removed and `file` is unchanged. Raises OSError.
    """
    file = file.resolve()
    # A folder of its own for each writer: two that write the same file at once do not
    # touch each other's.
    with tempfile.TemporaryDirectory(
        prefix=".partial.", dir=file.parent, ignore_cleanup_errors=True
    ) as folder:
        temporary = Path(folder) / file.name
        yield temporary
        if file.exists():
            _keep_rights(file, temporary)
        sync(temporary)
        os.replace(temporary, file)
        sync(file.parent)


def _keep_rights(file: Path, new: Path) -> None:
    """Give `new` owner, group, permissions and access list of `file`: who reads it must go
    on to.

    Raises PermissionError for a file of somebody else, whom only root can give one.
    """
    old, made = file.stat(), new.stat()
    if (old.st_uid, old.st_gid) != (made.st_uid, made.st_gid):
        try:
            os.chown(new, old.st_uid, old.st_gid)
        except PermissionError as error:
            sentence = "belongs to another user or group, who could no longer read it; run this as"
            raise PermissionError(error.errno, f"{sentence} its owner", str(file)) from error
    shutil.copymode(file, new)
    with suppress(PermissionError):  # some systems keep attributes that nobody may copy
        shutil.copystat(file, new)
    os.utime(new)  # its time is that of the change, by which others find it


def write_json(content: object, file: Path) -> None:
    """Write `json_text`; the file is replaced atomically. Raises OSError."""
    with replacing(file) as temporary:
        # Names of files that are no UTF-8 become escapes of JSON.
        temporary.write_text(json_text(content), encoding="utf-8", errors="backslashreplace")


def json_text(content: object) -> str:
    """Indented JSON; what JSON does not know is written as text."""
    return json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n"


def write_private(text: str, file: Path) -> None:
    """Replace the file atomically; only its owner may read a new one. Raises OSError."""
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
    beside = file.with_name(f".{file.name}.lock")
    with beside.open("a") as lock:
        # One that root makes is its user's: else that one could not lock it.
        owner = (file if file.exists() else file.parent).stat()
        if os.geteuid() == 0 and beside.stat().st_uid != owner.st_uid:
            os.chown(beside, owner.st_uid, owner.st_gid)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def may_pass(error: Exception) -> bool:
    """Whether what SQLite could not do may succeed later, with nothing set otherwise."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in PASSING


def check_database(file: Path) -> None:
    """Write into an SQLite file as those who use it will, and take that back.

    Raises OSError where it or its folder, which gets SQLite's journal, cannot be
    written, or that is a device or a pipe, sqlite3.Error for a file of another kind.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise OSError(errno.EINVAL, "it is a device or a pipe, which keeps nothing", str(file))
    file.open("ab").close()
    with closing(sqlite3.connect(file)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE tried (written)")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if may_pass(error):
                return
            sentence = f"{error}; SQLite needs a folder that it can write to"
            raise PermissionError(errno.EACCES, sentence, str(file)) from error
