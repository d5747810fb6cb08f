"""Compares two versions by their votes: intervals, rates of answering, and a
sequential test. Pure arithmetic.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

ALPHA = 0.05
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
# Differences in log-odds that the test bets on: between 85 and 90 % it is 0.46, between
# 91 and 99 % 2.3.
EFFECTS = np.array([sign * 2.0**power for power in range(-3, 2) for sign in (-1, 1)])
# Votes that are compared with one another. A smaller block tells less (1 / BLOCK is
# lost), a larger one lasts longer.
BLOCK = 20
NO_BLOCK = -1  # of a vote that is in no block
P_OF_RATES = 0.001  # below it the rates of answering differ: who answers depends on the version
# The smallest difference that the estimate of votes still needed assumes: a smaller one
# is hardly worth the wait.
LEAST_DIFFERENCE = 0.01
# Sums by phone, of the first and of the second version. `counted`: votes that say
# whether the first named breed is right.
SUMS = ("asked", "answered", "counted", "right")


def wilson(right: int, count: int) -> dict[str, float] | None:
    """The share (`value`) of `right` in `count`, with the limits of Wilson's
    score interval (Wilson 1927); None of none.
    """
    if count == 0:
        return None
    share, weight = right / count, Z * Z / count
    centre = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    return {"value": share, "low": max(0.0, centre - half), "high": min(1.0, centre + half)}


def p_of_rates(answered: Sequence[int], asked: Sequence[int]) -> float:
    """The p-value of Pearson's chi-square test that two rates `answered` /
    `asked` are equal; 1 where nothing can differ.
    """
    pooled = sum(answered) / max(1, sum(asked))
    if min(asked) == 0 or pooled in (0, 1):
        return 1.0
    difference = answered[0] / asked[0] - answered[1] / asked[1]
    variance = pooled * (1 - pooled) * (1 / asked[0] + 1 / asked[1])
    # Its square is chi-square, with one degree of freedom.
    return math.erfc(abs(difference) / math.sqrt(2 * variance))


def new_tally() -> dict[str, Any]:
    """Of a split: SUMS, which side is `better` (0, 1, or None while that is not
    known), and the test's state.

    `blocks`: of the right and of all votes, what is in each block; the last one
    is not full yet. `logs`: the logarithm of the evidence of the full ones, by
    effect.
    """
    sums = {name: [0, 0] for name in SUMS}
    return {**sums, "better": None, "blocks": [_new_block()], "logs": [0.0] * len(EFFECTS)}


def _new_block() -> dict[str, list[int]]:
    return {"right": [0, 0], "counted": [0, 0]}


def count(tally: dict[str, Any], side: int, **more: int) -> int:
    """Add to SUMS of a side, at most one vote at a time.

    A side that was found better stays the better one.

    Returns the number of the block that has the vote, NO_BLOCK if none has it:
    it is not counted, or a side is found better.
    """
    for name, number in more.items():
        tally[name][side] += number
    if tally["better"] is not None or not more.get("counted"):
        return NO_BLOCK
    blocks = tally["blocks"]
    number = len(blocks) - 1
    _add(blocks[number], side, more["right"], 1)
    if sum(blocks[number]["counted"]) == BLOCK:
        blocks.append(_new_block())
        _add_evidence(tally, gains(**blocks[number]))
    return number


def take_back(tally: dict[str, Any], side: int, is_right: bool | None, block: int) -> None:
    """Take a vote of a side off SUMS and its block, as if it had never come."""
    tally["answered"][side] -= 1
    if is_right is None:
        return
    _add(tally, side, is_right, -1)
    if block == NO_BLOCK:
        return
    votes = tally["blocks"][block]
    before = gains(**votes)
    _add(votes, side, is_right, -1)
    if block < len(tally["blocks"]) - 1:
        _add_evidence(tally, gains(**votes) - before)


def _add(votes: dict[str, Any], side: int, is_right: int, number: int) -> None:
    votes["counted"][side] += number
    votes["right"][side] += number * is_right


def _add_evidence(tally: dict[str, Any], logs: npt.NDArray[np.float64]) -> None:
    tally["logs"] = (tally["logs"] + logs).tolist()
    is_found = missing(tally["logs"]) <= 0
    tally["better"] = int(EFFECTS[np.argmax(tally["logs"])] > 0) if is_found else None


def gains(right: Sequence[int], counted: Sequence[int]) -> npt.NDArray[np.float64]:
    """The logarithm of a block's evidence for each of EFFECTS, by `right` of
    `counted` votes of each version in the block.

    The likelihood ratio of Fisher's exact test: of an odds ratio exp(effect)
    against one of 1, given how many votes are right and how many are the second
    version's. If both are equally good, whether a vote is right tells nothing
    of whose it is: the right votes of the second version are hypergeometric,
    and the mean of the ratio is 1.
    """
    good, second = sum(right), counted[1]
    ways = [
        math.comb(good, number) * math.comb(sum(counted) - good, second - number)
        for number in range(second + 1)
    ]
    odds = np.exp(np.outer(EFFECTS, np.arange(second + 1)))
    return EFFECTS * right[1] - np.log(odds @ ways / sum(ways))


def missing(logs: Sequence[float]) -> float:
    """By how much the logarithm of the evidence against "both are equally good"
    is too small for a verdict.

    `logs` are the sums of `gains` over the blocks; the evidence is their mean
    over EFFECTS. While both are equally good, it ever reaches 1 / ALPHA with a
    probability of at most ALPHA (Ville's inequality): after any number of
    looks, with any shares of the votes, and also where the share of right votes
    or the versions' shares of the votes change from block to block.
    """
    return math.log(len(EFFECTS) / ALPHA) - float(np.logaddexp.reduce(logs))


def votes_needed(tally: dict[str, Any]) -> int:
    """About how many more votes decide, if all shares stay, or those of right
    ones differ by LEAST_DIFFERENCE.
    """
    right, counted = tally["right"], tally["counted"]
    first = (right[0] + 1) / (counted[0] + 2)
    second = (right[1] + 1) / (counted[1] + 2)
    share = (counted[1] + 1) / (sum(counted) + 2)
    pooled = first + share * (second - first)
    difference = max(LEAST_DIFFERENCE, abs(second - first))
    per_vote = share * (1 - share) * difference**2 / (2 * pooled * (1 - pooled))
    return max(1, math.ceil(missing(tally["logs"]) / per_vote))
