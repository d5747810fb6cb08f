"""Switches in an SQLite file, which several servers of one machine may share,
or in memory.
"""

import sqlite3
import threading
from pathlib import Path
from typing import Any

from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.routing.store import NumberTaken

BUSY_SECONDS = 5.0  # another process may be writing
FORMAT = 1  # SQLite's user_version of our files
TABLES = (
    "CREATE TABLE switches (number INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    "CREATE TABLE notes (kind TEXT, name TEXT, text TEXT NOT NULL, PRIMARY KEY (kind, name))",
    f"PRAGMA user_version = {FORMAT}",
)


class SqliteStore:
    def __init__(self, file: Path | None = None):
        """Opens `file`, or keeps everything in memory.

        Raises InvalidArgument for another file.

        On a full disk it opens, and refuses to write.
        """
        self._file = file
        self.place, self.is_kept = str(file or "memory"), file is not None
        self._identity: tuple[int, int] | None = None  # device and inode of the file
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            file or ":memory:", BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # FULL, and the folder when the journal is deleted: with the journal, a power failure would
        # bring back the old state.
        try:
            self._connection.execute("PRAGMA synchronous = EXTRA")
            self._has_tables()
        except sqlite3.OperationalError:
            pass  # such as a lock; reading says so
        except sqlite3.DatabaseError as error:
            raise InvalidArgument(
                f"{file} is no log of switches ({error}); choose another --switch-log"
            ) from error

    def read(self, after: int) -> list[tuple[int, str]]:
        query = "SELECT number, text FROM switches WHERE number > ? ORDER BY number"
        return self._read(query, after)

    def append(self, number: int, text: str) -> None:
        self._write("INSERT INTO switches VALUES (?, ?)", number, text)

    def notes(self, kind: str) -> dict[str, str]:
        return dict(self._read("SELECT name, text FROM notes WHERE kind = ?", kind))

    def note(self, kind: str, name: str, text: str) -> None:
        self._write("REPLACE INTO notes VALUES (?, ?, ?)", kind, name, text)

    def forget_note(self, kind: str, name: str) -> None:
        self._write("DELETE FROM notes WHERE kind = ? AND name = ?", kind, name)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _read(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query; none in a file without tables."""
        with self._lock:
            self._check_file()
            try:
                return (
                    self._connection.execute(query, values).fetchall() if self._has_tables() else []
                )
            except (sqlite3.Error, InvalidArgument) as error:  # the second: another file's content
                raise Unavailable(f"{self._file} cannot be read ({error})") from error

    def _write(self, statement: str, *values: Any) -> None:
        """A transaction, which is on disk on return, or has not happened.

        Raises NumberTaken for a second row with the same key.
        """
        with self._lock:
            self._check_file()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                if not self._has_tables():
                    for table in TABLES:
                        self._connection.execute(table)
                self._connection.execute(statement, values)
                self._connection.execute("COMMIT")
            except sqlite3.IntegrityError as error:
                raise NumberTaken from error
            except (sqlite3.Error, InvalidArgument) as error:
                raise Unavailable(
                    f"{self._file} cannot be written ({error}); the switch was not made, try "
                    "again when it can"
                ) from error
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _check_file(self) -> None:
        """Raises Unavailable if the file is not the one that is open: what is
        written would be lost.
        """
        if self._file is None:
            return
        try:
            status = self._file.stat()
            identity = (status.st_dev, status.st_ino)
        except FileNotFoundError:
            identity = None
        except OSError as error:
            raise Unavailable(f"{self._file} cannot be read ({error})") from error
        if self._identity is not None and identity != self._identity:
            what = "was replaced" if identity else "was deleted"
            raise Unavailable(
                f"{self._file} {what} while the server runs; restart the server, which "
                "accepts what "
                "is there then"
            )
        self._identity = identity

    def _has_tables(self) -> bool:
        """Whether the file is ours; an empty one becomes so.

        Raises InvalidArgument for another.
        """
        # One statement, since another process may make the tables between two.
        query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        version, tables = self._connection.execute(query).fetchone()
        if version == FORMAT or (version == 0 and tables == 0):
            return bool(tables)
        raise InvalidArgument(
            f"{self._file} is no log of switches that this release reads: its format is {version}, "
            f"expected {FORMAT}; choose another --switch-log"
        )
