"""Finds what a version's answers may claim: the thresholds of no dog, breed,
group, set and unknown.

It works on the probabilities of validation photos; what a claim is,
`serving/answers/levels.py` says.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dogsnap.serving.answers.levels import ONE_CLASS, Claim, Level, Levels
from dogsnap.training.scoring import share

CONFIDENCE = 0.95  # with which these hold over the draw of the calibration photos
# For the thresholds of breeds and groups, in the order of the tests.
CANDIDATES = np.round(np.arange(0.99, 0.5, -0.005), 3)
# Share of the photos that reach the last candidate that reach the first one that is tested.
FIRST_SHARE = 0.4
# Times as many answers as must be right without a wrong one, where the tests of any classifier
# begin: so that one that is wrong does not end them.
SOME = 4


def effective_count(weights: np.ndarray) -> float:
    """How many photos of equal weight tell as much about a mean as these (Kish, 1965)."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def bounded_threshold(
    scores: np.ndarray,
    right: np.ndarray,
    weights: np.ndarray,
    precision: float,
    estimated: float = 0.0,
    first_share: float = FIRST_SHARE,
) -> float:
    """The smallest of CANDIDATES from which on `precision` of the answers are
    right, with CONFIDENCE; 1 where none is.

    By these photos, the share `estimated` is. `scores` float (n,), `right` bool
    (n,) and `weights` float (n,) of calibration photos, exchangeable with later
    ones but for their weights, that took no part in any other choice. "Learn
    then test" (Angelopoulos et al., 2021) with fixed-sequence testing: the
    candidates are tested from the largest on by the binomial tail of the errors
    among the answers that reach them, each with all of the doubt, and the first
    that fails ends it. The first one is that which `first_share` of the photos
    reach, whether they are right or not: of fewer, a test can tell little. Lab
    note: the binary search of Geifman and El-Yaniv (2017) divides the doubt
    among its steps; on 1,200 validation pictures it finds no threshold where
    this one is sure of 75 %.
    """
    found = 1.0
    most = weights[scores >= CANDIDATES[-1]].sum()
    for candidate in CANDIDATES:
        reached = scores >= candidate
        if not reached.any() or weights[reached].sum() < first_share * most:
            continue
        wrong = float(np.average(~right[reached], weights=weights[reached]))
        count = effective_count(weights[reached])
        chance = binomial_tail(round(wrong * count), int(count), 1 - precision)
        if chance > 1 - CONFIDENCE or wrong > 1 - estimated:
            break
        found = float(candidate)
    return found


@dataclass(frozen=True)
class Found:
    """A threshold of any classifier: from it on `precision` of the answers are
    right with CONFIDENCE; None where too few photos say so.

    `photos`: how many were answered, of which the threshold leaves `named`, and
    of these `right` are right. `needed`: how many right answers without a wrong
    one it takes.
    """

    threshold: float | None
    precision: float
    photos: int
    named: int
    right: int
    needed: int

    def __str__(self) -> str:
        if self.threshold is None:
            return (
                f"no threshold: {self.photos} photos cannot say with {CONFIDENCE:.0%} confidence "
                f"from which probability on {self.precision:.1%} of the answers are right; that "
                f"takes at least {self.needed} sure and right answers"
            )
        return (
            f"threshold {self.threshold:g}: {self.named} of {self.photos} photos are named, "
            f"{self.right} of them rightly; at least {self.precision:.1%} with {CONFIDENCE:.0%} "
            "confidence"
        )


def find_threshold(probabilities: np.ndarray, classes: np.ndarray, precision: float) -> Found:
    """The least threshold of the first class's probability from which on
    `precision`, in (0, 1), of the answers are right, see `bounded_threshold`.

    `probabilities` float (n, classes) of photos that did not train, and their
    `classes` int (n,).
    """
    first = probabilities.max(-1)
    is_right = probabilities.argmax(-1) == classes
    needed = math.ceil(math.log(1 - CONFIDENCE) / math.log(precision))
    first_share = min(FIRST_SHARE, SOME * needed / max(len(first), 1))
    found = bounded_threshold(
        first, is_right, np.ones(len(first)), precision, first_share=first_share
    )
    named = first >= found
    return Found(
        found if found < 1 else None,
        precision,
        len(first),
        int(named.sum()),
        int(is_right[named].sum()),
        needed,
    )


def binomial_tail(errors: int, count: int, rate: float) -> float:
    """The probability of at most so many errors among `count` independent
    answers that are wrong at this rate, 0 < rate < 1.
    """
    logarithms = [
        math.lgamma(count + 1) - math.lgamma(each + 1) - math.lgamma(count - each + 1)
        + each * math.log(rate) + (count - each) * math.log1p(-rate)
        for each in range(errors + 1)
    ]  # fmt: skip
    return math.fsum(map(math.exp, logarithms))


def held_by(claim: Claim) -> np.ndarray:
    """The prediction set; raises ValueError for a version without a threshold for it."""
    if claim.held is None:
        raise ValueError("the version has no threshold for sets")
    return claim.held


def report(
    levels: Levels, probabilities: np.ndarray, breeds: np.ndarray, is_dog: np.ndarray
) -> dict[str, Any]:
    """How often each level is told of photos of dogs, and how often it is right
    there; ready for JSON.

    `probabilities` (n, classes), `breeds` int (n,) places in the class order;
    `is_dog` bool (n,): the version sees a dog. Right is a breed, group or set
    that holds the true breed. `coverage` and `mean_set_size` are of the sets of
    all photos with a dog.
    """
    claims = [levels.claim(row) for row in probabilities]
    told = np.where(is_dog, [claim.level for claim in claims], Level.NO_DOG)
    right = probabilities.argmax(-1) == breeds
    held = np.zeros(len(breeds), bool)
    for index, (claim, breed) in enumerate(zip(claims, breeds, strict=True)):
        held[index] = breed in held_by(claim)
        if told[index] == Level.SET:
            right[index] = held[index]
        elif told[index] == Level.GROUP and claim.group:
            right[index] = levels.ids[breed] in claim.group.members
    sure = np.isin(told, (Level.BREED, Level.GROUP))

    def shares(chosen: np.ndarray) -> dict[str, Any]:
        return {"share": share(chosen), "right": share(right[chosen])}

    scores = {}
    for level in (Level.BREED, Level.GROUP, Level.SET):
        scores[level.value] = shares(told == level)
    for level in (Level.UNSURE, Level.UNKNOWN, Level.NO_DOG):
        scores[level.value] = {"share": share(told == level)}
    sizes = [len(held_by(claim)) for claim in claims]
    return {
        **scores,
        "sure": shares(sure),
        "coverage": share(held[is_dog]),
        "mean_set_size": round(float(np.mean(sizes)), 3),
    }


def report_unknown(
    levels: Levels,
    probabilities: np.ndarray,
    true: Sequence[str],
    labels: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What is told of dogs whose breeds the version does not know; ready for
    JSON.

    `probabilities` (n, classes); `true`: the name of each dog's breed.
    `taken_for`: the sure answers, the most frequent first.
    """
    claims = [levels.claim(row) for row in probabilities]
    sure: Counter[tuple[str, str, str]] = Counter()
    for breed, claim, row in zip(true, claims, probabilities, strict=True):
        if claim.level == Level.GROUP and claim.group:
            sure[breed, claim.level.value, claim.group.name] += 1
        elif claim.level == Level.BREED:
            sure[breed, claim.level.value, labels[int(row.argmax())]["name"]] += 1
    taken_for = []
    for (breed, level, name), times in sure.most_common():
        taken_for.append({"is": breed, "level": level, "taken_for": name, "times": times})
    told = np.array([claim.level for claim in claims])
    shares = {level.value: share(told == level) for level in ONE_CLASS}
    return {"photos": len(claims), **shares, "taken_for": taken_for}
