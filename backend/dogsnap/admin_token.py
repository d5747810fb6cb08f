"""The token for administration: a server writes it into a file at its start,
commands of the same user read it there.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from dogsnap.files import hold_lock, write_private

TOKEN_BYTES = 32
LEAST_CHARACTERS = 16  # 64 bits if they are random hexadecimal digits


def token_files(port: int) -> Sequence[Path]:
    """Where the token of a server on `port` may lie, the first one where it is
    written; several servers do not meet.

    The runtime folder of the system, if it is this user's, or else a folder for
    the user's state.
    """
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folders = [Path(state).expanduser()]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and _is_own(Path(runtime)):
        folders.insert(0, Path(runtime))
    return [folder / "dogsnap" / f"admin-token-{port}" for folder in folders]


def write_token(port: int) -> str:
    """The token for a server on `port`, in a file that only its user can read.

    Raises OSError.

    One that is there already stays: a server that replaces another one has the
    same.
    """
    file = token_files(port)[0]
    file.parent.mkdir(0o700, parents=True, exist_ok=True)
    with hold_lock(file):
        token = _private_text(file)
        if len(token) < LEAST_CHARACTERS:
            token = secrets.token_urlsafe(TOKEN_BYTES)
            file.unlink(missing_ok=True)  # others may have been allowed to read it
        write_private(token + "\n", file)  # anew, so that it is the newest
    return token


def keep_token(port: int, token: str) -> bool:
    """Write the token of a running server again if its file is gone, as the runtime
    folder is when its user logs out; whether it was. Raises OSError.
    """
    file = token_files(port)[0]
    if file.exists():
        return False
    file.parent.mkdir(0o700, parents=True, exist_ok=True)
    write_private(token + "\n", file)
    return True


def find_token(port: int) -> str:
    """The token that a server of this user on `port` wrote last; "" if none did."""
    written = [file for file in token_files(port) if _private_text(file)]
    newest = max(written, key=lambda file: file.stat().st_mtime_ns, default=None)
    return _private_text(newest) if newest else ""


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
