"""A second, small network beside the first: its opinion of the breed is added
to the logits, and its opinion of whether there is a dog to what tells that. On
its maps a head tells which way is up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from dogsnap.networks.dog_score import DogHead
from dogsnap.networks.efficientnet_lite import efficientnet_lite0
from dogsnap.networks.halves import read_halves
from dogsnap.networks.orientation import with_orientation
from dogsnap.serving.photos.photo import ORIENTATION

WEIGHTS = "second_opinion.float16.weights.h5"  # beside the first network's own
FIELD = "second_opinion"  # of a version's description
OPINION = "opinion"  # of a taught breed: its row of the small network
NETWORKS = {"efficientnet_lite0": efficientnet_lite0}
FEATURES = "features"


def with_features(model: keras.Model) -> keras.Model:
    """A classifier that gives its features, too, as `SecondOpinion.add_to` takes it."""
    features = model.get_layer(FEATURES).output
    return keras.Model(model.input, model.output | {FEATURES: features}, name=model.name)


@dataclass(frozen=True)
class SecondOpinion:
    """A network of `efficientnet_lite` and how much it counts.

    `classes`: which of its classes the breeds are, in their order; `dogs`:
    further classes of it that are dogs. `weight`: of its log-probabilities in
    the logits of the breeds. `sha256`: of the network's file. `orientation`: the
    head of that name (see `networks.orientation`), or None.
    """

    network: keras.Model
    classes: Sequence[int]
    dogs: Sequence[int]
    weight: float
    sha256: str = ""
    orientation: keras.Model | None = None

    @classmethod
    def of(
        cls, network: keras.Model, stated: Mapping[str, Any], orientation: keras.Model | None
    ) -> "SecondOpinion":
        """As the description beside the WEIGHTS has it."""
        digest = stated["network"]["sha256"]
        weight = stated["weight"]
        return cls(network, stated["classes"], stated["dogs"], weight, digest, orientation)

    def add_to(
        self, model: keras.Model, head: DogHead, taught: Sequence[Mapping[str, Any]] = ()
    ) -> keras.Model:
        """A classifier `with_features` of the breeds, and of `taught` ones
        behind them -> one whose outputs "breeds" and "dog" are those of both
        networks, without its features, and with ORIENTATION if there is that head.

        `head`: tells dogs by the classifier's features and, behind them, the
        odds of `look`; with its own largest logit, as `DogHead` does.
        """
        told = self.look(model.input)
        kernel, bias = self.breed_weights(taught)
        scores = keras.layers.Dense(len(bias), name="opinion", dtype="float32")
        logits = scores(told["features"])
        scores.set_weights([kernel, bias])
        opinion = self.opinion_of(logits, taught)
        outputs = dict(model.output)
        alone = outputs["breeds"]
        joined = ops.concatenate([outputs.pop(FEATURES), told["odds"]], axis=-1)
        own = keras.layers.Dense(1, name="dog_of_both", dtype="float32")
        dog = own(joined) + ops.max(alone, axis=-1, keepdims=True)
        own.set_weights([head.weights[:, np.newaxis], np.array([head.bias])])
        outputs |= {"breeds": alone + self.weight * opinion, "dog": dog}
        if self.orientation:
            outputs[ORIENTATION] = told[ORIENTATION]
        return keras.Model(model.input, outputs, name=model.name)

    def look(self, image: keras.KerasTensor) -> dict[str, keras.KerasTensor]:
        """Images (n, h, w, 3) in [0, 1] -> {"features": (n, 1280), "odds": (n,
        1)}, the logarithm of the odds that one of the network's dogs is right,
        and ORIENTATION (n, 4) if there is that head.
        """
        network = self.network
        if self.orientation:
            network = with_orientation(network, self.orientation)
        told = network(ops.image.resize(image, network.input_shape[1:3]))
        return {**told, "odds": self._dog_odds(told["logits"])}

    def breed_weights(self, taught: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
        """Kernel float32 (1280, k) and bias (k,) of the breeds that the network
        knows: its own, and the `taught` ones with a row.
        """
        kernel, bias = self.network.get_layer("logits").get_weights()
        columns = [kernel[:, self.classes]]
        offsets = [bias[self.classes]]
        for breed in taught:
            if row := breed.get(OPINION):
                columns.append(read_halves(row["weights"])[:, np.newaxis])
                offsets.append(np.array([row["bias"]], np.float32))
        return np.concatenate(columns, axis=1), np.concatenate(offsets)

    def opinion_of(
        self, logits: keras.KerasTensor, taught: Sequence[Mapping[str, Any]]
    ) -> keras.KerasTensor:
        """Logits (n, k) of `breed_weights` -> log-probabilities (n, classes),
        which of a breed without a row are those of chance.
        """
        known = ops.log_softmax(logits)
        count = len(self.classes) + len(taught)
        row = len(self.classes)
        columns = [known[:, :row]]
        for breed in taught:
            if breed.get(OPINION):
                columns.append(known[:, row : row + 1])
                row += 1
            else:
                columns.append(ops.full_like(known[:, :1], -math.log(count)))
        return ops.concatenate(columns, axis=1)

    def _dog_odds(self, logits: keras.KerasTensor) -> keras.KerasTensor:
        dogs = [*self.classes, *self.dogs]
        others = np.setdiff1d(np.arange(logits.shape[-1]), dogs).tolist()
        of_dogs = ops.logsumexp(ops.take(logits, dogs, axis=-1), axis=-1, keepdims=True)
        return of_dogs - ops.logsumexp(ops.take(logits, others, axis=-1), axis=-1, keepdims=True)
