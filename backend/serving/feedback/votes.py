"""Splits as the file of feedback knows them, and the votes of phones in them: each phone has one vote in each split."""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from backend.serving.feedback.comparison import Tally, block_of

Key = tuple[str, str]  # model and label
# The version that a split takes phones from, the one that gets them, and its share in (0, 1).
Arms = tuple[int, int, float]
KEPT = "the feedback is kept, and counts in no comparison"


@dataclass(frozen=True)
class Split:
    """An open split. Its number and its start stay the same while its arms do, also over a restart."""

    id: int
    arms: Arms
    salt: bytes

    def phone(self, sticky_key: str) -> str:
        """A hash by which a phone is known within this split alone; without the salt nothing leads from one to the other."""
        return hashlib.blake2b(sticky_key.encode(errors="replace"), key=self.salt, digest_size=8).hexdigest()


def open_splits(connection: sqlite3.Connection) -> dict[Key, Split]:
    rows = connection.execute("SELECT model, label, id, first, second, share, salt FROM splits WHERE ended IS NULL")
    return {(model, label): Split(number, tuple(arms), salt) for model, label, number, *arms, salt in rows}


def follow(connection: sqlite3.Connection, wanted: Mapping[Key, Arms], now: str) -> dict[Key, Split]:
    """End the splits that are not wanted and begin those that are missing; returns what is open then."""
    before = open_splits(connection)
    for key, split in before.items():
        if split.arms != wanted.get(key):
            connection.execute("UPDATE splits SET ended = ?, salt = NULL WHERE id = ?", (now, split.id))
    for key, arms in wanted.items():
        if key not in before or before[key].arms != arms:
            connection.execute(
                "INSERT INTO splits (model, label, first, second, share, started, salt, tally) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, *arms, now, secrets.token_bytes(16), json.dumps(asdict(Tally(block_of(arms[2]))))),
            )
    return open_splits(connection)


def ask(connection: sqlite3.Connection, split: int, phones: Mapping[str, int]) -> None:
    """Count these phones as asked about an answer of a version; of each phone the first version counts."""
    insert = "INSERT OR IGNORE INTO phones (split, phone, version) VALUES (?, ?, ?)"
    with _tally(connection, split) as (tally, versions):
        for phone, version in phones.items():
            tally.asked[versions.index(version)] += connection.execute(insert, (split, phone, version)).rowcount


def count(connection: sqlite3.Connection, row: Mapping[str, Any], phone: str) -> str:
    """Count the vote in a row of feedback. Returns why it does not count, or ""."""
    split, version = row["split"], row["version"]
    if not connection.execute("SELECT 1 FROM splits WHERE id = ? AND ended IS NULL", (split,)).fetchone():
        return f"the split that this answer was part of has ended; {KEPT}"
    ask(connection, split, {phone: version})
    mark = "UPDATE phones SET has_voted = 1 WHERE split = ? AND phone = ? AND version = ? AND NOT has_voted"
    if not connection.execute(mark, (split, phone, version)).rowcount:
        return f"each phone has one vote in a split, on the version it was first asked about; {KEPT}"
    with _tally(connection, split) as (tally, versions):
        tally.add(versions.index(version), row["is_right"])
    return ""


@contextmanager
def _tally(connection: sqlite3.Connection, split: int) -> Iterator[tuple[Tally, list[int]]]:
    """The tally of a split, which is written afterwards, and its versions."""
    ((*versions, text),) = connection.execute("SELECT first, second, tally FROM splits WHERE id = ?", (split,))
    tally = Tally(**json.loads(text))
    yield tally, versions
    connection.execute("UPDATE splits SET tally = ? WHERE id = ?", (json.dumps(asdict(tally)), split))
