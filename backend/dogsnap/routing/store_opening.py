"""Opens the store of switches that the settings name."""

from pathlib import Path

from dogsnap.errors import InvalidArgument
from dogsnap.routing.sqlite_store import SqliteStore
from dogsnap.routing.state_folder import find_file
from dogsnap.routing.store import EXPECTED, Store
from dogsnap.settings import Settings

OFF = "off"
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


def open_store(switch_log: str) -> Store:
    """The store that `--switch-log` names. Raises InvalidArgument for none of ours."""
    if switch_log.startswith(REDIS_SCHEMES):
        from dogsnap.routing.redis_store import RedisStore  # its client is loaded where it is used

        return RedisStore(switch_log)
    return SqliteStore(None if switch_log == OFF else Path(switch_log))


def check_switch_log(switch_log: str) -> None:
    """Raises InvalidArgument for an unknown kind of store, OSError for an
    unwritable file.
    """
    if switch_log == OFF:
        return
    if switch_log.startswith(REDIS_SCHEMES):
        open_store(switch_log).close()  # it does not connect yet
        return
    if "://" in switch_log:
        scheme = switch_log.partition("://")[0]
        raise InvalidArgument(f"--switch-log is {scheme}://...; {EXPECTED}")
    Path(switch_log).open("ab").close()


def name_store(settings: Settings) -> str:
    """`--switch-log`, or the file in the state folder of what is served here.

    Raises OSError if the state folder cannot be made.
    """
    if settings.switch_log:
        return settings.switch_log
    return str(find_file(settings))
