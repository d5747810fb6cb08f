"""What tells whether a photo shows a dog at all: a logistic regression on the
features of the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from dogsnap.networks.halves import read_halves, write_halves


@dataclass(frozen=True)
class DogHead:
    """Weights float32 (f,) and a bias: with the largest logit of a breed, which
    is evidence of a dog, they give the logit.
    """

    weights: np.ndarray
    bias: float

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> "DogHead":
        """As `to_json` gives it."""
        return cls(read_halves(stated["weights"]), stated["bias"])

    def put_into(self, model: keras.Model) -> None:
        """Have a classifier tell dogs by this one."""
        weights = self.weights[:, np.newaxis], np.array([self.bias])
        model.get_layer("dog").set_weights(list(weights))

    def to_json(self) -> dict[str, Any]:
        """Weights as base64 of float16."""
        return {"weights": write_halves(self.weights), "bias": self.bias}
