"""The token for administration: a server writes it into a file at its start,
commands of the same user read it there.
"""

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dogsnap.files import hold_lock, user_folder, write_private

TOKEN_BYTES = 32
LEAST_CHARACTERS = 16  # 64 bits if they are random hexadecimal digits


def token_files(port: int) -> Sequence[Path]:
    """Where the token of a server on `port` may lie, the first one where it is
    written if it can be; several servers do not meet.

    The runtime folder of the system, if it is this user's, or else a folder for
    the user's state. None for a user without either.
    """
    folders = []
    with suppress(OSError):
        folders.append(user_folder("XDG_STATE_HOME", ".local/state"))
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and _is_own(Path(runtime)):
        folders.insert(0, Path(runtime))
    return [folder / "dogsnap" / f"admin-token-{port}" for folder in folders]


def random_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def write_token(port: int, token: str = "") -> str:
    """Write the token for a server on `port` into the first of its files that can be
    written, which only its user can read; returns it.

    Without a `token` it is the one that commands find, so that a server that replaces
    another one has the same, or else a random one. Raises OSError.
    """
    files = token_files(port)
    if not files:
        raise FileNotFoundError("this user has no home; set XDG_STATE_HOME to a folder")
    *firsts, last = files
    for file in firsts:
        with suppress(OSError):  # such as a full disk, or one that is read-only
            return _write(port, file, token)
    return _write(port, last, token)


def _write(port: int, file: Path, token: str) -> str:
    file.parent.mkdir(0o700, parents=True, exist_ok=True)
    with hold_lock(file):
        known = find_token(port)
        token = token or (known if len(known) >= LEAST_CHARACTERS else random_token())
        if _private_text(file) != token:
            file.unlink(missing_ok=True)  # others may have been allowed to read it
            write_private(token + "\n", file)
        _remove_others(port, file)
    return token


def _remove_others(port: int, file: Path) -> None:
    """Commands find the newest, which is another one where the clock was set back."""
    for other in token_files(port):
        with suppress(OSError):  # there is none, or its folder cannot be written
            if not other.samefile(file):
                other.unlink()


def keep_token(port: int, token: str) -> bool:
    """Write the token of a running server where commands do not find it, as when the
    runtime folder goes because its user logs out; whether that was so. Raises OSError.
    """
    if find_token(port) == token:
        return False
    write_token(port, token)
    return True


def find_file(port: int) -> Path | None:
    """The file with the token that a server of this user on `port` wrote last."""
    written = [file for file in token_files(port) if _private_text(file)]
    return max(written, key=lambda file: file.stat().st_mtime_ns, default=None)


def find_token(port: int) -> str:
    """What is in that file; "" without one."""
    file = find_file(port)
    return _private_text(file) if file else ""


def _private_text(file: Path) -> str:
    """What is in a file that is this user's and that nobody else can read; ""
    for any other.
    """
    try:
        is_private = file.is_file() and _is_own(file) and not file.stat().st_mode & 0o077
        return file.read_text(encoding="utf-8").strip() if is_private else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _is_own(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False
