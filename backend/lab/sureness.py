"""Fits how sure a breed is, on photos of breeds that the network knows and of
some that it does not.
"""

import numpy as np
from dogsnap.networks.looks import Sureness

from lab.logistic import fit_logistic

# How much all photos of unknown breeds count beside those of known ones. Lab note: with
# more, fewer unknown dogs are named, and fewer known ones are right among those that
# are.
UNKNOWN_PART = 0.2
PENALTY = 1e-3  # of the squared change from what leaves the probabilities as they are
ENOUGH = 1e-6  # change of a number


def fit_sureness(
    known: tuple[np.ndarray, np.ndarray],
    right: np.ndarray,
    weights: np.ndarray,
    unknown: tuple[np.ndarray, np.ndarray],
) -> Sureness:
    """By the probabilities and looks (n, classes) of photos of known breeds,
    `right` bool (n,) where the first breed is theirs, with their `weights`
    (n,), and of photos of unknown breeds, of which every answer is wrong.

    The unknown ones decide how much a look counts. How sure an answer is then
    is fitted on the known ones alone, so that their probabilities stay
    calibrated.
    """
    inputs, strange = inputs_of(*known), inputs_of(*unknown)
    spread = np.array([1.0, max(inputs[:, 1].std(), 1e-9), 1.0])
    inputs, strange = inputs / spread, strange / spread
    shares = weights / weights.sum()
    part = np.full(len(strange), UNKNOWN_PART / len(strange))
    target = right.astype(float)
    found = fit_logistic(
        np.concatenate([inputs, strange]),
        np.append(target, np.zeros(len(strange))),
        np.append(shares, part),
        np.array([1.0, 0.0, 0.0]),
        np.full(3, PENALTY),
        ENOUGH,
    )
    found = np.maximum(found, [0.1, 0.0, -np.inf])  # never against what it says
    score = np.column_stack([inputs @ found, np.ones(len(inputs))])
    factor, offset = fit_logistic(
        score, target, shares, np.array([1.0, 0.0]), np.full(2, PENALTY), ENOUGH
    )
    odds, look, constant = (max(factor, 0.1) * found / spread).tolist()
    return Sureness(round(odds, 4), float(f"{look:.4g}"), round(constant + float(offset), 4))


def inputs_of(probabilities: np.ndarray, looks: np.ndarray) -> np.ndarray:
    """What `Sureness` weighs of probabilities and looks (n, classes): odds,
    look and 1, float64 (n, 3).
    """
    *_, odds, look = Sureness(1.0, 0.0, 0.0).inputs(probabilities, looks.astype(np.float64))
    return np.column_stack([odds, look, np.ones(len(looks))])
