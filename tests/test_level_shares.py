"""Shares of levels by day, and the sentence when they drift."""

import pytest

from backend.serving.feedback.level_shares import HOUR, KEPT_HOURS, LevelShares
from backend.serving.tensors.signatures import ServableId

DOGS = ServableId("dogs", 2)
START = 1_800_000_000  # 2027-01-15, 08:00 UTC


class Clock:
    def __init__(self) -> None:
        self.now = float(START)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def shares(clock):
    return LevelShares(clock)


def answer(shares, clock, hours: int, an_hour: int, unsure: int) -> None:
    """So many answers in each of so many hours, of which `unsure` of 100 are."""
    for _ in range(hours):
        for place in range(an_hour):
            shares.count(DOGS, "unsure" if place % 100 < unsure else "breed")
        clock.now += HOUR


def test_answers_are_told_by_day(shares, clock):
    answer(shares, clock, 24, 100, 25)
    (told,) = shares.report("dogs")
    assert told["version"] == 2
    assert [(day["day"], day["answers"]) for day in told["days"]] == [("2027-01-15", 1600), ("2027-01-16", 800)]
    assert told["days"][0]["shares"] == {"breed": 0.75, "unsure": 0.25}
    assert shares.report("cats") == []


def test_a_drift_is_a_sentence_and_the_same_again_is_none(shares, clock):
    answer(shares, clock, 96, 100, 12)
    assert shares.report("dogs")[0]["drift"] == []
    answer(shares, clock, 24, 100, 20)
    clock.now -= HOUR  # the hour that is not over counts
    sentences = shares.report("dogs")[0]["drift"]
    assert sentences == [
        '"breed" went from 88.0 to 80.0 % of answers in the last 24 hours (2400 answers)',
        '"unsure" went from 12.0 to 20.0 % of answers in the last 24 hours (2400 answers)',
    ]


@pytest.mark.parametrize(("an_hour", "unsure"), [(5, 100), (100, 15)])
def test_few_answers_or_a_small_difference_are_no_drift(shares, clock, an_hour, unsure):
    answer(shares, clock, 96, 100, 12)
    answer(shares, clock, 24, an_hour, unsure)
    clock.now -= HOUR
    assert shares.report("dogs")[0]["drift"] == []


def test_hours_are_forgotten_after_two_weeks(shares, clock):
    answer(shares, clock, 1, 100, 50)
    clock.now += KEPT_HOURS * HOUR
    shares.count(DOGS, "breed")
    (told,) = shares.report("dogs")
    assert sum(day["answers"] for day in told["days"]) == 1
