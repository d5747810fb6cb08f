"""Simulated phones that answer what they are asked in the course of a year, and who finds a winner between the versions."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from feedback_ids import ARMS, DOGS, row

from backend.serving.answers.claims import BREED, judge
from backend.serving.feedback.comparison import P_OF_RATES, count, new_tally, p_of_rates
from backend.serving.feedback.report import verdict
from backend.serving.feedback.store import TIME, Store

DAYS = 365
SAYS_RIGHT, CORRECTS = 0.8, 2 / 3  # a third of people leave a wrong answer uncorrected


@dataclass
class Crowd:
    """Phones by their side (0 or 1), and their answers in the order of time: when (days), right or not, with feedback or not."""

    share: float
    side: np.ndarray
    days: np.ndarray
    right: np.ndarray
    said: np.ndarray


def crowd(seed: int, phones: int, answers: int, correlation: float, share=0.5, accuracy=(0.9, 0.9)) -> Crowd:
    """Each phone gets so many `answers`; whether two of one phone are right correlates (a beta distribution of its share)."""
    chance = np.random.default_rng(seed)
    side = (chance.random(phones) < share).astype(int)
    of_phone = np.array(accuracy)[side]
    if correlation:
        size = (1 - correlation) / correlation
        of_phone = chance.beta(of_phone * size, (1 - of_phone) * size)
    right = chance.random((phones, answers)) < of_phone[:, None]
    said = chance.random((phones, answers)) < np.where(right, SAYS_RIGHT, SAYS_RIGHT * CORRECTS)
    return Crowd(share, side, np.sort(DAYS * chance.random((phones, answers))), right, said)


def decision(side: np.ndarray, right: np.ndarray) -> tuple[int | None, int | None]:
    """After how many of these votes the test decides (None: never), and for which side."""
    tally = new_tally()
    for number, (own, is_right) in enumerate(zip(side.tolist(), right.tolist(), strict=True), 1):
        count(tally, own, counted=1, right=is_right)
        if tally["better"] is not None:
            return number, tally["better"]
    return None, None


def winner(given: Crowd) -> int | None:
    """The version (1 or 2) that a report names on any day, by the functions that decide, over the phones' first feedback."""
    votes = np.flatnonzero(given.said.any(axis=1))
    first = given.said[votes].argmax(axis=1)
    days, right = given.days[votes, first], given.right[votes, first]
    order = np.argsort(days)
    number, found = decision(given.side[votes][order], right[order])
    if number is None:
        return None
    for day in range(int(days[order][number - 1]) + 1, DAYS + 1):
        asked = [int((given.days[given.side == each, 0] < day).sum()) for each in (0, 1)]
        answered = [int((days[given.side[votes] == each] < day).sum()) for each in (0, 1)]
        if p_of_rates(answered, asked) >= P_OF_RATES:
            return 1 + found
    return None


def winner_in_store(given: Crowd) -> int | None:
    """The same by a store of feedback that keeps rows for 30 days, and is swept and read every day.

    Version 1 names one breed each time, version 2 mostly sets.
    """
    store = Store(Path(":memory:"), 30)
    start = datetime.now(UTC) - timedelta(days=DAYS)
    store.follow({(*ARMS[:-1], given.share)})
    found, day = None, 0
    order = [divmod(int(place), given.days.shape[1]) for place in np.argsort(given.days, axis=None)]
    for number, (phone, place) in enumerate([*order, (None, None)]):
        now = DAYS if phone is None else int(given.days[phone, place])
        if now > day:
            day = now
            store.sweep()
            found = found or verdict(store, DOGS, [1, 2], {})["comparisons"][0]["better"]
        if phone is None:
            break
        version, is_right = 1 + int(given.side[phone]), bool(given.right[phone, place])
        store.ask([(1, str(phone), version)])
        if given.said[phone, place]:
            level = "set" if version == 2 and number % 10 < 7 else "breed"
            breeds, said = ("a", "b") if level == "set" else ("a",), "a" if is_right else "b"
            first_right, holds = judge(level, breeds, BREED, said)
            answered_at = (start + timedelta(days=day)).strftime(TIME)
            more = {"level": level, "breeds": json.dumps(breeds), "breed": said, "holds": holds, "phone": str(phone)}
            store.add(row(number, version, first_right, answered_at=answered_at, **more))
    store.close()
    return found
