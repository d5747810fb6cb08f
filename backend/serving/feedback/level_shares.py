"""Counts how often each version answers with each level (breed, group, unsure, no dog ...) per hour, and detects drift.

It needs no feedback. It keeps only counts, in memory, of the last two weeks.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from backend.serving.feedback import intervals
from backend.serving.tensors.signatures import ServableId

HOUR = 3600
KEPT_HOURS = 14 * 24
RECENT_HOURS = 24
# Drift is reported from LEAST_ANSWERS before and after, and from LEAST_DRIFT on, as shares vary from day to day. 4 standard
# errors (6 in 100,000): every version has six shares, and they are tested all the time.
LEAST_ANSWERS, LEAST_DRIFT, DRIFT_Z = 200, 0.05, 4.0


class LevelShares:
    """Counts answers by version, hour and level. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.time):
        """`clock`: seconds since 1970."""
        self._clock = clock
        self._lock = threading.Lock()
        self._hours: dict[ServableId, dict[int, Counter[str]]] = defaultdict(dict)

    def count(self, servable: ServableId, level: str) -> None:
        hour = int(self._clock()) // HOUR
        with self._lock:
            hours = self._hours[servable]
            if hour not in hours:
                hours[hour] = Counter()
                for old in [each for each in hours if each <= hour - KEPT_HOURS]:
                    del hours[old]
            hours[hour][level] += 1

    def report(self, model: str) -> list[dict[str, Any]]:
        """Each version with its days, each with `answers` and the `shares` of levels, and sentences about its `drift`."""
        now = int(self._clock()) // HOUR
        with self._lock:
            copied = {each: dict(hours) for each, hours in self._hours.items() if each.name == model}
        return [
            {"version": each.version, "days": _days(hours), "drift": _drift(hours, now)}
            for each, hours in sorted(copied.items())
        ]


def _days(hours: dict[int, Counter[str]]) -> list[dict[str, Any]]:
    days: dict[str, Counter[str]] = defaultdict(Counter)
    for hour, counts in sorted(hours.items()):
        days[datetime.fromtimestamp(hour * HOUR, UTC).date().isoformat()].update(counts)
    return [
        {
            "day": day,
            "answers": counts.total(),
            "shares": {level: count / counts.total() for level, count in sorted(counts.items())},
        }
        for day, counts in days.items()
    ]


def _drift(hours: dict[int, Counter[str]], now: int) -> list[str]:
    """What differs between the last day and those before it."""
    recent, before = Counter[str](), Counter[str]()
    for hour, counts in hours.items():
        (recent if hour > now - RECENT_HOURS else before).update(counts)
    if min(recent.total(), before.total()) < LEAST_ANSWERS:
        return []
    sentences = []
    for level in sorted({*recent, *before}):
        shares = [intervals.wilson(counts[level], counts.total(), DRIFT_Z) for counts in (before, recent)]
        if abs(shares[1].value - shares[0].value) >= LEAST_DRIFT and not _overlap(*shares):
            sentences.append(
                f'"{level.replace("_", " ")}" went from {100 * shares[0].value:.1f} to {100 * shares[1].value:.1f} % of '
                f"answers in the last {RECENT_HOURS} hours ({recent.total()} answers)"
            )
    return sentences


def _overlap(one: intervals.Interval, other: intervals.Interval) -> bool:
    return one.low <= other.high and other.low <= one.high
