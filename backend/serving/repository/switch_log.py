"""The log of switches (author, time, old and new value), an SQLite file or in memory.

A switch is written before it is acknowledged: a transaction for each, on disk when it ends. SQLite numbers them, and gives no
number twice. Where it cannot be written, on a full disk say, it is refused.
"""

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backend.errors import Unavailable
from backend.files import replacing
from backend.serving.repository.switches import CONFIGURATION, KINDS, WATCHER, Change, Label, Subject, Switch, Who

log = logging.getLogger("dogsnap.switches")

SHOWN = 1000  # newest switches that `switches` returns
BUSY_SECONDS = 5.0  # another process may be writing
HEADER = b"SQLite format 3\0"
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


class SwitchLog:
    """Append-only; thread-safe. With a file, a new log continues where the last one ended.

    While a second process replaces this one, it has read the file and would not see further switches: they are refused.
    """

    def __init__(self, file: Path | None = None):
        """Raises sqlite3.Error or OSError for a file that cannot be read. On a full disk the log starts, and refuses switches."""
        self._file = file
        self._lock = threading.Lock()
        self._unwritten: list[tuple[str, Who, Sequence[Change], int | None]] = []
        self._answering: dict[str, int] = {}
        self._trouble = ""
        self._is_reader = False
        if file is not None:
            _convert(file)
        self._connection = _connect(file or ":memory:")
        self._read("SELECT count(*) FROM sqlite_master")
        self._write()

    def add(self, by: Who, changes: Sequence[Change], undoes: int | None = None) -> Switch:
        """Write a switch and return it: its first change, of which the others are parts. It is on disk then.

        Call it without a lock that requests need: a disk may hang. Raises Unavailable if it cannot be written, or another
        process has read the file since.
        """
        with self._transaction() as written:
            self._check_reader()
            self._insert(written, _now(), by, changes, undoes)
        return written[-len(changes)]

    def note(self, by: Who, changes: Sequence[Change], part_of: int | None = None) -> None:
        """Put down an automatic switch, which has happened already; `write` brings it to the file."""
        self._unwritten.append((_now(), by, changes, part_of))

    def note_answering(self, model: str, version: int) -> None:
        """Put down which version answers by default while none is chosen."""
        self._answering[model] = version

    def write(self) -> None:
        """Write what was put down. What cannot be written is logged once, and waits for the next time."""
        if self._unwritten or self._answering:
            self._write()

    def _write(self) -> None:
        trouble = ""
        try:
            with self._transaction():
                pass
        except Unavailable as error:
            trouble = error.message
        if trouble and trouble != self._trouble:
            log.error("the log of switches: %s", trouble)
        self._trouble = trouble

    def switches(self, model: str = "") -> list[Switch]:
        """The newest switches, newest first; of one model if it is named."""
        return self._select(f"WHERE ? IN ('', model) ORDER BY id DESC LIMIT {SHOWN}", model)

    def switch(self, number: int) -> Switch | None:
        """The switch with this id."""
        return next(iter(self._select("WHERE id = ?", number)), None)

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
        return {each.name: value for each, value in last.items() if isinstance(each, Label) and value is not None}

    def answering(self, model: str) -> int | None:
        """The version that answered by default when none was chosen; None if there was none."""
        return next((row[0] for row in self._read("SELECT version FROM answering WHERE model = ?", model)), None)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _last(self, model: str, condition: str, by: Who) -> dict[Subject, Any]:
        newest = f"SELECT max(id) FROM switches WHERE model = ? AND {condition} GROUP BY kind, name"
        return {
            each.subject: each.after for each in self._select(f"WHERE id IN ({newest}) ORDER BY id", model, by.name)
        }

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

    @contextmanager
    def _transaction(self) -> Iterator[list[Switch]]:
        """Write what was put down and the switches that the block inserts, or nothing. Raises Unavailable if it cannot be."""
        written: list[Switch] = []
        with self._lock:
            noted, answering = len(self._unwritten), dict(self._answering)
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                for statement in TABLES:
                    self._connection.execute(statement)
                if not self._is_reader:
                    self._connection.execute("REPLACE INTO reader VALUES (1, ?)", (os.getpid(),))
                for at, by, changes, part_of in self._unwritten[:noted]:
                    self._insert(written, at, by, changes, part_of=part_of)
                self._connection.executemany("REPLACE INTO answering VALUES (?, ?)", answering.items())
                yield written
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise Unavailable(
                    f"{self._file} cannot be written ({error}); the switch was not made, try again when it can", 5
                ) from error
            finally:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
            self._is_reader = True
            del self._unwritten[:noted]
            self._answering = {name: each for name, each in self._answering.items() if answering.get(name) != each}
        for switch in written:
            log.info("switch %d by %s %s: %s", switch.id, switch.by.name, switch.by.address, switch)

    def _check_reader(self) -> None:
        ((process,),) = self._connection.execute("SELECT process FROM reader")
        if process != os.getpid() and _is_running(process):
            raise Unavailable(
                f"another server (process {process}) is taking this one's place and has read {self._file} already; the switch "
                "was not made, try again when that server answers",
                5,
            )

    def _insert(
        self,
        written: list[Switch],
        at: str,
        by: Who,
        changes: Sequence[Change],
        undoes: int | None = None,
        part_of: int | None = None,
    ) -> None:
        """The first of the changes, and the others as its parts."""
        first = len(written)
        for change in changes:
            switch = Switch(0, at, by, *change, undoes, part_of)
            number = self._connection.execute(INSERT, (None, *_row(switch))).lastrowid or 0
            written.append(replace(switch, id=number))
            undoes, part_of = None, written[first].id


def _connect(file: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(file, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # FULL, and the folder when the journal is deleted: with the journal, a power failure would bring back the old state.
    connection.execute("PRAGMA synchronous=EXTRA")
    return connection


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _row(switch: Switch) -> tuple[Any, ...]:
    """The columns but the id."""
    subject, values = switch.subject, (json.dumps(each, ensure_ascii=False) for each in (switch.before, switch.after))
    who = (switch.by.name, switch.by.address)
    return (switch.at, *who, subject.model, subject.kind, subject.name, *values, switch.undoes, switch.part_of)


# -- the form before SQLite: a JSON object per line --------------------------------------------------------------------


def _convert(file: Path) -> None:
    """Turn a log in the old form into SQLite, in one step; the old one stays beside it as FILE.old."""
    if not file.is_file() or file.read_bytes()[: len(HEADER)] in (b"", HEADER):
        return
    with replacing(file) as temporary, closing(_connect(temporary)) as connection, connection:
        connection.execute("BEGIN")
        for statement in TABLES:
            connection.execute(statement)
        connection.executemany(INSERT, _old_rows(file))
        with suppress(FileExistsError):
            os.link(file, file.with_name(f"{file.name}.old"))
    log.info("%s is an SQLite file now; the log as it was is in %s.old", file, file)


def _old_rows(file: Path) -> Iterator[tuple[Any, ...]]:
    """A line that was cut off is skipped and reported; on a full disk it could be followed by a whole switch on the same line.

    The old form could give a number twice: the second switch gets the next one that is free.
    """
    last, numbers = 0, dict[int | None, int]()
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        start = max(line.rfind('{"id": '), 0)
        if start:
            log.warning("line %d of %s begins with a switch that was cut off, which is skipped", number, file)
        try:
            old = json.loads(line[start:])
            subject, who = KINDS[old["kind"]](old["model"], old["name"]), Who(**old["by"])
            switch = Switch(
                0, old["at"], who, subject, old["from"], old["to"], numbers.get(old["undoes"], old["undoes"])
            )
            last = numbers[old["id"]] = max(old["id"], last + 1)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("line %d of %s is not a switch and is skipped: %s", number, file, error)
            continue
        yield (last, *_row(switch))
