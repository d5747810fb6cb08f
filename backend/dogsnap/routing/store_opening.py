"""Opens the store of switches that the settings name."""

from pathlib import Path

from dogsnap.addresses import check_file_name
from dogsnap.files import check_database
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
