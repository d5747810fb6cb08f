"""The head that tells which way is up in a picture, on maps of the network beside.

Where things lie in the picture tells it, so it keeps the places of the maps: a
linear layer on their means finds 70 % of what this finds 98 % of.
"""

import keras
from keras import ops

from dogsnap.serving.photos.photo import DEGREES, ORIENTATION

WEIGHTS = "orientation.float16.weights.h5"  # beside the network's own
# Layers of `efficientnet_lite` whose inputs are the maps: 14 x 14 of 112 channels, and 7 x 7 of 320.
LAYERS = ("stage6_block1_expand", "top")
FILTERS = 32
UNITS = 64


def maps_of(network: keras.Model) -> list[keras.KerasTensor]:
    """What the head sees of a network: two maps (n, h, w, c) of equal sides."""
    fine, last = (network.get_layer(name).input for name in LAYERS)
    return [keras.layers.AveragePooling2D(fine.shape[1] // last.shape[1])(fine), last]


def head_for(network: keras.Model) -> keras.Model:
    """A head that fits the network: maps (n, h, w, c) -> logits float32 (n, 4)
    of DEGREES.

    As in `dogs_head.head_for`, no plain rectifiers.
    """
    height, width = maps_of(network)[1].shape[1:3]
    channels = sum(each.shape[-1] for each in maps_of(network))
    maps = keras.Input((height, width, channels))
    x = keras.layers.Conv2D(FILTERS, 1, name="orientation_maps")(maps)
    x = keras.layers.Flatten()(keras.layers.LeakyReLU(0.1)(x))
    x = keras.layers.Dense(UNITS, name="orientation_places")(x)
    x = keras.layers.LeakyReLU(0.1)(x)
    logits = keras.layers.Dense(len(DEGREES), name="orientation_logits", dtype="float32")(x)
    return keras.Model(maps, logits, name=ORIENTATION)


def with_orientation(network: keras.Model, head: keras.Model) -> keras.Model:
    """The network with a further output ORIENTATION float32 (n, 4): how probably
    each of DEGREES sets the picture upright. Shares the weights.
    """
    joined = ops.concatenate(maps_of(network), axis=-1)
    told = ops.softmax(head(joined))
    return keras.Model(network.input, network.output | {ORIENTATION: told}, name=network.name)
