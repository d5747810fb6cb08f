"""Logistic regression by Newton's method."""

import numpy as np

STEPS = 50
# of conjugate gradients for each of them: thousands of features by thousands of photos make
# a matrix too slow to build
CONJUGATE_STEPS = 40


def fit_logistic(
    inputs: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    penalty: np.ndarray,
    enough: float,
    offsets: np.ndarray | float = 0.0,
) -> np.ndarray:
    """The coefficients (k,) by which `inputs` (n, k), with `offsets` (n,) added,
    tell `target` (n,), 0 or 1; each row counts by its weight in `weights` (n,).

    `penalty` (k,): of the squared changes from `start` (k,). It ends with a change
    of less than `enough`.
    """

    def loss(found: np.ndarray) -> float:
        logits = (inputs @ found + offsets).astype(np.float64)
        losses = np.logaddexp(0, logits) - target * logits
        return float(weights @ losses + penalty @ (found - start) ** 2 / 2)

    found = start
    for _ in range(STEPS):
        told = 1 / (1 + np.exp(-np.clip(inputs @ found + offsets, -30, 30)))
        slope = (weights * (told - target)) @ inputs + penalty * (found - start)
        step = _solve(inputs, weights * told * (1 - told), penalty, slope)
        while loss(found - step) > loss(found) and np.abs(step).max() > enough:
            step = step / 2
        found = found - step
        if np.abs(step).max() <= enough:
            break
    return found


def _solve(
    inputs: np.ndarray, curvature: np.ndarray, penalty: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """x (k,) with (inputs.T @ diag(curvature) @ inputs + diag(penalty)) @ x =
    `wanted`, by conjugate gradients.
    """
    found = np.zeros_like(wanted)
    rest = wanted.copy()
    way, size = rest.copy(), rest @ rest
    for _ in range(CONJUGATE_STEPS):
        bent = (curvature * (inputs @ way)) @ inputs + penalty * way
        far = size / (way @ bent)
        found, rest = found + far * way, rest - far * bent
        before, size = size, rest @ rest
        if size < 1e-10 * (wanted @ wanted):
            break
        way = rest + (size / before) * way
    return found
