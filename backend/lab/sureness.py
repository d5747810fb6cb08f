"""Fits how sure a breed is, on photos of breeds that the network knows and of
some that it does not.
"""

import numpy as np
from dogsnap.networks.looks import Sureness

# How much all photos of unknown breeds count beside those of known ones. Lab note: with
# more, fewer unknown dogs are named, and fewer known ones are right among those that
# are.
UNKNOWN_PART = 0.2
PENALTY = 1e-3  # of the squared change from what leaves the probabilities as they are
STEPS, ENOUGH = 50, 1e-6  # of Newton's method, and the change of a number that ends it


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
    found = _fit_logistic(
        np.concatenate([inputs, strange]),
        np.append(target, np.zeros(len(strange))),
        np.append(shares, part),
        np.array([1.0, 0.0, 0.0]),
    )
    found = np.maximum(found, [0.1, 0.0, -np.inf])  # never against what it says
    score = np.column_stack([inputs @ found, np.ones(len(inputs))])
    factor, offset = _fit_logistic(score, target, shares, np.array([1.0, 0.0]))
    odds, look, constant = (max(factor, 0.1) * found / spread).tolist()
    return Sureness(round(odds, 4), float(f"{look:.4g}"), round(constant + float(offset), 4))


def _fit_logistic(
    inputs: np.ndarray, target: np.ndarray, weights: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """The coefficients (k,) of a logistic regression, with a penalty on how far
    they are from `start`.
    """

    def loss(found: np.ndarray) -> float:
        logits = inputs @ found
        losses = np.logaddexp(0, logits) - target * logits
        return float(weights @ losses + PENALTY / 2 * ((found - start) ** 2).sum())

    found = start
    for _ in range(STEPS):
        told = 1 / (1 + np.exp(-np.clip(inputs @ found, -30, 30)))
        slope = (weights * (told - target)) @ inputs + PENALTY * (found - start)
        curvature = (inputs * (weights * told * (1 - told))[:, np.newaxis]).T @ inputs
        step = np.linalg.solve(curvature + PENALTY * np.eye(len(found)), slope)
        while loss(found - step) > loss(found) and np.abs(step).max() > ENOUGH:
            step = step / 2
        found = found - step
        if np.abs(step).max() <= ENOUGH:
            break
    return found


def inputs_of(probabilities: np.ndarray, looks: np.ndarray) -> np.ndarray:
    """What `Sureness` weighs of probabilities and looks (n, classes): odds,
    look and 1, float64 (n, 3).
    """
    *_, odds, look = Sureness(1.0, 0.0, 0.0).inputs(probabilities, looks.astype(np.float64))
    return np.column_stack([odds, look, np.ones(len(looks))])
