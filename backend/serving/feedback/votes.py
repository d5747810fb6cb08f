"""Splits as the file of feedback knows them, and the votes of phones in them: each phone has one vote in each split."""

import hashlib
import json
import secrets
import sqlite3
from dataclasses import asdict, dataclass

from backend.serving.feedback.comparison import SequentialTest, block_of

Arms = tuple[
    int, int, float
]  # the version that a split takes phones from, the one that gets them, and its share in (0, 1)
SIDES = ("first", "second")
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

    @staticmethod
    def begin(connection: sqlite3.Connection, key: tuple[str, str], arms: Arms, now: str) -> None:
        test = json.dumps(asdict(SequentialTest(block_of(arms[2]))))
        connection.execute(
            "INSERT INTO splits (model, label, first, second, share, started, salt, test) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, *arms, now, secrets.token_bytes(16), test),
        )


@dataclass(frozen=True)
class Vote:
    """What a phone that was asked about an answer of `version` says: `is_right`, or None where that cannot be told."""

    split: int
    phone: str
    version: int
    is_right: bool | None = None

    def ask(self, connection: sqlite3.Connection) -> None:
        """Count the phone as asked; of each phone the first version counts."""
        insert = "INSERT OR IGNORE INTO phones (split, phone, version) VALUES (?, ?, ?)"
        if connection.execute(insert, (self.split, self.phone, self.version)).rowcount:
            for side in SIDES:
                sum_up = f"UPDATE splits SET asked_{side} = asked_{side} + 1 WHERE id = ? AND {side} = ?"
                connection.execute(sum_up, (self.split, self.version))

    def count(self, connection: sqlite3.Connection) -> str:
        """Count the vote; returns why it does not count, or ""."""
        row = connection.execute(
            "SELECT first, second, test FROM splits WHERE id = ? AND ended IS NULL", (self.split,)
        ).fetchone()
        if row is None:
            return f"the split that this answer was part of has ended; {KEPT}"
        self.ask(connection)
        mark = "UPDATE phones SET has_voted = 1 WHERE split = ? AND phone = ? AND version = ? AND NOT has_voted"
        if not connection.execute(mark, (self.split, self.phone, self.version)).rowcount:
            return f"each phone has one vote in a split, on the version it was first asked about; {KEPT}"
        number, side = (0, "first") if self.version == row[0] else (1, "second")
        test = SequentialTest(**json.loads(row[2]))
        if self.is_right is not None:
            test.add(number, self.is_right)
        connection.execute(
            f"UPDATE splits SET answered_{side} = answered_{side} + 1, judged_{side} = judged_{side} + ?, "
            f"right_{side} = right_{side} + ?, test = ? WHERE id = ?",
            (self.is_right is not None, bool(self.is_right), json.dumps(asdict(test)), self.split),
        )
        return ""
