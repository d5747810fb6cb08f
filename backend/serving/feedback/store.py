"""The SQLite table of feedback: one row for each answer with feedback, and never a photo.

Each write is one transaction: complete or absent, whatever happens to the process or the disk.
"""

import csv
import dataclasses
import io
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from backend.errors import AlreadyExists, FailedPrecondition, Unavailable

log = logging.getLogger("dogsnap.feedback")

FORMAT = 1  # PRAGMA user_version of a file with this table
BUSY_SECONDS = 5.0  # another process, the old worker during a reload, may be writing
EXPORTED_AT_ONCE = 1000


@dataclasses.dataclass(frozen=True)
class Row:
    """One feedback, with the columns of the table.

    `answered_at`: UTC, ISO 8601, in seconds. `breeds` and `shadow_breeds`: ids, with spaces between them. `is_right` and
    `shadow_is_right`: 1, 0, or None where it cannot be told.
    """

    request_id: str
    answered_at: str
    model: str
    split: int
    version: int
    level: str
    breeds: str
    probability: float | None
    shadow_version: int | None
    shadow_level: str | None
    shadow_breeds: str | None
    shadow_probability: float | None
    verdict: str
    breed: str | None
    is_right: int | None
    shadow_is_right: int | None


# How SQLite writes the types of a row.
TYPES: dict[Any, str] = {
    str: "TEXT NOT NULL",
    int: "INTEGER NOT NULL",
    str | None: "TEXT",
    int | None: "INTEGER",
    float | None: "REAL",
}
COLUMNS = tuple(column.name for column in dataclasses.fields(Row))
TABLE = "CREATE TABLE IF NOT EXISTS feedback (number INTEGER PRIMARY KEY, {}, UNIQUE (request_id))".format(
    ", ".join(f"{column.name} {TYPES[column.type]}" for column in dataclasses.fields(Row))
)
INSERT = f"INSERT INTO feedback ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
SELECT = f"SELECT number, {', '.join(COLUMNS)} FROM feedback"


class Store:
    """The file of feedback. Thread-safe."""

    def __init__(self, file: Path, days: int):
        """Open `file` or make it, and remove what is older than `days`.

        Raises sqlite3.Error for a file that cannot be used, FailedPrecondition for one of another format.
        """
        self._days = days
        self._lock = threading.Lock()
        # Counts changes, so that readers can tell whether what they cached is still valid.
        self.changes = 0
        self._connection = sqlite3.connect(file, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        ((found,),) = self._connection.execute("PRAGMA user_version").fetchall()
        if found not in (0, FORMAT):
            raise FailedPrecondition(
                f"{file} has feedback of format {found}; this version writes {FORMAT}: choose another file"
            )
        self._connection.execute(TABLE)
        self._connection.execute(f"PRAGMA user_version={FORMAT}")
        self.sweep()

    def add(self, row: Row) -> None:
        """Raises AlreadyExists for a request id that has feedback, Unavailable where it cannot be written."""
        try:
            with self._transaction() as connection:
                self._remove_old(connection)
                connection.execute(INSERT, dataclasses.astuple(row))
        except sqlite3.IntegrityError:
            raise AlreadyExists("this answer has its feedback already; it is taken once for each request id") from None

    def remove(self, request_ids: Sequence[str]) -> int:
        """Remove the feedback on these requests; returns how many there were. Raises Unavailable."""
        with self._transaction() as connection:
            places = ", ".join("?" * len(request_ids))
            return connection.execute(f"DELETE FROM feedback WHERE request_id IN ({places})", request_ids).rowcount

    def sweep(self) -> None:
        """Delete feedback older than the retention time. Raises Unavailable."""
        with self._transaction() as connection:
            self._remove_old(connection)

    def rows(self, model: str) -> list[Row]:
        """The feedback on a model, in the order of arrival. Raises Unavailable."""
        return [Row(*values) for _, *values in self._read(f"{SELECT} WHERE model = ? ORDER BY number", model)]

    def csv(self) -> Iterator[str]:
        """The whole table as CSV, piece by piece, with the names of its columns first. Raises Unavailable."""
        yield _csv([COLUMNS])
        last = 0
        while piece := self._read(f"{SELECT} WHERE number > ? ORDER BY number LIMIT {EXPORTED_AT_ONCE}", last):
            last = piece[-1][0]
            yield _csv(values[1:] for values in piece)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, _errors_reported():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _errors_reported():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
                self.changes += 1
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _remove_old(self, connection: sqlite3.Connection) -> None:
        oldest = timestamp(datetime.now(UTC) - timedelta(days=self._days))
        connection.execute("DELETE FROM feedback WHERE answered_at < ?", (oldest,))


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Log SQLite's errors, such as a full disk, and raise Unavailable; a duplicate request id passes unchanged."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        log.error("the file of feedback cannot be used: %s", error)
        raise Unavailable("feedback cannot be kept at the moment; the server's log has the reason", 60) from error


def timestamp(time: datetime) -> str:
    """A time (UTC) as the table has it, so that text sorts as time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
