"""Compares two versions by their votes: intervals, rates of answering, and a sequential test. Pure arithmetic."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

ALPHA = 0.05
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
# Differences in log-odds that the test bets on: between 85 and 90 % it is 0.46, between 91 and 99 % 2.3.
EFFECTS = np.array([sign * 2.0**power for power in range(-3, 2) for sign in (-1, 1)])
# Votes that are compared with one another. A smaller block tells less (1 / BLOCK is lost), a larger one lasts longer.
BLOCK = 20
# What the test has seen of a split: the right and all votes that are in blocks, and the logarithm of their evidence by effect.
NO_BLOCKS: dict[str, list[Any]] = {"right": [0, 0], "counted": [0, 0], "logs": [0.0] * len(EFFECTS)}
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


def gains(right: Sequence[int], counted: Sequence[int]) -> npt.NDArray[np.float64]:
    """The logarithm of a block's evidence for each of EFFECTS, by `right` of `counted` votes of each version in the block.

    The likelihood ratio of Fisher's exact test: of an odds ratio exp(effect) against one of 1, given how many votes are right and
    how many are the second version's. If both are equally good, whether a vote is right tells nothing of whose it is: the right
    votes of the second version are hypergeometric, and the mean of the ratio is 1.
    """
    good, second, votes = sum(right), counted[1], sum(counted)
    least, most = max(0, good + second - votes), min(good, second)
    below = np.arange(least, most)
    steps = np.log((good - below) * (second - below) / ((below + 1) * (votes - good - second + below + 1)))
    logs = np.append(0, np.cumsum(steps))
    weights = logs - np.logaddexp.reduce(logs)
    return EFFECTS * right[1] - np.logaddexp.reduce(np.outer(EFFECTS, np.arange(least, most + 1)) + weights, axis=1)


def in_blocks(right: Sequence[int], counted: Sequence[int], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """NO_BLOCKS or what this returned `before`, with the votes since then in it as soon as they make a block."""
    votes = [now - was for now, was in zip(counted, before["counted"], strict=True)]
    if sum(votes) < BLOCK:
        return before
    good = [now - was for now, was in zip(right, before["right"], strict=True)]
    return {"right": right, "counted": counted, "logs": (before["logs"] + gains(good, votes)).tolist()}


def log_evidence(logs: Sequence[float]) -> float:
    """The logarithm of the evidence against "both are equally good": the mean over EFFECTS of what their blocks gained.

    `logs` are the sums of `gains` over the blocks. While both are equally good, the evidence ever reaches 1 / ALPHA with a
    probability of at most ALPHA (Ville's inequality): after any number of looks, with any shares of the votes, and also where
    the share of right votes or the versions' shares of the votes change from block to block.
    """
    return float(np.logaddexp.reduce(logs)) - math.log(len(EFFECTS))


def better(logs: Sequence[float]) -> int | None:
    """0 if the first version is better, 1 if the second one is; None while that is not known."""
    return int(EFFECTS[np.argmax(logs)] > 0) if log_evidence(logs) >= -math.log(ALPHA) else None


def votes_needed(right: Sequence[int], counted: Sequence[int], logs: Sequence[float]) -> int:
    """About how many more votes decide, if all shares stay, or those of right ones differ by LEAST_DIFFERENCE."""
    first, second = ((good + 1) / (votes + 2) for good, votes in zip(right, counted, strict=True))
    share = (counted[1] + 1) / (sum(counted) + 2)
    pooled, difference = first + share * (second - first), max(LEAST_DIFFERENCE, abs(second - first))
    per_vote = share * (1 - share) * difference**2 / (2 * pooled * (1 - pooled))
    return max(1, math.ceil((-math.log(ALPHA) - log_evidence(logs)) / per_vote))
