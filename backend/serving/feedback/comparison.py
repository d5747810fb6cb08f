"""Compares two versions by their votes: intervals, rates of answering, and a sequential test. Pure arithmetic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist

ALPHA = 0.05
Z = NormalDist().inv_cdf(1 - ALPHA / 2)
# Differences in log-odds that the test bets on: between 85 and 90 % it is 0.46, between 91 and 99 % 2.3.
EFFECTS = tuple(sign * 2.0**power for power in range(-5, 2) for sign in (-1, 1))
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


@dataclass
class SequentialTest:
    """Tests from the first vote of a split on whether both versions are right equally often; `add` every vote once.

    Each block of votes, so many of the first version and so many of the second, multiplies an E-variable for two Bernoulli
    streams (Turner, Ly and Grünwald 2024, "Generic E-variables for exact sequential k-sample tests that allow for optional
    stopping", Journal of Statistical Planning and Inference 230, 106116); it is averaged over EFFECTS. While both versions are
    equally good, the product ever reaches 1 / ALPHA with a probability of at most ALPHA (Ville's inequality): after any number
    of looks, with any shares, and also where the share of right votes changes in the course of time.
    """

    block: tuple[int, int]
    waiting: list[str] = field(default_factory=lambda: ["", ""])  # "1" or "0" for each vote that is in no block yet
    right: int = 0  # in the blocks
    votes: int = 0  # in the blocks
    logs: list[float] = field(default_factory=lambda: [0.0] * len(EFFECTS))
    better: int | None = None  # 0 or 1, once it is known
    decided_at: int | None = None  # how many votes were in the blocks then

    def add(self, side: int, is_right: bool) -> None:
        self.waiting[side] += str(int(is_right))
        while all(len(own) >= size for own, size in zip(self.waiting, self.block, strict=True)):
            rights = [own[:size].count("1") for own, size in zip(self.waiting, self.block, strict=True)]
            self.waiting = [own[size:] for own, size in zip(self.waiting, self.block, strict=True)]
            self.logs = [before + gain for before, gain in zip(self.logs, self._gains(*rights), strict=True)]
            self.right, self.votes = self.right + sum(rights), self.votes + sum(self.block)
            if self.better is None and self.evidence() >= 1 / ALPHA:
                self.decided_at = self.votes
                self.better = int(EFFECTS[self.logs.index(max(self.logs))] > 0)

    def evidence(self) -> float:
        """The product: the factor by which a bet against "both are equally good" has grown."""
        most = max(self.logs)
        return math.exp(min(most, 700.0)) * sum(math.exp(each - most) for each in self.logs) / len(EFFECTS)

    def votes_needed(self, rights: Sequence[int], counts: Sequence[int]) -> int:
        """About how many more votes decide, if the shares of right ones stay, or differ by LEAST_DIFFERENCE."""
        first, second = ((right + 1) / (count + 2) for right, count in zip(rights, counts, strict=True))
        if abs(second - first) < LEAST_DIFFERENCE:
            second = first - math.copysign(LEAST_DIFFERENCE, first - 0.5)
        gains = self._gains(self.block[0] * first, self.block[1] * second)
        missing = [math.log(len(EFFECTS) / ALPHA) - each for each in self.logs]
        blocks = min((more / gain for more, gain in zip(missing, gains, strict=True) if gain > 0), default=1.0)
        return max(1, math.ceil(blocks)) * sum(self.block)

    def _gains(self, first: float, second: float) -> list[float]:
        """By effect: the logarithm of the E-variable of a block with so many right votes of each version.

        The effects lie around the share of right votes in the blocks before, so that they do not depend on this one.
        """
        centre = math.log((self.right + 1) / (self.votes - self.right + 1))
        part, size = self.block[1] / sum(self.block), sum(self.block)
        gains = []
        for effect in EFFECTS:
            shares = [1 / (1 + math.exp(-(centre + offset))) for offset in (-effect * part, effect * (1 - part))]
            null = sum(share * own for share, own in zip(shares, self.block, strict=True)) / size
            gains.append(
                sum(
                    right * math.log(share / null) + (own - right) * math.log((1 - share) / (1 - null))
                    for share, own, right in zip(shares, self.block, (first, second), strict=True)
                )
            )
        return gains
