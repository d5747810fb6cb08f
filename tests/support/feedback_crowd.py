"""A simulated crowd that answers what it is asked for a year, into a store of feedback that is read and swept every day."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backend.serving.feedback.claims import BREED, judge
from backend.serving.feedback.store import Store, timestamp
from backend.serving.feedback.verdict import verdict
from backend.serving.feedback.votes import Vote

MODEL, DAYS = "dogs", 365
CORRECTS_WRONG = 2 / 3  # a third of people leave a wrong answer uncorrected
SAYS_RIGHT = 0.8


def year(
    seed: int, phones: int, answers: int, correlation: float, share: float = 0.5, accuracy=(0.9, 0.9)
) -> int | None:
    """The version that a report names as the better one on any day of a year, or None.

    Each phone gives up to so many `answers`; whether two of one phone are right correlates. Version 2 gets `share` of the
    phones; version 1 is sure most of the time, version 2 names sets. What people say is kept for 30 days.
    """
    chance, store = random.Random(seed), Store(Path(":memory:"), 30)
    store.follow({(MODEL, ""): (1, 2, share)})
    split = store.open[MODEL, ""].id
    events = []
    for phone in range(phones):
        version = 2 if chance.random() < share else 1
        right = _right_of_phone(chance, accuracy[version - 1], correlation)
        events += [(chance.randrange(DAYS), phone, version, chance.random() < right) for _ in range(answers)]
    events.sort(key=lambda each: each[0])
    start, last = datetime.now(UTC) - timedelta(days=DAYS), -1
    for place, (day, phone, version, is_right) in enumerate(events):
        if day != last:
            last = day
            store.sweep()
            (found,) = verdict(store, MODEL, [1, 2], {})["comparisons"]
            if found["better"] is not None:
                return found["better"]
        store.asked({(split, str(phone)): version})
        if chance.random() < (SAYS_RIGHT if is_right else SAYS_RIGHT * CORRECTS_WRONG):
            level = "set" if version == 2 and chance.random() < 0.7 else "breed"
            breeds, said = ("a", "b") if level == "set" else ("a",), "a" if is_right else "b"
            first_right, holds = judge(level, breeds, BREED, said)
            row = {
                **{"request_id": str(place), "answered_at": timestamp(start + timedelta(days=day)), "model": MODEL},
                **{"version": version, "split": split, "asked": True, "level": level, "breeds": json.dumps(breeds)},
                **{"probability": 0.9, "verdict": BREED, "breed": said, "is_right": first_right, "holds": holds},
            }
            store.add(row, Vote(split, str(phone), version, first_right))
    (found,) = verdict(store, MODEL, [1, 2], {})["comparisons"]
    store.close()
    return found["better"]


def _right_of_phone(chance: random.Random, share: float, correlation: float) -> float:
    """A phone's own share of right answers: from a beta distribution, which gives two of its answers this correlation."""
    if correlation == 0:
        return share
    size = (1 - correlation) / correlation
    return chance.betavariate(share * size, (1 - share) * size)
