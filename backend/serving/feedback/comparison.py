"""Compares two versions by their votes: intervals, rates of answering, and a sequential test. Pure arithmetic."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

ALPHA = 0.05
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
# What the test bets on: each difference in log-odds (between 85 and 90 % it is 0.46, between 91 and 99 % 2.3) with each share of
# right votes. Where about nine of ten votes are right, it decides the soonest.
EFFECTS, SHARES = np.array(
    [(sign * 2.0**n, share) for sign in (-1, 1) for n in range(-3, 2) for share in (0.6, 0.9, 0.97)]
).T
P_OF_RATES = 0.001  # below it the rates of answering differ: who answers depends on the version
# The smallest difference that the estimate of votes still needed assumes: a smaller one is hardly worth the wait.
LEAST_DIFFERENCE = 0.01


def wilson(right: int, count: int) -> dict[str, float]:
    """The share (`value`) of `right` in `count` > 0, with the limits of Wilson's score interval (Wilson 1927)."""
    share, weight = right / count, Z * Z / count
    centre = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    return {"value": share, "low": max(0.0, centre - half), "high": min(1.0, centre + half)}


def p_of_rates(answered: Sequence[int], asked: Sequence[int]) -> float:
    """The p-value of Pearson's chi-square test that two rates `answered` / `asked` are equal; 1 where nothing can differ."""
    pooled = sum(answered) / max(1, sum(asked))
    if min(asked) == 0 or pooled in (0, 1):
        return 1.0
    difference = answered[0] / asked[0] - answered[1] / asked[1]
    variance = pooled * (1 - pooled) * (1 / asked[0] + 1 / asked[1])
    return math.erfc(abs(difference) / math.sqrt(2 * variance))  # its square is chi-square, with one degree of freedom


def log_evidence(right: npt.ArrayLike, counted: npt.ArrayLike, share: float) -> npt.NDArray[np.float64]:
    """The logarithm of the evidence against "both are equally good", by `right` of `counted` votes of each version.

    If both are equally good, whether a vote is right tells nothing of whose it is: right and wrong votes are the second
    version's with one chance. Against the best such chance stands the mixture of chances that differ by EFFECTS, around the
    second version's `share` of the phones (universal inference, Wasserman et al. 2020). While both are equally good, the
    evidence ever reaches 1 / ALPHA with a probability of at most ALPHA (Ville's inequality): after any number of looks, with
    any shares, and also where the share of right votes changes in the course of time.
    """
    good, votes = np.asarray(right)[..., None], np.asarray(counted)[..., None]
    log_odds, logs = math.log(share / (1 - share)), np.array(-math.log(len(EFFECTS)))
    for (first, second), shift in ((good, EFFECTS * (1 - SHARES)), (votes - good, -EFFECTS * SHARES)):
        logs = logs - first * np.logaddexp(0, log_odds + shift) - second * np.logaddexp(0, -log_odds - shift)
    best = np.sum(votes * np.log(np.maximum(votes, 1) / np.maximum(votes.sum(axis=0), 1)), axis=0)
    return np.logaddexp.reduce(logs - best, axis=-1)


def better(right: Sequence[int], counted: Sequence[int], share: float) -> int | None:
    """0 if the first version is better, 1 if the second one is; None while that is not known."""
    is_known = log_evidence(right, counted, share) >= -math.log(ALPHA)
    return int(right[1] * counted[0] > right[0] * counted[1]) if is_known else None


def votes_needed(right: Sequence[int], counted: Sequence[int], share: float) -> int:
    """About how many more votes decide, if the shares of right ones stay, or differ by LEAST_DIFFERENCE."""
    first, second = ((good + 1) / (votes + 2) for good, votes in zip(right, counted, strict=True))
    pooled, difference = first + share * (second - first), max(LEAST_DIFFERENCE, abs(second - first))
    per_vote = share * (1 - share) * difference**2 / (2 * pooled * (1 - pooled))
    return max(1, math.ceil((-math.log(ALPHA) - log_evidence(right, counted, share)) / per_vote))
