"""Fits what tells whether a photo shows a dog at all, on the features that the
passes of the network give.
"""

import numpy as np
from dogsnap.networks.dog_score import DogHead

from lab.logistic import fit_logistic

# of the squared weights of features with a spread of 1; ten times as much is as good
PENALTY = 1e-3
ENOUGH = 1e-2  # change of a weight


def fit(
    dogs: np.ndarray,
    dogs_largest: np.ndarray,
    others: np.ndarray,
    others_largest: np.ndarray,
    penalty_of_each: float = PENALTY,
) -> DogHead:
    """A head by features of photos with a dog (n, f) and without (m, f), and
    the largest logits of a breed (n,) and (m,).

    Both count alike, however many there are of each.
    """
    features = np.concatenate([dogs, others]).astype(np.float32)
    offsets = np.concatenate([dogs_largest, others_largest]).astype(np.float32)
    counts = [len(dogs), len(others)]
    target = np.repeat(np.array([1, 0], np.float32), counts)
    shares = np.repeat((0.5 / np.array(counts)).astype(np.float32), counts)
    spread = features.std(0) + 1e-3
    inputs = np.column_stack([features / spread, np.ones(len(features), np.float32)])
    penalty = np.append(np.full_like(spread, penalty_of_each), np.float32(1e-9))
    start = np.zeros_like(penalty)
    found = fit_logistic(inputs, target, shares, start, penalty, ENOUGH, offsets)
    weights = (found[:-1] / spread).astype(np.float16).astype(np.float32)
    return DogHead(weights, round(float(found[-1]), 4))


def probabilities(head: DogHead, features: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """That photos show a dog, (n,), by features (n, f) and the largest logits of
    a breed (n,).
    """
    logits = features @ head.weights + head.bias + largest
    return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))
