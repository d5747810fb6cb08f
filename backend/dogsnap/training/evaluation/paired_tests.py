"""Statistics of two versions on the same photos: the exact test of McNemar, and
a bound of how much worse one may be.
"""

import math
from bisect import bisect_left
from functools import cache

from dogsnap.training.thresholds import binomial_tail

CONFIDENCE = 0.95  # of `drop_bound`, one-sided
DOUBT = (1 - CONFIDENCE) / 2  # of each of its two bounds
STEPS = 10**12  # of a share in [0, 1], among which a bound is found


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
    least_second = 1 - upper_share(photos - only_second, photos)
    return upper_share(only_first, photos) - least_second


@cache
def upper_share(count: int, photos: int) -> float:
    """The largest share of which `count` of `photos`, or fewer, come with a
    probability of DOUBT.
    """
    if count == photos:
        return 1.0
    found = bisect_left(
        range(1, STEPS),
        True,
        key=lambda step: binomial_tail(count, photos, step / STEPS) <= DOUBT,
    )
    return (found + 1) / STEPS


def photos_needed(drop: float) -> int:
    """Of so many photos with answers that are all alike, `drop_bound` is `drop`
    (above 0) or less.
    """
    return math.ceil(math.log(DOUBT) / math.log1p(-drop))
