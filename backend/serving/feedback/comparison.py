"""Compares two versions by their votes: intervals, rates of answering, and a sequential test. Pure arithmetic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
ALPHA = 0.05
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
# Differences in log-odds that the test bets on: between 85 and 90 % it is 0.46, between 91 and 99 % 2.3.
EFFECTS = np.array([sign * 2.0**power for power in range(-5, 2) for sign in (-1, 1)])
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


def block_of(share: float) -> tuple[int, int]:
    """How many votes of the first and of the second version make a block, if the second gets `share` of the phones."""
    part = Fraction(share).limit_denominator(20)
    part = part if 0 < part < 1 else Fraction(share).limit_denominator(1000)
    return part.denominator - part.numerator, part.numerator


@lru_cache(64)
def _log_means(block: tuple[int, int]) -> Numbers:
    """By the right votes in a block, and by effect: the log of the mean of exp(effect * those of the second version).

    If every vote is right with the same chance, whatever it is, those of the second version are hypergeometric.
    """
    rows = []
    for right in range(sum(block) + 1):
        of_second = range(max(0, right - block[0]), min(right, block[1]) + 1)
        ways = [math.comb(block[0], right - each) * math.comb(block[1], each) for each in of_second]
        logs = np.log([each / sum(ways) for each in ways])
        rows.append(np.logaddexp.reduce(np.outer(EFFECTS, of_second) + logs, axis=1))
    return np.array(rows)


def gains(block: Sequence[int], rights: Sequence[npt.ArrayLike]) -> Numbers:
    """The logarithm of a block's evidence for each of EFFECTS (the last axis), given the right votes of each version in it.

    The likelihood ratio of Fisher's exact test: of an odds ratio exp(effect) against one of 1, given how many votes are right.
    While both versions are equally good its mean is 1, so that the product over blocks is a test martingale.
    """
    first, second = (np.asarray(each) for each in rights)
    return EFFECTS * second[..., None] - _log_means((block[0], block[1]))[first + second]


def log_evidence(logs: npt.ArrayLike) -> Numbers:
    """The logarithm of the evidence against "both are equally good": the mean over EFFECTS of what their blocks gained.

    `logs` are the sums of `gains` over the blocks. While both versions are equally good, the evidence ever reaches 1 / ALPHA with
    a probability of at most ALPHA (Ville's inequality): after any number of looks, with any shares, and also where the share of
    right votes changes in the course of time.
    """
    return np.logaddexp.reduce(np.asarray(logs), axis=-1) - math.log(len(EFFECTS))


def _pair() -> list[int]:
    return [0, 0]


@dataclass
class Tally:
    """What a split has counted from its first phone on, always for its first and its second version, and the test on it."""

    block: tuple[int, int]
    asked: list[int] = field(default_factory=_pair)
    answered: list[int] = field(default_factory=_pair)
    counted: list[int] = field(default_factory=_pair)  # votes that say whether the first breed is right
    right: list[int] = field(default_factory=_pair)
    waiting: list[str] = field(default_factory=lambda: ["", ""])  # "1" or "0" for each vote that is in no block yet
    logs: list[float] = field(default_factory=lambda: [0.0] * len(EFFECTS))
    better: int | None = None  # 0 or 1, once it is known
    decided_at: int | None = None  # how many votes were in the blocks then

    def add(self, side: int, is_right: bool | None) -> None:
        """Count a vote; None where it cannot be told whether the first breed is right."""
        self.answered[side] += 1
        if is_right is None:
            return
        self.counted[side] += 1
        self.right[side] += is_right
        self.waiting[side] += str(int(is_right))
        if any(len(own) < size for own, size in zip(self.waiting, self.block, strict=True)):
            return
        rights = [own[:size].count("1") for own, size in zip(self.waiting, self.block, strict=True)]
        self.waiting = [own[size:] for own, size in zip(self.waiting, self.block, strict=True)]
        self.logs = (self.logs + gains(self.block, rights)).tolist()
        if self.better is None and log_evidence(self.logs) >= -math.log(ALPHA):
            self.decided_at = sum(self.counted) - sum(map(len, self.waiting))
            self.better = int(EFFECTS[np.argmax(self.logs)] > 0)

    def votes_needed(self) -> int:
        """About how many more votes decide, if the shares of right ones stay, or differ by LEAST_DIFFERENCE."""
        first, second = ((right + 1) / (count + 2) for right, count in zip(self.right, self.counted, strict=True))
        if abs(second - first) < LEAST_DIFFERENCE:
            second = first - math.copysign(LEAST_DIFFERENCE, first - 0.5)
        pooled = (self.block[0] * first + self.block[1] * second) / sum(self.block)
        per_block = sum(
            size * (share * math.log(share / pooled) + (1 - share) * math.log((1 - share) / (1 - pooled)))
            for size, share in zip(self.block, (first, second), strict=True)
        )
        found = max(np.array(self.logs)[EFFECTS * (second - first) > 0])
        return max(1, math.ceil((math.log(len(EFFECTS) / ALPHA) - found) / per_block)) * sum(self.block)
