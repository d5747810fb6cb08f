"""The SQLite file of feedback: a row for each answer with feedback, and sums of
them; never a photo.

A loss of power may cost the last seconds, since a commit does not wait for the
disk (`synchronous=NORMAL`).
"""

import csv
import io
import json
import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dogsnap.errors import AlreadyExists, FailedPrecondition, Unavailable
from dogsnap.files import may_pass

log = logging.getLogger("dogsnap.feedback")

TIME = "%Y-%m-%dT%H:%M:%SZ"  # a time (UTC) in the tables: text that sorts as time
COLUMNS = (
    "request_id",
    "answered_at",
    "model",
    "version",
    "split",
    "asked",
    "level",
    "breeds",
    "probability",
    "verdict",
    "breed",
    "is_right",
    "holds",
    "text",
    "voter",
)
# What equal rows of feedback have in common: a report reads their sums instead of a million rows.
KIND = "model, version, is_vote, level, size, first, verdict, breed, is_right, holds"
KIND_OF = """{0}.model, {0}.version, {0}.voter IS NOT NULL, {0}.level, json_array_length({0}.breeds),
    ifnull(json_extract({0}.breeds, '$[0]'), {0}.level), {0}.verdict, ifnull({0}.breed, ''), ifnull({0}.is_right, -1),
    ifnull({0}.holds, -1)"""
TABLES = (
    # `voter`: the hash of the phone whose vote on the version this is. `split`: the
    # comparison that a row of an earlier release belonged to; 0 for all others.
    """CREATE TABLE feedback (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, answered_at TEXT NOT NULL,
    model TEXT NOT NULL, version INTEGER NOT NULL, split INTEGER NOT NULL, asked INTEGER NOT NULL, level TEXT NOT NULL,
    breeds TEXT NOT NULL, probability REAL, verdict TEXT NOT NULL, breed TEXT, is_right INTEGER, holds INTEGER,
    text TEXT, voter TEXT UNIQUE)""",
    "CREATE INDEX by_text ON feedback (model, text COLLATE NOCASE) WHERE text IS NOT NULL",
    "CREATE INDEX by_time ON feedback (answered_at)",
    f"CREATE TABLE sums ({KIND}, answers, PRIMARY KEY ({KIND})) WITHOUT ROWID",
    f"""CREATE TRIGGER added AFTER INSERT ON feedback BEGIN
    INSERT INTO sums VALUES ({KIND_OF.format("new")}, 1) ON CONFLICT DO UPDATE SET answers = answers + 1; END""",
    f"""CREATE TRIGGER removed AFTER DELETE ON feedback BEGIN
    UPDATE sums SET answers = answers - 1 WHERE ({KIND}) = ({KIND_OF.format("old")}); END""",
)
FORMAT = 6  # PRAGMA user_version of a file; a new one has 0
# Before, versions were compared by their votes: that goes, with the salts of phones.
FORMER = 5
COMPARISONS = ("splits", "phones", "followed")
# A phone's further feedback on a version is no vote: it is kept without the hash.
INSERT = f"""INSERT INTO feedback ({", ".join(COLUMNS)}) VALUES ({", ".join(f":{name}" for name in COLUMNS[:-1])},
    iif(EXISTS (SELECT 1 FROM feedback WHERE voter = :voter), NULL, :voter)) ON CONFLICT (request_id) DO NOTHING
    RETURNING voter"""
FORGET = "DELETE FROM feedback WHERE request_id IN (SELECT value FROM json_each(?)) RETURNING 1"
AT_ONCE = 1000  # rows that are exported or deleted without letting others write
EXPORT = (
    f"SELECT number, {', '.join(COLUMNS)} FROM feedback WHERE number > ? ORDER BY "
    f"number LIMIT {AT_ONCE}"
)
OLDEST = f"strftime('{TIME}', 'now', :days)"
# Table, key, and which rows of it are old.
OLD = (
    ("feedback", "number", f"answered_at < {OLDEST} ORDER BY answered_at"),
    ("sums", KIND, "answers = 0"),
)


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Make the tables of a new file, or renew one of FORMER."""
    with _at_once(connection):
        found = _format_of(connection)
        if found not in (0, FORMER, FORMAT):
            raise FailedPrecondition(
                f"the file has feedback of format {found}; this version has format "
                f"{FORMAT}: choose another file"
            )
        if found == 0:
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={FORMAT}")
        elif found == FORMER:
            for table in COMPARISONS:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
    if found == FORMER:
        _finish_renewal(connection)


def _finish_renewal(connection: sqlite3.Connection) -> None:
    """The file is of FORMAT once what was deleted is gone from the disk: whoever is
    killed before begins again.
    """
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with _at_once(connection):
        if _format_of(connection) == FORMER:  # no other server was first
            connection.execute("ALTER TABLE feedback DROP COLUMN block")
            connection.execute(f"PRAGMA user_version={FORMAT}")


@contextmanager
def _at_once(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A block that is written as a whole or not at all, and while nobody else writes."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


class Store:
    """The file of feedback.

    Thread-safe. All methods raise Unavailable where the file cannot be used.
    """

    def __init__(self, file: Path, days: int, is_patient: bool = False):
        """Open `file` or make it, and remove what is older than `days`: on a full disk,
        and whatever is wrong for a store that `is_patient`, once it can be used.

        Raises sqlite3.Error for a file that is no database, FailedPrecondition
        for one of another format.
        """
        self._file = file
        self._age = {"days": f"-{days} days"}
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._open()
        except (sqlite3.Error, FailedPrecondition) as error:
            if not is_patient and not may_pass(error):
                raise
        with suppress(Unavailable):  # it is in the log
            self.sweep()

    def _open(self) -> sqlite3.Connection:
        """As `__init__`."""
        connection = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON"):
                connection.execute(f"PRAGMA {pragma}")
            _bring_up_to_date(connection)
        except (sqlite3.Error, FailedPrecondition):
            connection.close()
            raise
        return connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A block that is written as a whole or not at all."""
        try:
            with self._lock:
                self._connection = self._connection or self._open()
                with _at_once(self._connection):
                    yield self._connection
        except (sqlite3.Error, FailedPrecondition) as error:  # such as a full disk
            log.error("the file of feedback cannot be used: %s", error)
            raise Unavailable(
                "feedback cannot be kept at the moment; the server's log has the reason", 60
            ) from error

    def run(
        self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[sqlite3.Row]:
        """The rows that a statement returns, in a transaction of its own."""
        with self.transaction() as connection:
            return connection.execute(statement, values).fetchall()

    def add(self, row: Mapping[str, Any]) -> bool:
        """Add a row of feedback: COLUMNS.

        `voter` is the phone's hash for the version, None if the app was not to
        ask. The row is its vote if it has none yet.

        Returns whether it is a vote. Raises AlreadyExists for a request id that
        has feedback.
        """
        added = self.run(INSERT, row)
        if not added:
            raise AlreadyExists("feedback on this answer was already given")
        return added[0]["voter"] is not None

    def forget(self, request_ids: Sequence[str]) -> int:
        """Delete the feedback on these answers; returns how many rows that were.

        The phone can vote again.
        """
        return len(self.run(FORGET, (json.dumps(request_ids),)))

    def sweep(self) -> None:
        """Delete what is older than the retention time, a little at a time:
        others write in between.
        """
        for table, key, condition in OLD:
            some = f"SELECT {key} FROM {table} WHERE {condition} LIMIT {AT_ONCE}"
            delete = f"DELETE FROM {table} WHERE ({key}) IN ({some}) RETURNING 1"
            while len(self.run(delete, self._age)) == AT_ONCE:
                pass

    def csv(self) -> Iterator[str]:
        """The whole table as CSV, piece by piece, with the names of its columns first."""
        rows: Sequence[Sequence[Any]] = [(0, *COLUMNS)]
        while rows:
            text = io.StringIO()
            csv.writer(text).writerows(row[1:] for row in rows)
            yield text.getvalue()
            rows = self.run(EXPORT, (rows[-1][0],))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def _format_of(connection: sqlite3.Connection) -> int:
    ((found,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(found)
