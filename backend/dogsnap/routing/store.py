"""Where switches are kept: a log with numbers 1, 2, 3 and small notes, in
SQLite or Redis.
"""

from pathlib import Path
from typing import Protocol

from dogsnap.addresses import check_file_name
from dogsnap.files import check_database
from dogsnap.routing.state_folder import find_file
from dogsnap.settings import Settings

OFF = "off"
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
EXPECTED = "expected the path of a file, redis://host:6379, or off"


class NumberTaken(Exception):
    """Another server has written a switch with this number."""


class Store(Protocol):
    """Thread-safe.

    What fails raises Unavailable with a sentence; a write is on disk on return.
    `place`: where it is, without a password.
    """

    place: str

    def read(self, after: int) -> list[tuple[int, str]]:
        """The numbers and texts of all switches with a larger number than
        `after`, in order.
        """

    def append(self, number: int, text: str) -> None:
        """Write a switch. Raises NumberTaken if there is one with this number."""

    def notes(self, kind: str) -> dict[str, str]:
        """The notes of a kind, by name."""

    def note(self, kind: str, name: str, text: str) -> None:
        """Write a note; the last writer wins."""

    def forget_note(self, kind: str, name: str) -> None:
        """Delete a note, if it is there."""

    def close(self) -> None: ...


def open_store(switch_log: str) -> Store:
    """The store that `--switch-log` names. Raises InvalidArgument for none of ours."""
    if switch_log.startswith(REDIS_SCHEMES):
        from dogsnap.routing.redis_store import RedisStore

        return RedisStore(switch_log)
    from dogsnap.routing.sqlite_store import SqliteStore

    return SqliteStore(None if switch_log == OFF else Path(switch_log))


def check_switch_log(switch_log: str) -> None:
    """Raises InvalidArgument for what is no store, or refuses us, OSError for a file
    that cannot be written, sqlite3.Error for one of another kind.
    """
    if switch_log == OFF:
        return
    if switch_log.startswith(REDIS_SCHEMES):
        from dogsnap.routing.redis_store import check_redis

        check_redis("--switch-log", switch_log, EXPECTED)
        return
    check_file_name("--switch-log", switch_log, EXPECTED)
    check_database(Path(switch_log))


def name_store(settings: Settings) -> str:
    """`--switch-log`, or the file in the state folder of what is served here.

    Raises OSError if the state folder cannot be made.
    """
    if settings.switch_log:
        return settings.switch_log
    return str(find_file(settings))
