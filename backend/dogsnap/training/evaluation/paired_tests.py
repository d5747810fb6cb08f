"""Statistics of two versions on the same photos: the exact test of McNemar, and
a bound of how much worse one may be.
"""

import math
from collections.abc import Callable

from dogsnap.training.thresholds import binomial_tail

CONFIDENCE = 0.95  # of `drop_bound`, one-sided
STEPS = 60  # of a bisection: more digits than a float has


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of "both are right equally often", of how many
    photos only one of them is right on.

    Such photos are heads and tails of a fair coin then (McNemar, 1947; exact as
    a sign test).
    """
    photos = only_first + only_second
    fewer = min(only_first, only_second)
    ways = sum(math.comb(photos, count) for count in range(fewer + 1))
    return min(1.0, 2 * ways / 2**photos)


def drop_bound(only_first: int, only_second: int, photos: int) -> float:
    """How much smaller the share of right answers of the second version is at
    most, with CONFIDENCE; in [-1, 1].

    The share that only the first is right on, at most, less the share that only
    the second is right on, at least: exact bounds of Clopper and Pearson
    (1934), with half of the doubt each, so that both hold together
    (Bonferroni). It is never more often wrong than stated, with few photos too,
    at the price of being wider than asymptotic ones.
    """
    doubt = (1 - CONFIDENCE) / 2
    return upper_share(only_first, photos, doubt) - lower_share(only_second, photos, doubt)


def upper_share(count: int, photos: int, doubt: float) -> float:
    """The largest share of which `count` of `photos`, or fewer, come with a
    probability of `doubt`.
    """
    if count == photos:
        return 1.0
    return _bisect(lambda share: binomial_tail(count, photos, share) > doubt)


def lower_share(count: int, photos: int, doubt: float) -> float:
    """The smallest share of which `count` of `photos`, or more, come with a
    probability of `doubt`.
    """
    if count == 0:
        return 0.0
    return _bisect(lambda share: 1 - binomial_tail(count - 1, photos, share) < doubt)


def photos_needed(drop: float) -> int:
    """Of so many photos with answers that are all alike, `drop_bound` is `drop`
    (above 0) or less.
    """
    return math.ceil(math.log((1 - CONFIDENCE) / 2) / math.log1p(-drop))


def _bisect(is_below: Callable[[float], bool]) -> float:
    """The share in (0, 1) up to which `is_below` holds."""
    low = 0.0
    high = 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return high
