"""How much a photo looks like each breed: low for a dog of a breed that the
network was never taught.

A probability compares the breeds with each other alone. What is measured here
is the logit of a linear discriminant analysis: how much more probable the
features are for photos of a breed than for photos of any dog.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from dogsnap.networks.halves import read_halves

LAYER = "looks"  # the network's output
# Is added to the variance of each feature, in units of their mean. Lab note: 1 is a
# little worse, and so is the covariance of the training photos, which the network knows
# by heart.
SHRINKAGE = 0.3
LEAST = 1e-12  # probability of a breed, so that all others always have something to share
LEAST_VARIANCE = 1e-6
ROUNDING = 1e-4


@dataclass(frozen=True)
class Looks:
    """A layer on the pooled features: `weights` float32 (f, classes) and `bias`
    float32 (classes,).
    """

    weights: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, means: np.ndarray, features: np.ndarray, classes: np.ndarray) -> "Looks":
        """By the mean features of each breed (classes, f), and `features` (n,
        f) of photos of breeds int (n,).

        These say how photos of a breed differ; the network must not have been
        trained on them.
        """
        spread = (features - means[classes]).astype(np.float64)
        covariance = spread.T @ spread / len(spread)
        added = SHRINKAGE * np.trace(covariance) / len(covariance) + LEAST_VARIANCE
        covariance[np.diag_indices_from(covariance)] += added
        centre = features.mean(axis=0)
        weights = np.linalg.solve(covariance, (means - centre).T)
        bias = -((means + centre).T * weights).sum(axis=0) / 2
        return cls(weights.astype(np.float32), bias.astype(np.float32))

    @classmethod
    def read(cls, statistics: Path, taught: Sequence[Mapping[str, Any]] = ()) -> "Looks | None":
        """By a file of class statistics, and the means of `taught` breeds; None
        where one of them has none.
        """
        if not all("mean" in breed for breed in taught):
            return None
        with np.load(statistics) as arrays:
            means = list(arrays["means"].astype(np.float32))
            features = arrays["checked"].astype(np.float32)
            classes = arrays["checked_classes"]
        for breed in taught:
            means.append(read_halves(breed["mean"]))
        return cls.of(np.stack(means), features, classes)

    def add_to(self, model: keras.Model) -> keras.Model:
        """A classifier with this layer as a further output."""
        layer = keras.layers.Dense(len(self.bias), name=LAYER, dtype="float32")
        output = layer(model.get_layer("features").output)
        layer.set_weights([self.weights, self.bias])
        return keras.Model(model.input, model.output | {LAYER: output}, name=model.name)


@dataclass(frozen=True)
class Sureness:
    """What the probability of the first breed becomes: a logit of `odds` times
    the logarithm of its odds, `look` times how much the photo looks like it,
    and `offset`. The other breeds share the rest as before.
    """

    odds: float
    look: float
    offset: float

    def inputs(self, probabilities: tf.Tensor, looks: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Of each photo the probabilities of all breeds but the first one (n,
        classes), their sum, the logarithm of the odds and the look of the
        first, (n, 1).
        """
        first = tf.argmax(probabilities, axis=1, output_type=tf.int32)[:, tf.newaxis]
        is_first = tf.equal(tf.range(tf.shape(probabilities)[1])[tf.newaxis], first)
        raised = tf.maximum(probabilities, LEAST)
        others = tf.where(is_first, tf.zeros_like(raised), raised)
        rest = tf.reduce_sum(others, axis=1, keepdims=True)
        largest = tf.reduce_max(probabilities, axis=1, keepdims=True)
        own = tf.where(is_first, looks, tf.zeros_like(looks))
        look = tf.reduce_sum(own, axis=1, keepdims=True)
        return others, rest, tf.math.log(largest / rest), look

    def probabilities(self, probabilities: tf.Tensor, looks: tf.Tensor) -> tf.Tensor:
        """Probabilities and looks (n, classes) -> probabilities (n, classes).

        The first breed stays the first one.
        """
        others, rest, odds, look = self.inputs(probabilities, looks)
        logit = self.odds * odds + self.look * look + self.offset
        second = tf.reduce_max(others, axis=1, keepdims=True)
        logit = tf.maximum(logit, tf.math.log(second / rest) + ROUNDING)
        return tf.where(others > 0, others * tf.sigmoid(-logit) / rest, tf.sigmoid(logit))
