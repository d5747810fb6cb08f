"""What turns logits into calibrated probabilities: a temperature, and a prior."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis, float64, (n, classes)."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


@dataclass(frozen=True)
class Calibration:
    """What turns breed logits into probabilities: the softmax of logits / temperature + log_prior.

    `log_prior` float32 (classes,): how common each breed is where the answers are asked for, see `popularity`.
    """

    temperature: float
    log_prior: np.ndarray | float = 0.0

    @classmethod
    def of(cls, stated: Mapping, classes: int) -> "Calibration":
        """From scores.json; where that says nothing, all breeds are equally common."""
        return cls(stated["temperature"], np.array(stated.get("log_prior", np.zeros(classes)), np.float32))

    def scaled(self, logits):
        """Logits (n, classes) as the softmax takes them; arrays or tensors."""
        return logits / self.temperature + self.log_prior

    def logarithms(self, logits: np.ndarray) -> np.ndarray:
        """Log-probabilities (n, classes)."""
        return np.log(softmax(self.scaled(logits)))


def fit_temperature(logits: np.ndarray, breeds: np.ndarray, log_prior: np.ndarray | float = 0.0) -> float:
    """The temperature at which the mean probability of the top breeds is the share that is right: 0.2 to 5, in steps of 1 %.

    Both are of the answers with `log_prior`, see `Calibration`. Lab note: fitted on half of 1,200 validation photos, it leaves
    the others a calibration error of 3.4 %, the temperature with the smallest negative log likelihood (Guo et al., 2017) 3.7 %
    (means of 30 splits): with partly wrong labels the likelihood leads to overconfidence.
    """
    candidates = np.exp(np.linspace(np.log(0.2), np.log(5.0), 323))

    def gap(temperature: float) -> float:
        probabilities = softmax(Calibration(temperature, log_prior).scaled(logits))
        return abs(probabilities.max(-1).mean() - (probabilities.argmax(-1) == breeds).mean())

    return float(min(candidates, key=gap))
