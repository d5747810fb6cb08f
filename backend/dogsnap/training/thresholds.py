"""Finds what a version's answers may claim: the thresholds of no dog, breed, group, set and unknown.

It works on the probabilities of validation photos; what a claim is, `serving/answers/levels.py` says.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from dogsnap.serving.answers.levels import Level, Levels, top_z_score
from dogsnap.training.scoring import share

KEPT_DOGS = 0.9933  # share of the dogs that the dog threshold must keep, in either kind of photos; asked is 0.99
REFUSED_OTHERS = 0.98  # share of photos without a dog that it should refuse, if KEPT_DOGS allows it; asked is 0.975
BREED_PRECISION = (
    0.9925  # of answers that are sure of the breed; more than of a group, see the lab notes
)
SURE_PRECISION = 0.97  # of all that are sure of breed or group
COVERAGE = 0.95  # share of photos whose set holds the right breed
CONFIDENCE = (
    0.95  # with which SURE_PRECISION and COVERAGE hold over the draw of the calibration photos
)
CANDIDATES = np.round(
    np.arange(0.99, 0.5, -0.005), 3
)  # for the threshold of groups, in the order of the tests
UNKNOWN_SHARE = 0.04  # of known dogs, in either kind of photos, told to be of an unknown breed; asked is less than 5 %


def dog_threshold(dogs: np.ndarray, whole: np.ndarray, others: np.ndarray) -> float:
    """The threshold that refuses REFUSED_OTHERS of the photos without a dog, or the highest that keeps KEPT_DOGS of the dogs.

    Probabilities `dogs` (n,), of whole pictures where `whole` bool (n,) is true, and `others` (m,); 0 without these.
    """
    if not others.size:
        return 0.0
    kept = min(float(np.quantile(dogs[whole == kind], 1 - KEPT_DOGS)) for kind in np.unique(whole))
    return round(min(kept, float(np.quantile(others, REFUSED_OTHERS))), 4)


def fit_decision(
    probabilities: np.ndarray,
    breeds: np.ndarray,
    shared: np.ndarray,
    held: np.ndarray,
    whole: np.ndarray,
) -> dict[str, float]:
    """The thresholds of `Levels`, on calibration photos: crops, and whole pictures where `whole` bool (n,) is true.

    `probabilities` (n, classes) of photos of `breeds` int (n,), `shared` float (n,) and `held` bool (n,): see
    `groups.of_groups`; all of choices in which these photos took no part. That SURE_PRECISION of the sure answers are right
    holds with CONFIDENCE for each of the two kinds; how often breeds that are told alone are, is an estimate.
    Sets are those of Sadinle et al. (2019), "least ambiguous set-valued classifiers": every breed whose probability reaches a
    threshold, which split conformal prediction takes from the probabilities of the right breeds (Angelopoulos and Bates, 2023,
    section 1), and which holds with CONFIDENCE, too. People send whole pictures, so these calibrate it where there are any; on
    crops more sets hold the right breed. Lab note: adaptive sets (APS; RAPS of five strengths) were no smaller at the same
    coverage: 2.5 to 4.6 breeds (67 without regularisation) where these have 2.4.
    """
    top, right = probabilities.max(-1), probabilities.argmax(-1) == breeds
    scores = top_z_score(probabilities)
    unknown = min(
        float(np.quantile(scores[whole == kind], UNKNOWN_SHARE)) for kind in np.unique(whole)
    )
    confident = math.ceil(1e4 * threshold_for(top, right, BREED_PRECISION, whole)) / 1e4
    sure = top >= confident
    # An answer that is sure of the breed is right or wrong as a breed whatever the threshold of groups.
    claimed, correct = np.where(sure, 1.0, shared), np.where(sure, right, held)
    group = bounded_threshold(claimed, correct, SURE_PRECISION, whole)
    given = probabilities[np.arange(len(breeds)), breeds]
    return {
        "confident_threshold": confident,
        "group_threshold": group,
        "set_threshold": set_threshold(given[whole] if whole.any() else given),
        "unknown_threshold": round(unknown, 4),
    }


def threshold_for(
    scores: np.ndarray, right: np.ndarray, precision: float, kinds: np.ndarray
) -> float:
    """The smallest score from which on `precision` of the answers are right, among each of the `kinds` (n,); 1 for none."""
    found = 0.0
    for kind in np.unique(kinds):
        own, correct = scores[kinds == kind], right[kinds == kind]
        order = np.argsort(-own, kind="stable")
        enough = np.flatnonzero(
            np.cumsum(correct[order]) / np.arange(1, len(order) + 1) >= precision
        )
        found = max(found, float(own[order][enough[-1]]) if enough.size else 1.0)
    return found


def bounded_threshold(
    scores: np.ndarray, right: np.ndarray, precision: float, kinds: np.ndarray
) -> float:
    """The smallest of CANDIDATES from which on `precision` of the answers to each of the `kinds` (n,) are right, with CONFIDENCE;
    1 where none is.

    `scores` float (n,) and `right` bool (n,) of calibration photos, exchangeable with later ones, that took no part in any other
    choice. "Learn then test" (Angelopoulos et al., 2021) with fixed-sequence testing: the candidates are tested from the
    largest on by the binomial tail of the errors among the answers that reach them, each with all of the doubt, and the first
    that fails ends it. Those that too few answers of a kind reach are left out: they could not pass if all were right. Lab
    note: the binary search of Geifman and El-Yaniv (2017) divides the doubt among its steps; on 1,200 validation pictures it
    finds no threshold where this one is sure of 75 %.
    """
    found = 1.0
    for candidate in CANDIDATES:
        wrong = [~right[(scores >= candidate) & (kinds == kind)] for kind in np.unique(kinds)]
        if any(binomial_tail(0, len(each), 1 - precision) > 1 - CONFIDENCE for each in wrong):
            continue
        if any(
            binomial_tail(int(each.sum()), len(each), 1 - precision) > 1 - CONFIDENCE
            for each in wrong
        ):
            break
        found = float(candidate)
    return found


def binomial_tail(errors: int, count: int, rate: float) -> float:
    """The probability of at most so many errors among `count` independent answers that are wrong at this rate, 0 < rate < 1."""
    logarithms = [
        math.lgamma(count + 1) - math.lgamma(each + 1) - math.lgamma(count - each + 1)
        + each * math.log(rate) + (count - each) * math.log1p(-rate)
        for each in range(errors + 1)
    ]  # fmt: skip
    return math.fsum(map(math.exp, logarithms))


def set_threshold(given: np.ndarray) -> float:
    """The probability that the right breed reaches in COVERAGE of exchangeable photos, with CONFIDENCE; 0 for too few photos.

    `given` (n,): the probabilities of the right breeds. The largest of these of which so few are smaller that more than
    1 - COVERAGE of all photos would have given that few with a probability of 1 - CONFIDENCE at most.
    """
    smaller = 0
    while binomial_tail(smaller, len(given), 1 - COVERAGE) <= 1 - CONFIDENCE:
        smaller += 1
    return math.floor(1e5 * np.sort(given)[smaller - 1]) / 1e5 if smaller else 0.0


def report(
    levels: Levels, probabilities: np.ndarray, breeds: np.ndarray, is_dog: np.ndarray
) -> dict:
    """How often each level is told of photos of dogs, and how often it is right there; ready for JSON.

    `probabilities` (n, classes), `breeds` int (n,) places in the class order; `is_dog` bool (n,): the version sees a dog. Right
    is a breed, group or set that holds the true breed. `coverage` and `mean_set_size` are of the sets of all photos with a dog.
    """
    claims = [levels.claim(row) for row in probabilities]
    held = np.array([breed in claim.held for claim, breed in zip(claims, breeds, strict=True)])
    grouped = [
        claim.level == Level.GROUP and levels.ids[breed] in claim.group.members
        for claim, breed in zip(claims, breeds, strict=True)
    ]
    told = np.where(is_dog, [claim.level for claim in claims], Level.NO_DOG)
    first = probabilities.argmax(-1) == breeds
    right = np.select([told == Level.SET, told == Level.GROUP], [held, grouped], first)
    sure = np.isin(told, (Level.BREED, Level.GROUP))

    def shares(chosen: np.ndarray) -> dict:
        return {"share": share(chosen), "right": share(right[chosen])}

    return {
        **{level.value: shares(told == level) for level in (Level.BREED, Level.GROUP, Level.SET)},
        **{
            level.value: {"share": share(told == level)}
            for level in (Level.UNSURE, Level.UNKNOWN, Level.NO_DOG)
        },
        "sure": shares(sure),
        "coverage": share(held[is_dog]),
        "mean_set_size": round(float(np.mean([len(claim.held) for claim in claims])), 3),
    }


def as_text(scores: Mapping) -> str:
    """The report for a reader at a terminal."""
    lines = []
    for level in (*Level, "sure"):
        right = scores[level].get("right")
        told = f"{level:12} {scores[level]['share']:7.1%} of the photos"
        lines.append(told if right is None else f"{told}, right {right:.1%}")
    sets = f"sets hold the right breed in {scores['coverage']:.1%}; mean size {scores['mean_set_size']}"
    return "\n".join([*lines, sets])


def report_unknown(
    levels: Levels, probabilities: np.ndarray, true: Sequence[str], labels: Sequence[Mapping]
) -> dict:
    """What is told of dogs whose breeds the version does not know; ready for JSON.

    `probabilities` (n, classes); `true`: the name of each dog's breed. `taken_for`: the sure answers, the most frequent first.
    """
    claims = [levels.claim(row) for row in probabilities]
    names = [labels[claim.held[0]]["name"] for claim in claims]
    sure = Counter(
        (breed, claim.level.value, claim.group.name if claim.level == Level.GROUP else name)
        for breed, claim, name in zip(true, claims, names, strict=True)
        if claim.level in (Level.BREED, Level.GROUP)
    )
    return {
        "photos": len(claims),
        **{
            level.value: share(np.array([claim.level == level for claim in claims]))
            for level in Level
        },
        "taken_for": [
            {"is": breed, "level": level, "taken_for": name, "times": times}
            for (breed, level, name), times in sure.most_common()
        ],
    }


def unknown_as_text(scores: Mapping) -> str:
    """The same for a reader at a terminal, with the ten most frequent."""
    shares = ", ".join(f"{level} {scores[level]:.1%}" for level in Level if scores[level])
    pairs = [
        f"{each['is']} for {each['taken_for']} ({each['times']})"
        for each in scores["taken_for"][:10]
    ]
    return f"told of breeds it does not know: {shares}\nsurely taken: {'; '.join(pairs) or 'none'}"
