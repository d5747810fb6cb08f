"""Chooses which photos get a second pass, and how its answer is combined with the first."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from dogsnap.networks.second_pass import LEAST, SecondPass
from dogsnap.networks.temperature import fit_calibration, softmax

# What `choose` tries: not more, since each choice between equals is made by chance, and
# costs thresholds that hold for any. Lab note: margins of 0.05 and 0.2 and weights of
# 0.4, 0.5 and 0.6 are right as often, and how large the window is decides nothing.
SUREST, WEIGHT, MARGIN = (0.85, 0.95, 1.0), 0.5, 0.05
# With a second opinion. Lab note: 0.6 and 0.85 are right as often, of 11 and 25 % of the photos.
SUREST_OF_BOTH = (0.5, 0.6, 0.7)
MOST_PASSES = 0.4  # second passes per photo: more would cost more time than they gain
NEVER = SecondPass(MARGIN, 1.0, 0.0, WEIGHT, 1.0)


def mix_passes(
    passing: SecondPass, before: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As `SecondPass.combine`, of log-probabilities (n, classes) of both
    passes: these, and which photos have a second pass.
    """
    twice = before.max(-1) <= np.log(max(passing.surest, LEAST))
    first, second = np.maximum(before, np.log(LEAST)), np.maximum(after, np.log(LEAST))
    mean = (1 - passing.weight) * first + passing.weight * second
    both = np.log(softmax(passing.sharpness * mean))
    return np.where(twice[:, np.newaxis], both, before), twice


def choose(
    before: np.ndarray,
    after: np.ndarray,
    breeds: np.ndarray,
    whole: np.ndarray,
    weights: np.ndarray,
    surest_tried: Sequence[float] = SUREST,
) -> SecondPass:
    """The parameters with the highest top-1 and, among those, the fewest second
    passes.

    `before` (n, classes): log-probabilities of the first pass for photos of
    `breeds` int (n,); `after`: of the second pass with MARGIN. Whole pictures,
    where `whole` bool (n,) is true, and crops count alike, however many there
    are of each, and photos of either kind by their `weights` (n,); at most
    MOST_PASSES of the photos get a second pass, and none where that gains
    nothing.
    """
    tried = [(mean_top1(before, breeds, whole, weights), 0.0, NEVER)]
    for surest in surest_tried:
        passing = SecondPass(MARGIN, 1.0, surest, WEIGHT, 1.0)
        both, twice = mix_passes(passing, before, after)
        if twice.mean() <= MOST_PASSES:
            tried.append((mean_top1(both, breeds, whole, weights), -twice.mean(), passing))
    best = max(tried, key=lambda each: each[:2])[2]
    if best.surest == 0:
        return best
    both, twice = mix_passes(best, before, after)
    # No lapse rate of its own: both passes have it already.
    fitted = fit_calibration(both[twice], breeds[twice], largest_lapse=0.0, weights=weights[twice])
    return replace(best, sharpness=round(1 / fitted.temperature, 4))


def mean_top1(
    logarithms: np.ndarray, breeds: np.ndarray, whole: np.ndarray, weights: np.ndarray
) -> float:
    """The mean of the top-1 of whole pictures and of crops, to four digits."""
    right = logarithms.argmax(-1) == breeds
    shares = []
    for kind in np.unique(whole):
        shares.append(np.average(right[whole == kind], weights=weights[whole == kind]))
    return round(float(np.mean(shares)), 4)
