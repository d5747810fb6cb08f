"""The log of switches (author, time, old and new value), an SQLite file or in memory.

A switch is on disk before it is acknowledged, in a transaction of its own; one that cannot be written is refused. SQLite
numbers them, and gives no number twice.
"""

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.routing.switches import (
    CONFIGURATION,
    KINDS,
    WATCHER,
    Change,
    Label,
    Subject,
    Switch,
    Who,
)

log = logging.getLogger("dogsnap.switches")

SHOWN = 1000  # newest switches that `switches` returns
BUSY_SECONDS = 5.0  # another process may be writing
TABLES = (
    """CREATE TABLE IF NOT EXISTS switches (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, by_name TEXT NOT NULL, by_address TEXT NOT NULL,
        model TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
        undoes INTEGER, part_of INTEGER)""",
    "CREATE INDEX IF NOT EXISTS by_subject ON switches (model, kind, name)",
    "CREATE INDEX IF NOT EXISTS by_undone ON switches (undoes)",
    "CREATE INDEX IF NOT EXISTS by_whole ON switches (part_of)",
    "CREATE TABLE IF NOT EXISTS answering (model TEXT PRIMARY KEY, version INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS reader (id INTEGER PRIMARY KEY CHECK (id = 1), process INTEGER NOT NULL)",
)
COLUMNS = "id, at, by_name, by_address, model, kind, name, before, after, undoes, part_of"
INSERT = f"INSERT INTO switches ({COLUMNS}) VALUES ({', '.join('?' * 11)})"
# When, by whom, what (the first change, and its parts), which switch it undoes, which one it is a part of.
Entry = tuple[str, Who, Sequence[Change], int | None, int | None]


class SwitchLog:
    """Append-only; thread-safe. With a file, a new log continues where the last one ended.

    While a second process replaces this one, it has read the file and would not see further switches: they are refused.
    """

    def __init__(self, file: Path | None = None):
        """Raises InvalidArgument for another file, sqlite3.Error if locked. On a full disk it starts, and refuses switches."""
        self._file = file
        self._lock = threading.Lock()
        # Threads append to these while another one writes: it removes only what it has written.
        self._unwritten: list[Entry] = []
        self._answering: list[tuple[str, int]] = []
        self._trouble = ""
        self._is_reader = False
        path = file or ":memory:"
        self._connection = sqlite3.connect(
            path, BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # FULL, and the folder when the journal is deleted: with the journal, a power failure would bring back the old state.
            self._connection.execute("PRAGMA synchronous=EXTRA")
            self._read("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError:  # such as a lock
            raise
        except sqlite3.DatabaseError as error:
            raise InvalidArgument(
                f"{file} is no log of switches ({error}); choose another --switch-log"
            ) from error
        self._write()

    def add(self, by: Who, changes: Sequence[Change], undoes: int | None = None) -> Switch:
        """Write a switch to disk; its first change is returned, of which the others are parts. Raises Unavailable.

        Call it without a lock that requests need: a disk may hang.
        """
        return self._commit((_now(), by, changes, undoes, None))[-len(changes)]

    def note(self, by: Who, changes: Sequence[Change], part_of: int | None = None) -> None:
        """Put down an automatic switch, which has happened already; `write` brings it to the file."""
        self._unwritten.append((_now(), by, changes, None, part_of))

    def note_answering(self, model: str, version: int) -> None:
        """Put down which version answers by default while none is chosen."""
        self._answering.append((model, version))

    def write(self) -> None:
        """Write what was put down. What cannot be written is logged once, and waits for the next time."""
        if self._unwritten or self._answering:
            self._write()

    def _write(self) -> None:
        trouble = ""
        try:
            self._commit()
        except Unavailable as error:
            trouble = error.message
        if trouble and trouble != self._trouble:
            log.error("the log of switches: %s", trouble)
        self._trouble = trouble

    def switches(self, model: str = "") -> list[Switch]:
        """The newest switches, newest first; of one model if it is named."""
        return self._select(f"WHERE ? IN ('', model) ORDER BY id DESC LIMIT {SHOWN}", model)

    def switch(self, number: int) -> Switch | None:
        return next(
            iter(self._select("WHERE id = ?", str(number))), None
        )  # as text: SQLite's integers have 64 bits

    def parts(self, number: int) -> list[Switch]:
        """What came about together with a switch, such as the end of a split when its label moves."""
        return self._select("WHERE part_of = ? ORDER BY id", number)

    def is_undone(self, number: int) -> bool:
        return bool(self._select("WHERE undoes = ? LIMIT 1", number))

    def chosen(self, model: str) -> dict[Subject, Any]:
        """The last choices for a model, by administrators and configuration, with which a restarted server continues."""
        return self._last(model, "by_name != ?", WATCHER)

    def configured_labels(self, model: str) -> dict[str, int]:
        """The labels as last set by the configuration, without later switches."""
        last = self._last(model, "by_name = ?", CONFIGURATION)
        return {
            each.name: value
            for each, value in last.items()
            if isinstance(each, Label) and value is not None
        }

    def answering(self, model: str) -> int | None:
        """The version that answered by default when none was chosen; None if there was none."""
        return next(
            (row[0] for row in self._read("SELECT version FROM answering WHERE model = ?", model)),
            None,
        )

    def _last(self, model: str, condition: str, by: Who) -> dict[Subject, Any]:
        newest = f"SELECT max(id) FROM switches WHERE model = ? AND {condition} GROUP BY kind, name"
        found = self._select(f"WHERE id IN ({newest}) ORDER BY id", model, by.name)
        return {each.subject: each.after for each in found}

    def _select(self, condition: str, *values: Any) -> list[Switch]:
        switches = []
        for row in self._read(f"SELECT {COLUMNS} FROM switches {condition}", *values):
            number, at, name, address, model, kind, of_kind, before, after, undoes, part_of = row
            change = (KINDS[kind](model, of_kind), json.loads(before), json.loads(after))
            switches.append(Switch(number, at, Who(name, address), *change, undoes, part_of))
        return switches

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # the disk has been full since the file was made
                    return []
                raise

    def _commit(self, *added: Entry) -> list[Switch]:
        """Write what was put down and `added`, or nothing. Raises Unavailable if it cannot be written."""
        with self._lock:
            noted, answering = self._unwritten[:], self._answering[:]
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                for statement in TABLES:
                    self._connection.execute(statement)
                if not self._is_reader:
                    self._connection.execute("REPLACE INTO reader VALUES (1, ?)", (os.getpid(),))
                if added:
                    self._check_reader()
                written = [switch for entry in (*noted, *added) for switch in self._insert(*entry)]
                self._connection.executemany("REPLACE INTO answering VALUES (?, ?)", answering)
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                told = f"{self._file} cannot be written ({error}); the switch was not made, try again when it can"
                raise Unavailable(told, 5) from error
            finally:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
            self._is_reader = True
            del self._unwritten[: len(noted)], self._answering[: len(answering)]
        for switch in written:
            log.info("switch %d by %s %s: %s", switch.id, switch.by.name, switch.by.address, switch)
        return written

    def _check_reader(self) -> None:
        ((process,),) = self._connection.execute("SELECT process FROM reader")
        if process != os.getpid() and _is_running(process):
            other = f"another server (process {process}) is taking this one's place and has read {self._file} already"
            raise Unavailable(
                f"{other}; the switch was not made, try again when that server answers", 5
            )

    def _insert(
        self, at: str, by: Who, changes: Sequence[Change], undoes: int | None, part_of: int | None
    ) -> list[Switch]:
        written: list[Switch] = []
        for subject, before, after in changes:
            values = (json.dumps(each, ensure_ascii=False) for each in (before, after))
            row = (
                None,
                at,
                by.name,
                by.address,
                subject.model,
                subject.kind,
                subject.name,
                *values,
                undoes,
                part_of,
            )
            number = self._connection.execute(INSERT, row).lastrowid or 0
            written.append(Switch(number, at, by, subject, before, after, undoes, part_of))
            undoes, part_of = None, written[0].id
        return written


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # another user's
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
