"""What the network beside says of the breed, by the features that it gave."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class OpinionHead:
    """Its breeds, `kernel` float32 (f, k) and `bias` (k,), the first ones of
    `classes`, and how much they count.

    Breeds behind these have the log-probability of chance.
    """

    kernel: np.ndarray
    bias: np.ndarray
    classes: int
    weight: float

    def of(self, told: np.ndarray) -> np.ndarray:
        """What is added to the logits, (n, classes), by features and odds (n, f
        + 1): as `SecondOpinion.opinion_of`.
        """
        logits = told[:, :-1] @ self.kernel + self.bias
        known = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        added = np.full((len(told), self.classes), -math.log(self.classes))
        added[:, : known.shape[1]] = known
        return self.weight * added
