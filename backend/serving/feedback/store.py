"""The SQLite file of feedback: a row for each answer with feedback, sums of them, and the votes of splits; never a photo.

Each write is one transaction: complete or absent, whatever happens to the process or the disk.
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
from backend.serving.feedback.schema import COLUMNS, KIND, prepare
from backend.serving.feedback.votes import Arms, Split, ask, begin, count

log = logging.getLogger("dogsnap.feedback")

BUSY_SECONDS = 5.0  # another process, the old worker during a restart, may be writing
AT_ONCE = 1000  # rows that are exported or deleted without letting others write


class Store:
    """The file of feedback. Thread-safe."""

    def __init__(self, file: Path, days: int):
        """Open `file` or make it, and remove what is older than `days`.

        Raises sqlite3.Error for a file that cannot be used, FailedPrecondition for one of a later format.
        """
        self._days = days
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(file, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        with self._transaction() as connection:
            prepare(connection)
            self.open = _open_splits(connection)
        self.sweep()

    # -- feedback ------------------------------------------------------------------------------------------------------

    def add(self, row: Mapping[str, Any], phone: str) -> str:
        """Add feedback with these COLUMNS, and count it in its split if it is the vote of a `phone` that was asked.

        Returns why such a vote does not count, or "". Raises AlreadyExists for a request id that has feedback, Unavailable
        where it cannot be written.
        """
        try:
            with self._transaction() as connection:
                names = ", ".join(COLUMNS)
                places = ", ".join("?" * len(COLUMNS))
                connection.execute(f"INSERT INTO feedback ({names}) VALUES ({places})", [row[name] for name in COLUMNS])
                counts = row["asked"] and row["split"]
                return count(connection, row["split"], phone, row["version"], row["is_right"]) if counts else ""
        except sqlite3.IntegrityError:
            raise AlreadyExists("this answer has its feedback already; it is taken once for each request id") from None

    def remove(self, request_ids: Sequence[str]) -> int:
        """Remove the feedback on these requests; returns how many there were. Raises Unavailable."""
        with self._transaction() as connection:
            places = ", ".join("?" * len(request_ids))
            return connection.execute(f"DELETE FROM feedback WHERE request_id IN ({places})", request_ids).rowcount

    def sweep(self) -> None:
        """Delete what is older than the retention time, a little at a time. Raises Unavailable."""
        oldest = timestamp(datetime.now(UTC) - timedelta(days=self._days))
        for table, key, condition in (
            ("feedback", "number", f"answered_at < '{oldest}' ORDER BY answered_at"),
            ("phones", "split, phone", "split NOT IN (SELECT id FROM splits WHERE ended IS NULL)"),
            ("splits", "id", f"ended < '{oldest}'"),
            ("sums", ", ".join(KIND), "answers = 0"),
        ):
            old = f"SELECT {key} FROM {table} WHERE {condition} LIMIT {AT_ONCE}"
            deleted = AT_ONCE
            while deleted == AT_ONCE:
                with self._transaction() as connection:
                    deleted = connection.execute(f"DELETE FROM {table} WHERE ({key}) IN ({old})").rowcount

    # -- splits --------------------------------------------------------------------------------------------------------

    def follow(self, wanted: Mapping[tuple[str, str], Arms]) -> None:
        """Let exactly these splits (by model and label) be open: an ended one loses its salt, and its votes stay as they are."""
        if {key: split.arms for key, split in self.open.items()} == wanted:
            return
        with self._transaction() as connection:
            before, now = _open_splits(connection), timestamp(datetime.now(UTC))
            for key, split in before.items():
                if split.arms != wanted.get(key):
                    connection.execute("UPDATE splits SET ended = ?, salt = NULL WHERE id = ?", (now, split.id))
            for key, arms in wanted.items():
                if key not in before or before[key].arms != arms:
                    begin(connection, key, arms, now)
            self.open = _open_splits(connection)

    def asked(self, split: int, phones: Mapping[str, int]) -> None:
        """Remember that these phones (hashes) were asked about an answer of a version. Raises Unavailable."""
        with self._transaction() as connection:
            ask(connection, split, phones)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Raises Unavailable."""
        with self._lock, _errors_reported():
            return self._connection.execute(query, values).fetchall()

    def csv(self) -> Iterator[str]:
        """The whole table as CSV, piece by piece, with the names of its columns first. Raises Unavailable."""
        yield _csv([COLUMNS])
        last, query = 0, f"SELECT number, {', '.join(COLUMNS)} FROM feedback WHERE number > ? ORDER BY number LIMIT ?"
        while piece := self.read(query, last, AT_ONCE):
            last = piece[-1][0]
            yield _csv(values[1:] for values in piece)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
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


def _open_splits(connection: sqlite3.Connection) -> dict[tuple[str, str], Split]:
    rows = connection.execute("SELECT model, label, id, first, second, share, salt FROM splits WHERE ended IS NULL")
    return {
        (model, label): Split(number, (first, second, share), salt)
        for model, label, number, first, second, share, salt in rows
    }


def timestamp(time: datetime) -> str:
    """A time (UTC) as the table has it, so that text sorts as time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
