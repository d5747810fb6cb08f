"""A threshold of sure answers whose precision holds with a confidence over the draw of the calibration photos."""

import math

import numpy as np


def bounded_threshold(scores: np.ndarray, right: np.ndarray, precision: float, confidence: float = 0.95) -> float:
    """The smallest score found from which on `precision` of the answers are right, with `confidence`; 1 where none is found.

    `scores` float (n,) and `right` bool (n,) of calibration photos, exchangeable with later ones, that took no part in any other
    choice. "Selection with guaranteed risk" of Geifman and El-Yaniv (2017), algorithm 1: a binary search over the sorted
    scores, each step of which tests the errors among the answers above by the binomial tail; the doubt is divided among the
    steps.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, wrong = scores[order], np.cumsum(~right[order])
    steps = max(1, math.ceil(math.log2(len(scores) + 1)))
    lowest, highest, found = 0, len(scores) - 1, 1.0
    for _ in range(steps):
        if lowest > highest:
            break
        place = (lowest + highest) // 2
        last = int(np.searchsorted(-ranked, -ranked[place], side="right")) - 1  # all that share this score
        if binomial_tail(int(wrong[last]), last + 1, 1 - precision) <= (1 - confidence) / steps:
            found, lowest = float(ranked[place]), last + 1
        else:
            highest = place - 1
    return found


def binomial_tail(errors: int, count: int, rate: float) -> float:
    """The probability of at most so many errors among `count` independent answers that are wrong at this rate, 0 < rate < 1."""
    logarithms = [
        math.lgamma(count + 1) - math.lgamma(each + 1) - math.lgamma(count - each + 1)
        + each * math.log(rate) + (count - each) * math.log1p(-rate)
        for each in range(errors + 1)
    ]  # fmt: skip
    return math.fsum(map(math.exp, logarithms))
