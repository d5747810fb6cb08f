"""The SQLite file of feedback: a row for each answer with feedback, sums of
them, and the votes of splits; never a photo.

A loss of power may cost the last seconds, since a commit does not wait for the
disk (`synchronous=NORMAL`).
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
from dogsnap.serving.feedback.comparison import count, new_tally, take_back

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
# Model, label ("" for the default), the version that a split takes phones from, the one
# that gets them.
Arms = tuple[str, str, int, int]
ARMS = "model, label, first, second"
# What equal rows of feedback have in common: a report reads their sums instead of a million rows.
KIND = "model, version, is_vote, level, size, first, verdict, breed, is_right, holds"
KIND_OF = """{0}.model, {0}.version, {0}.voter IS NOT NULL, {0}.level, json_array_length({0}.breeds),
    ifnull(json_extract({0}.breeds, '$[0]'), {0}.level), {0}.verdict, ifnull({0}.breed, ''), ifnull({0}.is_right, -1),
    ifnull({0}.holds, -1)"""
TABLES = (
    # `voter`: the hash of the phone whose vote on the version this is. `block`: in
    # which block of its split's votes it counts.
    """CREATE TABLE feedback (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, answered_at TEXT NOT NULL,
    model TEXT NOT NULL, version INTEGER NOT NULL, split INTEGER NOT NULL, asked INTEGER NOT NULL, level TEXT NOT NULL,
    breeds TEXT NOT NULL, probability REAL, verdict TEXT NOT NULL, breed TEXT, is_right INTEGER, holds INTEGER,
    text TEXT, voter TEXT UNIQUE, block INTEGER)""",
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
    # `vote`: the request id of the feedback that is the phone's vote in the split.
    """CREATE TABLE phones (split INTEGER, phone TEXT, version INTEGER, vote TEXT,
    PRIMARY KEY (split, phone)) WITHOUT ROWID""",
    "CREATE INDEX by_vote ON phones (vote) WHERE vote IS NOT NULL",
)
FORMAT = 5  # PRAGMA user_version of a file; a new one has 0
NOW = f"strftime('{TIME}', 'now')"
# A phone's further feedback on a version is no vote: it is kept without the hash.
INSERT = f"""INSERT INTO feedback ({", ".join(COLUMNS)}) VALUES ({", ".join(f":{name}" for name in COLUMNS[:-1])},
    iif(EXISTS (SELECT 1 FROM feedback WHERE voter = :voter), NULL, :voter)) ON CONFLICT (request_id) DO NOTHING"""
OPEN = f"SELECT id, salt, {ARMS} FROM splits WHERE ended IS NULL AND owner = ?"
BEGIN = (
    f"INSERT INTO splits (started, salt, tally, owner, {ARMS}) VALUES ({NOW}, ?, ?, ?, ?, ?, ?, ?)"
)
# Of several servers with one log of switches none goes back to what was chosen before:
# unless the log began anew.
LAG_SECONDS = 10
FOLLOW = f"""INSERT INTO followed VALUES (:owner, :revision, {NOW}) ON CONFLICT (owner)
    DO UPDATE SET revision = excluded.revision, at = excluded.at WHERE excluded.revision >= revision
    OR at < strftime('{TIME}', 'now', '-{LAG_SECONDS} seconds') RETURNING 1"""
ASK = (
    "INSERT OR IGNORE INTO phones (split, phone, version) SELECT id, ?, ? FROM splits WHERE id = ?"
)
VOTE = """UPDATE phones SET vote = :request_id WHERE split = :split AND phone = :phone AND version = :version
    AND vote IS NULL"""
SET_BLOCK = "UPDATE feedback SET block = ? WHERE request_id = ?"
TALLY = "SELECT second, tally FROM splits WHERE id = ?"
SET_TALLY = "UPDATE splits SET tally = ? WHERE id = ?"
FORGET = """DELETE FROM feedback WHERE request_id IN (SELECT value FROM json_each(?))
    RETURNING split, version, is_right, block"""
FORGET_VOTES = "UPDATE phones SET vote = NULL WHERE vote IN (SELECT value FROM json_each(?))"
IS_OPEN = "SELECT 1 FROM splits WHERE id = ? AND ended IS NULL"
KEPT = "the feedback is kept, and counts in no comparison"
AT_ONCE = 1000  # rows that are exported or deleted without letting others write
EXPORT = (
    f"SELECT number, {', '.join(COLUMNS)} FROM feedback WHERE number > ? ORDER BY "
    f"number LIMIT {AT_ONCE}"
)
OLDEST = f"strftime('{TIME}', 'now', :days)"
# Table, key, and which rows of it are old.
OLD = (
    ("feedback", "number", f"answered_at < {OLDEST} ORDER BY answered_at"),
    ("phones", "split, phone", "split IN (SELECT id FROM splits WHERE ended IS NOT NULL)"),
    ("splits", "id", f"ended < {OLDEST}"),
    ("sums", KIND, "answers = 0"),
)


class Store:
    """The file of feedback.

    Thread-safe. All methods raise Unavailable where the file cannot be used.
    """

    def __init__(self, file: Path, days: int):
        """Open `file` or make it, and remove what is older than `days`.

        Raises sqlite3.Error for a file that is no database, FailedPrecondition
        for one of another format.
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
                    f"the file has feedback of format {found}; this version has format "
                    f"{FORMAT}: choose another file"
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
        """Let exactly these splits of `owner` be open: an ended one loses its
        salt, and its votes stay as they are.

        Nothing changes where the owner's splits follow a later `revision`
        already. Returns the open ones by model and label, with `id` and `salt`,
        which stay the same while their arms do.
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
        """Count phones (split, hash, version) as asked, each once in a split,
        if the split is not deleted.
        """
        with self.transaction() as connection:
            for phone in phones:
                _ask(connection, *phone)

    def add(self, row: Mapping[str, Any]) -> str:
        """Add a row of feedback: COLUMNS, and the hash of the `phone` in its
        split, where it counts if the app was to ask.

        `voter` is the phone's hash for the version, None if the app was not to
        ask. The row is its vote if it has none yet.

        Returns why such a vote does not count, or "". Raises AlreadyExists for
        a request id that has feedback.
        """
        with self.transaction() as connection:
            if not connection.execute(INSERT, row).rowcount:
                raise AlreadyExists("feedback on this answer was already given")
            if not (row["asked"] and row["split"]):
                return ""
            if not connection.execute(IS_OPEN, (row["split"],)).fetchall():
                return f"the split that this answer was part of has ended; {KEPT}"
            _ask(connection, row["split"], row["phone"], row["version"])
            if not connection.execute(VOTE, row).rowcount:
                return (
                    "each phone has one vote in a split, on the version it was first "
                    f"asked about; {KEPT}"
                )
            is_right = row["is_right"]
            block = _count(
                connection,
                row["split"],
                row["version"],
                answered=1,
                counted=is_right is not None,
                right=bool(is_right),
            )
            connection.execute(SET_BLOCK, (block, row["request_id"]))
            return ""

    def forget(self, request_ids: Sequence[str]) -> int:
        """Delete the feedback on these answers, and the votes in splits with
        it; returns how many rows that were.

        The phone can vote again.
        """
        numbers = json.dumps(request_ids)
        with self.transaction() as connection:
            rows = connection.execute(FORGET, (numbers,)).fetchall()
            for row in rows:
                if row["block"] is not None:
                    _take_back(connection, row)
            connection.execute(FORGET_VOTES, (numbers,))
            return len(rows)

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
            self._connection.close()


def _ask(connection: sqlite3.Connection, split: int, phone: str, version: int) -> None:
    if connection.execute(ASK, (phone, version, split)).rowcount:
        _count(connection, split, version, asked=1)


def _count(connection: sqlite3.Connection, split: int, version: int, **more: int) -> int:
    """Count in a split's tally; returns the vote's block, as `comparison.count` does."""
    ((second, text),) = connection.execute(TALLY, (split,))
    tally = json.loads(text)
    block = count(tally, int(version == second), **more)
    connection.execute(SET_TALLY, (json.dumps(tally), split))
    return block


def _take_back(connection: sqlite3.Connection, row: sqlite3.Row) -> None:
    """Take a vote off its split's tally, if the split is not deleted."""
    for second, text in connection.execute(TALLY, (row["split"],)).fetchall():
        tally = json.loads(text)
        take_back(tally, int(row["version"] == second), row["is_right"], row["block"])
        connection.execute(SET_TALLY, (json.dumps(tally), row["split"]))
