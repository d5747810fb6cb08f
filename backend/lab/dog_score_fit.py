"""Fits what tells whether a photo shows a dog at all, on the features that the
passes of the network give.
"""

import numpy as np
from dogsnap.networks.dog_score import DogHead

# of the squared weights of features with a spread of 1; ten times as much is as good
PENALTY = 1e-3
STEPS, ENOUGH = 12, 1e-2  # of Newton's method, and the change of a weight that ends it
# for each of them: thousands of features by thousands of photos make a matrix too slow to build
CONJUGATE_STEPS = 40


def fit(
    dogs: np.ndarray, dogs_largest: np.ndarray, others: np.ndarray, others_largest: np.ndarray
) -> DogHead:
    """A head by features of photos with a dog (n, f) and without (m, f), and
    the largest logits of a breed (n,) and (m,).

    Both count alike, however many there are of each.
    """
    features = np.concatenate([dogs, others]).astype(np.float32)
    offsets = np.concatenate([dogs_largest, others_largest]).astype(np.float32)
    target = np.repeat(np.array([1, 0], np.float32), [len(dogs), len(others)])
    each = np.array([0.5 / len(dogs), 0.5 / len(others)], np.float32)
    shares = np.repeat(each, [len(dogs), len(others)])
    spread = features.std(0) + 1e-3
    inputs = np.column_stack([features / spread, np.ones(len(features))]).astype(np.float32)
    penalty = np.append(np.full(len(spread), PENALTY), 1e-9).astype(np.float32)
    found = np.zeros(inputs.shape[1], np.float32)
    for _ in range(STEPS):
        told = 1 / (1 + np.exp(-np.clip(inputs @ found + offsets, -30, 30)))
        slope = (shares * (told - target)) @ inputs + penalty * found
        curvature = shares * told * (1 - told)
        step = _solve(inputs, curvature, penalty, slope)
        found = found - step
        if np.abs(step).max() < ENOUGH:
            break
    weights = (found[:-1] / spread).astype(np.float16).astype(np.float32)
    return DogHead(weights, round(float(found[-1]), 4))


def probabilities(head: DogHead, features: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """That photos show a dog, (n,), by features (n, f) and the largest logits of
    a breed (n,).
    """
    logits = features @ head.weights + head.bias + largest
    return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))


def _solve(
    inputs: np.ndarray, curvature: np.ndarray, penalty: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """x (f,) with (inputs.T @ diag(curvature) @ inputs + diag(penalty)) @ x =
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
