"""Fits what the shipped version's answers may claim: the thresholds of no dog,
breed, group, set and unknown, on the probabilities of validation photos.
"""

import math

import numpy as np
from dogsnap.serving.answers.levels import Decision, top_z_score
from dogsnap.training.thresholds import (
    CONFIDENCE,
    binomial_tail,
    bounded_threshold,
    effective_count,
)

# share of the dogs that the dog threshold must keep, in either kind of photos; asked is 0.99
KEPT_DOGS = 0.99
# share of photos without a dog that it should refuse, if KEPT_DOGS allows it; asked is 0.975
REFUSED_OTHERS = 0.985
BREED_PRECISION = 0.97  # of answers that name one breed, as estimated
SURE_BREED_PRECISION = 0.962  # the same with CONFIDENCE
GROUP_PRECISION = 0.95  # of answers that name a group, with CONFIDENCE
COVERAGE = 0.95  # share of photos whose set holds the right breed
# of known dogs, in either kind of photos, told to be of an unknown breed; asked is less than 5 %
UNKNOWN_SHARE = 0.04


def weights_of(breeds: np.ndarray, whole: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
    """How much each calibration photo counts, (n,): a breed as much as it is
    common by `log_prior` (classes,), in either kind.

    The photos of a breed share that: some breeds have ten photos, others a
    hundred.
    """
    weights = np.zeros(len(breeds))
    for kind in np.unique(whole):
        counts = np.bincount(breeds[whole == kind], minlength=len(log_prior))
        common = np.exp(log_prior) / np.maximum(counts, 1)
        weights[whole == kind] = common[breeds[whole == kind]]
    return weights


def dog_threshold(dogs: np.ndarray, whole: np.ndarray, others: np.ndarray) -> float:
    """The threshold that refuses REFUSED_OTHERS of the photos without a dog, or
    the highest that keeps KEPT_DOGS of the dogs.

    Probabilities `dogs` (n,), of whole pictures where `whole` bool (n,) is
    true, and `others` (m,); 0 without these.
    """
    if not others.size:
        return 0.0
    lowest = [np.quantile(dogs[whole == kind], 1 - KEPT_DOGS) for kind in np.unique(whole)]
    return round(float(min(*lowest, np.quantile(others, REFUSED_OTHERS))), 4)


def fit_decision(
    probabilities: np.ndarray,
    breeds: np.ndarray,
    shared: np.ndarray,
    held: np.ndarray,
    whole: np.ndarray,
    weights: np.ndarray,
    dog: float,
) -> Decision:
    """The thresholds on calibration photos: crops, and whole pictures where
    `whole` bool (n,) is true; `dog`: that of dogs.

    `probabilities` (n, classes) of photos of `breeds` int (n,), `shared` float
    (n,) and `held` bool (n,): see `groups.of_groups`; all of choices in which
    these photos took no part. `weights` (n,): see `weights_of`: crops and whole
    pictures count alike. First the threshold of breeds, then that of groups,
    among the photos that are told no breed. Both may be tested on the same
    photos: the search for the threshold of breeds goes from the surest photos
    down, and has not looked at those that it leaves to groups, but for the
    candidate that failed. Sets are those of Sadinle et al. (2019), "least
    ambiguous set-valued classifiers": every breed whose probability reaches a
    threshold, which split conformal prediction takes from the probabilities of
    the right breeds (Angelopoulos and Bates, 2023, section 1). People send
    whole pictures, so these calibrate it where there are any; on crops more
    sets hold the right breed. Lab note: adaptive sets (APS; RAPS of five
    strengths) were no smaller at the same coverage: 2.5 to 4.6 breeds (67
    without regularisation) where these have 2.4.
    """
    first, right = probabilities.max(-1), probabilities.argmax(-1) == breeds
    confident = bounded_threshold(first, right, weights, SURE_BREED_PRECISION, BREED_PRECISION)
    rest = first < confident
    group = bounded_threshold(shared[rest], held[rest], weights[rest], GROUP_PRECISION)
    scores = top_z_score(probabilities)
    unknown = []
    for kind in np.unique(whole):
        own = whole == kind
        unknown.append(weighted_quantile(scores[own], weights[own], UNKNOWN_SHARE))
    given = probabilities[np.arange(len(breeds)), breeds]
    calibrates = whole if whole.any() else ~whole
    of_sets = set_threshold(given[calibrates], weights[calibrates])
    return Decision(dog, confident, group, of_sets, round(min(unknown), 4))


def weighted_quantile(values: np.ndarray, weights: np.ndarray, rank: float) -> float:
    """The largest of `values` (n,) that no more than the share `rank` of the
    weights lies below.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) - weights[order]
    return float(values[order][np.flatnonzero(below <= rank * weights.sum())[-1]])


def set_threshold(given: np.ndarray, weights: np.ndarray) -> float:
    """The probability that the right breed reaches in COVERAGE of exchangeable
    photos, with CONFIDENCE; 0 for too few photos.

    `given` (n,): the probabilities of the right breeds, and `weights` (n,). The
    largest of these of which so few are smaller that more than 1 - COVERAGE of
    all photos would have given that few with a probability of 1 - CONFIDENCE at
    most.
    """
    count, smaller = effective_count(weights), 0
    while binomial_tail(smaller, int(count), 1 - COVERAGE) <= 1 - CONFIDENCE:
        smaller += 1
    if not smaller:
        return 0.0
    return math.floor(1e5 * weighted_quantile(given, weights, (smaller - 1) / count)) / 1e5
