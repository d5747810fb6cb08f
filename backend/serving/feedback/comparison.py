"""Compares two versions by their votes: intervals, rates of answering, and a sequential test. Pure arithmetic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
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


def wilson(right: int, count: int, z: float = Z) -> dict[str, float]:
    """The share (`value`) of `right` in `count` > 0, with the limits of Wilson's score interval (Wilson 1927)."""
    share = right / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return {"value": share, "low": max(0.0, centre - half), "high": min(1.0, centre + half)}


def p_of_rates(answered: Sequence[int], asked: Sequence[int]) -> float:
    """The p-value of Pearson's chi-square test that two rates `answered` / `asked` are equal; 1 where nothing can differ."""
    pooled = sum(answered) / max(1, sum(asked))
    if min(asked) == 0 or pooled in (0, 1):
        return 1.0
    squares = sum(
        (got - of * pooled) ** 2 / (of * pooled * (1 - pooled)) for got, of in zip(answered, asked, strict=True)
    )
    return math.erfc(math.sqrt(squares / 2))


def block_of(share: float) -> tuple[int, int]:
    """How many votes of the first and of the second version make a block, if the second gets `share` of the phones."""
    part = Fraction(share).limit_denominator(20)
    part = part if 0 < part < 1 else Fraction(share).limit_denominator(1000)
    return part.denominator - part.numerator, part.numerator


def gains(
    block: tuple[int, int], right: npt.ArrayLike, votes: npt.ArrayLike, rights: Sequence[npt.ArrayLike]
) -> Numbers:
    """The logarithm of a block's E-variable for two Bernoulli streams, for each of EFFECTS (the last axis).

    `rights` are the right votes of each version in the block, `right` those of all `votes` in the blocks before; all may be
    arrays of one shape. Turner, Ly and Grünwald 2024, "Generic E-variables for exact sequential k-sample tests that allow for
    optional stopping", Journal of Statistical Planning and Inference 230, 106116. The effects lie around the share of right
    votes in the blocks before, so that they do not depend on this one.
    """
    before = np.asarray(right, float)[..., None]
    odds = (before + 1) / (np.asarray(votes)[..., None] - before + 1)
    part = block[1] / sum(block)
    shares = [1 / (1 + np.exp(-offset) / odds) for offset in (-EFFECTS * part, EFFECTS * (1 - part))]
    null = (shares[0] * block[0] + shares[1] * block[1]) / sum(block)
    total = np.zeros_like(null)
    for share, size, each in zip(shares, block, rights, strict=True):
        good = np.asarray(each)[..., None]
        total = total + good * np.log(share / null) + (size - good) * np.log((1 - share) / (1 - null))
    return total


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
    judged: list[int] = field(default_factory=_pair)  # votes that say whether the first breed is right
    right: list[int] = field(default_factory=_pair)
    waiting: list[str] = field(default_factory=lambda: ["", ""])  # "1" or "0" for each vote that is in no block yet
    right_in_blocks: int = 0
    votes_in_blocks: int = 0
    logs: list[float] = field(default_factory=lambda: [0.0] * len(EFFECTS))
    better: int | None = None  # 0 or 1, once it is known
    decided_at: int | None = None  # how many votes were in the blocks then

    def add(self, side: int, is_right: bool | None) -> None:
        """Count a vote; None where it cannot be told whether the first breed is right."""
        self.answered[side] += 1
        if is_right is None:
            return
        self.judged[side] += 1
        self.right[side] += is_right
        self.waiting[side] += str(int(is_right))
        if any(len(own) < size for own, size in zip(self.waiting, self.block, strict=True)):
            return
        rights = [own[:size].count("1") for own, size in zip(self.waiting, self.block, strict=True)]
        self.waiting = [own[size:] for own, size in zip(self.waiting, self.block, strict=True)]
        self.logs = (self.logs + gains(self.block, self.right_in_blocks, self.votes_in_blocks, rights)).tolist()
        self.right_in_blocks += sum(rights)
        self.votes_in_blocks += sum(self.block)
        if self.better is None and log_evidence(self.logs) >= -math.log(ALPHA):
            self.decided_at = self.votes_in_blocks
            self.better = int(EFFECTS[np.argmax(self.logs)] > 0)

    def votes_needed(self) -> int:
        """About how many more votes decide, if the shares of right ones stay, or differ by LEAST_DIFFERENCE."""
        first, second = ((right + 1) / (count + 2) for right, count in zip(self.right, self.judged, strict=True))
        if abs(second - first) < LEAST_DIFFERENCE:
            second = first - math.copysign(LEAST_DIFFERENCE, first - 0.5)
        rights = (self.block[0] * first, self.block[1] * second)
        gained = gains(self.block, self.right_in_blocks, self.votes_in_blocks, rights)
        missing = math.log(len(EFFECTS) / ALPHA) - np.array(self.logs)
        blocks = min(missing[gained > 0] / gained[gained > 0], default=1.0)
        return max(1, math.ceil(blocks)) * sum(self.block)
