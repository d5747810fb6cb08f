"""The SQLite file of feedback: a row for each answer with feedback, sums of them, and the votes of splits; never a photo.

Each write is one transaction: complete or absent. What was written outlives the process, however it ends; at a loss of power
the last seconds may be missing, since a commit does not wait for the disk (`synchronous=NORMAL`, sqlite.org/wal.html).
"""

import csv
import io
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from backend.errors import AlreadyExists, Unavailable
from backend.serving.feedback import votes
from backend.serving.feedback.schema import COLUMNS, KIND, prepare

log = logging.getLogger("dogsnap.feedback")

BUSY_SECONDS = 5.0  # another process, the old worker during a restart, may be writing
AT_ONCE = 1000  # rows that are exported or deleted without letting others write
INSERT = f"INSERT INTO feedback ({', '.join(COLUMNS)}) VALUES ({', '.join(':' + name for name in COLUMNS)})"
EXPORT = f"SELECT number, {', '.join(COLUMNS)} FROM feedback WHERE number > ? ORDER BY number LIMIT {AT_ONCE}"
# Table, key, and which rows of it are old, where {} is the time before which rows are.
OLD = (
    ("feedback", "number", "answered_at < '{}' ORDER BY answered_at"),
    ("phones", "split, phone", "split NOT IN (SELECT id FROM splits WHERE ended IS NULL)"),
    ("splits", "id", "ended < '{}'"),
    ("sums", KIND, "answers = 0"),
)


class Store:
    """The file of feedback. Thread-safe."""

    def __init__(self, file: Path, days: int):
        """Open `file` or make it, and remove what is older than `days`.

        Raises sqlite3.Error for a file that cannot be used, FailedPrecondition for one of a later format.
        """
        self._days = days
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(file, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        with self.transaction() as connection:
            prepare(connection)
            self.open = votes.open_splits(connection)
        self.sweep()

    def add(self, row: Mapping[str, Any], phone: str) -> str:
        """Add feedback with these COLUMNS, and count it in its split if it is the vote of a `phone` that was asked.

        Returns why such a vote does not count, or "". Raises AlreadyExists for a request id that has feedback, Unavailable
        where it cannot be written.
        """
        try:
            with self.transaction() as connection:
                connection.execute(INSERT, row)
                return votes.count(connection, row, phone) if row["asked"] and row["split"] else ""
        except sqlite3.IntegrityError:
            raise AlreadyExists("this answer has its feedback already; it is taken once for each request id") from None

    def remove(self, request_ids: Sequence[str]) -> int:
        """Remove the feedback on these requests; returns how many there were. Raises Unavailable."""
        with self.transaction() as connection:
            places = ", ".join("?" * len(request_ids))
            return connection.execute(f"DELETE FROM feedback WHERE request_id IN ({places})", request_ids).rowcount

    def sweep(self) -> None:
        """Delete what is older than the retention time, a little at a time. Raises Unavailable."""
        oldest = timestamp(datetime.now(UTC) - timedelta(days=self._days))
        for table, key, condition in OLD:
            old, deleted = f"SELECT {key} FROM {table} WHERE {condition.format(oldest)} LIMIT {AT_ONCE}", AT_ONCE
            while deleted == AT_ONCE:
                with self.transaction() as connection:
                    deleted = connection.execute(f"DELETE FROM {table} WHERE ({key}) IN ({old})").rowcount

    def follow(self, wanted: Mapping[votes.Key, votes.Arms]) -> None:
        """Let exactly these splits be open: an ended one loses its salt, and its votes stay as they are."""
        if {key: split.arms for key, split in self.open.items()} != wanted:
            with self.transaction() as connection:
                self.open = votes.follow(connection, wanted, timestamp(datetime.now(UTC)))

    def asked(self, split: int, phones: Mapping[str, int]) -> None:
        """Remember that these phones (hashes) were asked about an answer of a version. Raises Unavailable."""
        with self.transaction() as connection:
            votes.ask(connection, split, phones)

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Raises Unavailable."""
        with self._lock, _errors_reported():
            return self._connection.execute(query, values).fetchall()

    def csv(self) -> Iterator[str]:
        """The whole table as CSV, piece by piece, with the names of its columns first. Raises Unavailable."""
        yield _csv([COLUMNS])
        last = 0
        while piece := self.read(EXPORT, last):
            last = piece[-1][0]
            yield _csv(values[1:] for values in piece)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A block that is written as a whole or not at all. Raises Unavailable."""
        with self._lock, _errors_reported():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


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
