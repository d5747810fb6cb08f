"""The head that finds every dog in a picture: its layers on two maps of the
network.

Each cell of the finer map gives a score and the distances from its centre to
the four sides of a dog (FCOS, Tian et al. 2019). The network stays as it is: a
head of enough layers on frozen maps does as well as one that changes them
(arXiv:2204.00484).
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from dogsnap.networks import box_head
from dogsnap.networks.architectures import backbone_of
from dogsnap.networks.box_head import Centres
from dogsnap.networks.every_dog import CELLS

# beside the network's own files
DESCRIPTION = "dogs.json"
WEIGHTS = "dogs.float16.weights.h5"

FILTERS = 64
# the layer of the network with the finer maps: two centres may lie in one cell of the last
MIDDLE = "mixed7"
OFFSET = -4.0  # of the scores before training: nearly all cells show no dog (Lin et al. 2017)


def head_for(model: keras.Model, filters: int = FILTERS) -> keras.Model:
    """A head that fits the network's maps (n, h, w, c) and (n, h', w', c').

    Raises ValueError for a network without them.

    It gives cells float32 (n, h, w, 5): the logit of a score, logarithms of
    distances. Behind the convolutions are no plain rectifiers, by which
    `exporting.quantization` tells the layers of the network that multiply in
    int8.
    """
    middle_maps, last_maps = maps_of(model).output
    middle = tuple(middle_maps.shape[1:])
    last = tuple(last_maps.shape[1:])
    fine = keras.Input(middle, name="middle")
    coarse = keras.Input(last, name="last")
    wide = keras.layers.Conv2D(filters, 1, name="dogs_last")(coarse)
    wide = keras.layers.LeakyReLU(0.1)(wide)
    wide = keras.layers.Conv2DTranspose(filters, 3, 2, name="dogs_enlarged")(wide)
    x = keras.layers.Conv2D(filters, 1, name="dogs_middle")(fine)
    x += wide[:, : middle[0], : middle[1]]
    for name in ("dogs_near", "dogs_around"):
        x = keras.layers.LeakyReLU(0.1)(x)
        x = keras.layers.Conv2D(filters, 3, padding="same", name=name)(x)
    x = keras.layers.LeakyReLU(0.1)(x)
    start = keras.initializers.Constant([OFFSET, 0.0, 0.0, 0.0, 0.0])
    cells = keras.layers.Conv2D(
        box_head.CELL_NUMBERS, 1, bias_initializer=start, name="dogs_cells", dtype="float32"
    )(x)
    return keras.Model([fine, coarse], cells, name="dogs")


def centres(shape: Sequence[int], size: tuple[int, int]) -> Centres:
    """Where the cells of maps of `shape` (h, w, ...) lie in a picture of
    `size`: about its middle, 2 ** n pixels apart.
    """
    return _spread(shape[0], size[0]), _spread(shape[1], size[1])


def _spread(count: int, side: int) -> tuple[float, ...]:
    stride = 2 ** round(math.log2(side / count))
    return tuple(0.5 + (index - (count - 1) / 2) * stride / side for index in range(count))


class DogCells(keras.layers.Layer):
    """Cells (n, h, w, 5) -> (n, h * w, 5): their scores in [0, 1], and the
    sides of their boxes times the scores.
    """

    def __init__(self, places: Centres, **options: Any) -> None:
        super().__init__(**options)
        self.places = places

    def call(self, cells: tf.Tensor) -> tf.Tensor:
        logits, found = box_head.unfold(cells, self.places)
        score = ops.sigmoid(logits)[..., None]
        # Times the score, so that what hardly shows a dog is hardly different in another precision.
        return ops.concatenate([score, score * ops.clip(found, 0.0, 1.0)], axis=-1)


def maps_of(model: keras.Model) -> keras.Model:
    """The part of a network that gives the head's maps: what goes into its
    backbone -> [middle, last].
    """
    backbone = backbone_of(model)
    return keras.Model(
        backbone.inputs, [backbone.get_layer(MIDDLE).output, backbone.outputs[0]], name="maps"
    )


def with_dogs(model: keras.Model, dogs: keras.Model) -> keras.Model:
    """The network with the output CELLS besides its own; its backbone runs
    once. Shares the weights.
    """
    backbone = model.get_layer("backbone")
    middle, last = maps_of(model)(backbone.input, training=False)
    cells = DogCells(centres(middle.shape[1:], model.input_shape[1:3]), name=CELLS)(
        dogs([middle, last])
    )
    rest = keras.Model(backbone.output, model.output)
    return keras.Model(model.input, rest(last) | {CELLS: cells}, name=model.name)


def digest_of(model: keras.Model) -> str:
    """The SHA-256 of the weights that make the maps: other classes on the same
    maps keep the head.
    """
    digest = hashlib.sha256()
    for weight in backbone_of(model).get_weights():
        digest.update(weight.tobytes())
    return digest.hexdigest()
