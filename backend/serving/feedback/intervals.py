"""Intervals for shares and for the difference of two, and when a difference counts as found: a sequential test.

Pure arithmetic; it knows neither versions nor feedback.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

ALPHA = 0.05
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
# The numbers of answers at which the interim analyses of the sequential test take place. Between them nothing is decided, so
# reading the result often costs nothing. The chances of an error at each add up to at most ALPHA (Bonferroni): 1/3 of it at
# 300, half as much one step from there, and so on. A test at every answer would need 3.0 standard errors; this one needs 2.4
# at 300 answers.
INTERIM_ANALYSES = tuple(75 * 2**step for step in range(16))
MIDDLE_STAGE = INTERIM_ANALYSES.index(300)
# The smallest difference that the estimate of answers still needed assumes: a smaller one is hardly worth the wait.
LEAST_DIFFERENCE = 0.01

# Whether the first and whether the second version were right; None for one that did not answer. Either all outcomes of a
# comparison have both, or each has one.
Outcome = tuple[bool | None, bool | None]


@dataclass(frozen=True)
class Interval:
    """An estimate with its limits."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """`answers`: their number at the deciding, or last, interim analysis; `better`: 0 or 1, the better one; None if undecided."""

    answers: int
    difference: Interval
    confidence: float
    better: int | None


def wilson(right: int, count: int, z: float = Z) -> Interval:
    """The share of `right` in `count` > 0, with Wilson's score interval (Wilson 1927)."""
    share = right / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def difference(outcomes: Sequence[Outcome], z: float = Z) -> Interval | None:
    """The second share less the first: Newcombe's hybrid score interval, his method 10 for independent shares (Statistics
    in Medicine 17, 1998, 873) and his method 10 for paired ones (17, 1998, 2635), which is the same with a correlation.

    None while one of the two has no answer.
    """
    firsts = [first for first, _ in outcomes if first is not None]
    seconds = [second for _, second in outcomes if second is not None]
    if not firsts or not seconds:
        return None
    first, second = wilson(sum(firsts), len(firsts), z), wilson(sum(seconds), len(seconds), z)
    correlation = _correlation(outcomes) if None not in outcomes[0] else 0.0
    value = second.value - first.value
    return Interval(
        value,
        value - _combined(second.value - second.low, first.high - first.value, correlation),
        value + _combined(second.high - second.value, first.value - first.low, correlation),
    )


def _combined(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


def _correlation(outcomes: Sequence[Outcome]) -> float:
    """Between the two of each pair, with Newcombe's correction for continuity where it is positive."""
    counts = {each: outcomes.count(each) for each in ((True, True), (True, False), (False, True), (False, False))}
    both, one, other, neither = counts.values()
    product = (both + one) * (other + neither) * (both + other) * (one + neither)
    if not product:
        return 0.0
    above = both * neither - one * other
    corrected = max(0.0, above - len(outcomes) / 2) if above > 0 else above
    return corrected / math.sqrt(product)


def find(outcomes: Sequence[Outcome]) -> Finding | None:
    """The first interim analysis whose interval excludes 0, or else the last one; None before the first.

    `outcomes` in the order in which they came.
    """
    found = None
    for stage, count in enumerate(INTERIM_ANALYSES):
        if count > len(outcomes):
            break
        interval = difference(outcomes[:count], _z(stage))
        if interval is None:
            continue
        better = 1 if interval.low > 0 else 0 if interval.high < 0 else None
        found = Finding(count, interval, 1 - _alpha(stage), better)
        if better is not None:
            break
    return found


def answers_needed(outcomes: Sequence[Outcome]) -> int:
    """About how many more answers are needed to find the difference, if it stays as it is, or is LEAST_DIFFERENCE."""
    interval, count = difference(outcomes), len(outcomes)
    if interval is None:
        return INTERIM_ANALYSES[0] - count if count < INTERIM_ANALYSES[0] else count
    error = (interval.high - interval.low) / (2 * Z)
    worth = max(abs(interval.value), LEAST_DIFFERENCE)
    coming = [(stage, at) for stage, at in enumerate(INTERIM_ANALYSES) if at > count]
    enough = (at for stage, at in coming if worth >= _z(stage) * error * math.sqrt(count / at))
    return next(enough, INTERIM_ANALYSES[-1]) - count


def _alpha(stage: int) -> float:
    return ALPHA * 2.0 ** -abs(stage - MIDDLE_STAGE) / 3


def _z(stage: int) -> float:
    return NormalDist().inv_cdf(1 - _alpha(stage) / 2)
