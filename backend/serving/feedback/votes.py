"""Splits as the file of feedback knows them, and the votes of phones in them: each phone has one vote in each split."""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from backend.errors import AlreadyExists
from backend.serving.feedback.comparison import NO_BLOCKS, better, in_blocks
from backend.serving.feedback.store import COLUMNS, TIME

# Model, label ("" for the default), the version that a split takes phones from, the one that gets them, its share in (0, 1).
Arms = tuple[str, str, int, int, float]
INSERT = f"""INSERT INTO feedback ({", ".join(COLUMNS)}) VALUES ({", ".join(f":{name}" for name in COLUMNS)})
    ON CONFLICT (request_id) DO NOTHING"""
NOW = f"strftime('{TIME}', 'now')"
KEPT = "the feedback is kept, and counts in no comparison"
# Sums by phone, of the first and of the second version. `counted`: votes that say whether the first named breed is right.
SUMS = ("asked", "answered", "counted", "right")
TALLY = json.dumps({**dict.fromkeys(SUMS, (0, 0)), "better": None, "blocks": NO_BLOCKS})


def open_splits(connection: sqlite3.Connection) -> dict[Arms, tuple[int, bytes]]:
    """The number and the salt of each open split, which stay the same while its arms do, also over a restart."""
    rows = connection.execute("SELECT model, label, first, second, share, id, salt FROM splits WHERE ended IS NULL")
    return {tuple(arms): (number, salt) for *arms, number, salt in rows}


def hashed(sticky_key: str, salt: bytes) -> str:
    """A hash by which a phone is known within one split alone; without the salt nothing leads from one to the other."""
    return hashlib.blake2b(sticky_key.encode(errors="replace"), key=salt, digest_size=8).hexdigest()


def follow(connection: sqlite3.Connection, wanted: AbstractSet[Arms]) -> dict[Arms, tuple[int, bytes]]:
    """Let exactly these splits be open: an ended one loses its salt, and its votes stay as they are."""
    was = open_splits(connection)
    for arms in was.keys() - wanted:
        connection.execute(f"UPDATE splits SET ended = {NOW}, salt = NULL WHERE id = ?", was[arms][:1])
    for arms in wanted - was.keys():
        connection.execute(
            f"INSERT INTO splits (model, label, first, second, share, salt, tally, started) VALUES (?, ?, ?, ?, ?, ?, ?, {NOW})",
            (*arms, secrets.token_bytes(16), TALLY),
        )
    return open_splits(connection)


def ask(connection: sqlite3.Connection, split: int, phone: str, version: int) -> None:
    """Count a phone as asked about an answer of a version, if it is the first one in this split and the split is not deleted."""
    insert = "INSERT OR IGNORE INTO phones (split, phone, version) SELECT id, ?, ? FROM splits WHERE id = ?"
    if connection.execute(insert, (phone, version, split)).rowcount:
        _add(connection, split, version, {"asked": 1})


def add(connection: sqlite3.Connection, row: Mapping[str, Any]) -> str:
    """Add a row of feedback: COLUMNS, and the hash of the `phone`, whose vote counts in its split if the app was to ask.

    Returns why such a vote does not count, or "". Raises AlreadyExists for a request id that has feedback.
    """
    if not connection.execute(INSERT, row).rowcount:
        raise AlreadyExists("this answer has its feedback already; it is taken once for each request id")
    split, phone, version, is_right = (row[name] for name in ("split", "phone", "version", "is_right"))
    if not (row["asked"] and split):
        return ""
    if split not in (number for number, _ in open_splits(connection).values()):
        return f"the split that this answer was part of has ended; {KEPT}"
    ask(connection, split, phone, version)
    mark = "UPDATE phones SET has_voted = 1 WHERE split = ? AND phone = ? AND version = ? AND NOT has_voted"
    if not connection.execute(mark, (split, phone, version)).rowcount:
        return f"each phone has one vote in a split, on the version it was first asked about; {KEPT}"
    _add(connection, split, version, {"answered": 1, "counted": is_right is not None, "right": bool(is_right)})
    return ""


def _add(connection: sqlite3.Connection, split: int, version: int, more: Mapping[str, int]) -> None:
    """Add to the sums of a version in a split. A verdict stays once it is found."""
    query = "SELECT second, tally FROM splits WHERE id = ?"
    ((second, text),) = connection.execute(query, (split,))
    tally = json.loads(text)
    for name, number in more.items():
        tally[name][int(version == second)] += number
    if more.get("counted") and tally["better"] is None:
        tally["blocks"] = in_blocks(tally["right"], tally["counted"], tally.get("blocks", NO_BLOCKS))
        tally["better"] = better(tally["blocks"]["logs"])
    connection.execute("UPDATE splits SET tally = ? WHERE id = ?", (json.dumps(tally), split))
