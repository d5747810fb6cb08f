"""The SQLite file of feedback: a row for each answer with feedback, sums of them, and the votes of splits; never a photo.

A loss of power may cost the last seconds, since a commit does not wait for the disk (`synchronous=NORMAL`).
"""

import csv
import io
import json
import logging
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dogsnap.errors import AlreadyExists, FailedPrecondition, Unavailable
from dogsnap.serving.feedback.comparison import count, new_tally

log = logging.getLogger("dogsnap.feedback")

TIME = "%Y-%m-%dT%H:%M:%SZ"  # a time (UTC) in the tables: text that sorts as time
COLUMNS = (
    *(
        "request_id",
        "answered_at",
        "model",
        "version",
        "split",
        "asked",
        "level",
        "breeds",
        "probability",
    ),
    *("verdict", "breed", "is_right", "holds", "text"),
)
# Model, label ("" for the default), the version that a split takes phones from, the one that gets them.
Arms = tuple[str, str, int, int]
ARMS = "model, label, first, second"
# What equal rows of feedback have in common: a report reads their sums in place of a million rows.
KIND = "model, version, level, size, first, verdict, breed, is_right, holds"
KIND_OF = """{0}.model, {0}.version, {0}.level, json_array_length({0}.breeds),
    ifnull(json_extract({0}.breeds, '$[0]'), {0}.level), {0}.verdict, ifnull({0}.breed, ''), ifnull({0}.is_right, -1),
    ifnull({0}.holds, -1)"""
TABLES = (
    """CREATE TABLE feedback (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, answered_at TEXT NOT NULL,
    model TEXT NOT NULL, version INTEGER NOT NULL, split INTEGER NOT NULL, asked INTEGER NOT NULL, level TEXT NOT NULL,
    breeds TEXT NOT NULL, probability REAL, verdict TEXT NOT NULL, breed TEXT, is_right INTEGER, holds INTEGER,
    text TEXT)""",
    "CREATE INDEX by_text ON feedback (model, text COLLATE NOCASE) WHERE text IS NOT NULL",
    "CREATE INDEX by_time ON feedback (answered_at)",
    f"CREATE TABLE sums ({KIND}, answers, PRIMARY KEY ({KIND})) WITHOUT ROWID",
    f"""CREATE TRIGGER added AFTER INSERT ON feedback BEGIN
    INSERT INTO sums VALUES ({KIND_OF.format("new")}, 1) ON CONFLICT DO UPDATE SET answers = answers + 1; END""",
    f"""CREATE TRIGGER removed AFTER DELETE ON feedback BEGIN
    UPDATE sums SET answers = answers - 1 WHERE ({KIND}) = ({KIND_OF.format("old")}); END""",
    # A split's tally (JSON) outlasts the rows that it counts; its salt is deleted when it ends.
    # `owner`: the log of switches that the split is of.
    """CREATE TABLE splits (id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, label TEXT NOT NULL,
    first INTEGER NOT NULL, second INTEGER NOT NULL, started TEXT NOT NULL, ended TEXT, salt BLOB,
    tally TEXT NOT NULL, owner TEXT NOT NULL)""",
    # The newest switch by which the splits of an owner were opened and ended, and when that was.
    "CREATE TABLE followed (owner TEXT PRIMARY KEY, revision INTEGER NOT NULL, at TEXT NOT NULL)",
    """CREATE TABLE phones (split INTEGER, phone TEXT, version INTEGER, has_voted INTEGER DEFAULT 0,
    PRIMARY KEY (split, phone)) WITHOUT ROWID""",
)
FORMAT = 5  # PRAGMA user_version of a file; a new one has 0
NOW = f"strftime('{TIME}', 'now')"
INSERT = f"""INSERT INTO feedback ({", ".join(COLUMNS)}) VALUES ({", ".join(f":{name}" for name in COLUMNS)})
    ON CONFLICT (request_id) DO NOTHING"""
OPEN = f"SELECT id, salt, {ARMS} FROM splits WHERE ended IS NULL AND owner = ?"
BEGIN = (
    f"INSERT INTO splits (started, salt, tally, owner, {ARMS}) VALUES ({NOW}, ?, ?, ?, ?, ?, ?, ?)"
)
# Of several servers with one log of switches none goes back to what was chosen before: unless the log began anew.
LAG_SECONDS = 10
FOLLOW = f"""INSERT INTO followed VALUES (:owner, :revision, {NOW}) ON CONFLICT (owner)
    DO UPDATE SET revision = excluded.revision, at = excluded.at WHERE excluded.revision >= revision
    OR at < strftime('{TIME}', 'now', '-{LAG_SECONDS} seconds') RETURNING 1"""
ASK = (
    "INSERT OR IGNORE INTO phones (split, phone, version) SELECT id, ?, ? FROM splits WHERE id = ?"
)
VOTE = "UPDATE phones SET has_voted = 1 WHERE split = ? AND phone = ? AND version = ? AND NOT has_voted"
IS_OPEN = "SELECT 1 FROM splits WHERE id = ? AND ended IS NULL"
KEPT = "the feedback is kept, and counts in no comparison"
AT_ONCE = 1000  # rows that are exported or deleted without letting others write
EXPORT = f"SELECT number, {', '.join(COLUMNS)} FROM feedback WHERE number > ? ORDER BY number LIMIT {AT_ONCE}"
OLDEST = f"strftime('{TIME}', 'now', :days)"
# Table, key, and which rows of it are old.
OLD = (
    ("feedback", "number", f"answered_at < {OLDEST} ORDER BY answered_at"),
    ("phones", "split, phone", "split IN (SELECT id FROM splits WHERE ended IS NOT NULL)"),
    ("splits", "id", f"ended < {OLDEST}"),
    ("sums", KIND, "answers = 0"),
)


class Store:
    """The file of feedback. Thread-safe. All methods raise Unavailable where the file cannot be used."""

    def __init__(self, file: Path, days: int):
        """Open `file` or make it, and remove what is older than `days`.

        Raises sqlite3.Error for a file that is no database, FailedPrecondition for one of another format.
        """
        self._age = {"days": f"-{days} days"}
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        with self.transaction() as connection:
            ((found,),) = connection.execute("PRAGMA user_version").fetchall()
            if found not in (0, FORMAT):
                raise FailedPrecondition(
                    f"the file has feedback of format {found}; this version has format {FORMAT}: choose another file"
                )
            for statement in () if found else TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={FORMAT}")
        self.sweep()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A block that is written as a whole or not at all."""
        try:
            with self._lock, self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
        except sqlite3.Error as error:  # such as a full disk
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

    def follow(
        self, wanted: AbstractSet[Arms], owner: str = "", revision: int = 0
    ) -> dict[tuple[str, str], sqlite3.Row]:
        """Let exactly these splits of `owner` be open: an ended one loses its salt, and its votes stay as they are.

        Nothing changes where the owner's splits follow a later `revision` already. Returns the open ones by model and label, with
        `id` and `salt`, which stay the same while their arms do.
        """
        with self.transaction() as connection:
            was = {}
            for number, _, *arms in connection.execute(OPEN, (owner,)):
                was[tuple(arms)] = number
            followed = {"owner": owner, "revision": revision}
            if not connection.execute(FOLLOW, followed).fetchall():
                wanted = was.keys()
            for arms in was.keys() - wanted:
                connection.execute(
                    f"UPDATE splits SET ended = {NOW}, salt = NULL WHERE id = ?", (was[arms],)
                )
            for arms in wanted - was.keys():
                begun = (secrets.token_bytes(16), json.dumps(new_tally()), owner, *arms)
                connection.execute(BEGIN, begun)
            return {(row["model"], row["label"]): row for row in connection.execute(OPEN, (owner,))}

    def ask(self, phones: Iterable[tuple[int, str, int]]) -> None:
        """Count phones (split, hash, version) as asked, each once in a split, if the split is not deleted."""
        with self.transaction() as connection:
            for each in phones:
                _ask(connection, *each)

    def add(self, row: Mapping[str, Any]) -> str:
        """Add a row of feedback: COLUMNS, and the hash of the `phone`, whose vote counts in its split if the app was to ask.

        Returns why such a vote does not count, or "". Raises AlreadyExists for a request id that has feedback.
        """
        with self.transaction() as connection:
            if not connection.execute(INSERT, row).rowcount:
                raise AlreadyExists(
                    "this answer has its feedback already; it is taken once for each request id"
                )
            if not (row["asked"] and row["split"]):
                return ""
            voter, is_right = (row["split"], row["phone"], row["version"]), row["is_right"]
            if not connection.execute(IS_OPEN, (row["split"],)).fetchall():
                return f"the split that this answer was part of has ended; {KEPT}"
            _ask(connection, *voter)
            if not connection.execute(VOTE, voter).rowcount:
                return f"each phone has one vote in a split, on the version it was first asked about; {KEPT}"
            _count(
                connection,
                row["split"],
                row["version"],
                answered=1,
                counted=is_right is not None,
                right=bool(is_right),
            )
            return ""

    def sweep(self) -> None:
        """Delete what is older than the retention time, a little at a time: others write in between."""
        for table, key, condition in OLD:
            some = f"SELECT {key} FROM {table} WHERE {condition} LIMIT {AT_ONCE}"
            while (
                len(
                    self.run(
                        f"DELETE FROM {table} WHERE ({key}) IN ({some}) RETURNING 1", self._age
                    )
                )
                == AT_ONCE
            ):
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
            self._connection.close()


def _ask(connection: sqlite3.Connection, split: int, phone: str, version: int) -> None:
    if connection.execute(ASK, (phone, version, split)).rowcount:
        _count(connection, split, version, asked=1)


def _count(connection: sqlite3.Connection, split: int, version: int, **more: int) -> None:
    ((second, text),) = connection.execute(
        "SELECT second, tally FROM splits WHERE id = ?", (split,)
    )
    tally = json.loads(text)
    count(tally, int(version == second), **more)
    connection.execute("UPDATE splits SET tally = ? WHERE id = ?", (json.dumps(tally), split))
