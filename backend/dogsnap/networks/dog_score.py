"""What tells whether a photo shows a dog at all: a logistic regression on the
features of the network.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import keras
import numpy as np


@dataclass(frozen=True)
class DogHead:
    """Weights float32 (f,) and a bias: with the largest logit of a breed, which
    is evidence of a dog, they give the logit.
    """

    weights: np.ndarray
    bias: float

    @classmethod
    def of(cls, stated: Mapping) -> "DogHead":
        """As `to_json` gives it."""
        weights = np.frombuffer(base64.b64decode(stated["weights"]), np.float16)
        return cls(weights.astype(np.float32), stated["bias"])

    @classmethod
    def in_network(cls, model: keras.Model) -> "DogHead":
        """The one that a classifier has."""
        weights, bias = model.get_layer("dog").get_weights()
        return cls(weights[:, 0], float(bias[0]))

    def put_into(self, model: keras.Model) -> None:
        """Have a classifier tell dogs by this one."""
        weights = self.weights[:, np.newaxis], np.array([self.bias])
        model.get_layer("dog").set_weights(list(weights))

    def to_json(self) -> dict:
        """Weights as base64 of float16."""
        halves = self.weights.astype(np.float16)
        return {"weights": base64.b64encode(halves.tobytes()).decode(), "bias": self.bias}

    def probabilities(self, features: np.ndarray, largest: np.ndarray) -> np.ndarray:
        """That photos show a dog, (n,), by features (n, f) and the largest
        logits of a breed (n,).
        """
        logits = features @ self.weights + self.bias + largest
        return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))
