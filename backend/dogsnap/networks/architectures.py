"""The networks as Keras models (image in, logits or image out), and reading and
writing their weights.
"""

import shutil
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf
from keras import ops

from dogsnap.files import replacing
from dogsnap.networks.box_head import CELL_NUMBERS, CellBoxes, Centres

STORED_WEIGHTS = "float16.weights.h5"
BOX_FILTERS = 128


class StoredStatistics(keras.layers.Layer):
    """Runs a network with its stored batch statistics, also while training; all
    its weights are trainable.

    Batches of dogs shift the statistics under the fitted upper layers so far
    that the loss rises from 1 to 5. Calling a network with `training=False` is
    not enough: inside a functional model Keras 3 ignores it in `fit`.
    """

    def __init__(self, network: keras.Model, **options: Any) -> None:
        super().__init__(**options)
        self.network = network

    def call(self, image: tf.Tensor) -> tf.Tensor:
        return self.network(image, training=False)


class AttentionPooling(keras.layers.Layer):
    """Maps (n, h, w, channels) -> features float32 (n, channels): their mean,
    weighted by a softmax of a linear function.

    The function is zero at the start: then it is the plain mean.
    """

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], 1), initializer="zeros", name="kernel")

    def call(self, maps: tf.Tensor) -> tf.Tensor:
        places = ops.cast(maps, "float32")
        places = ops.reshape(places, (ops.shape(maps)[0], -1, maps.shape[-1]))
        logits = ops.matmul(places, self.kernel)
        # Keras warns of a softmax over one place.
        shares = ops.exp(logits - ops.max(logits, axis=1, keepdims=True))
        shares = shares / ops.sum(shares, axis=1, keepdims=True)
        return ops.sum(shares * places, axis=1)


def inception_v3(
    classes: int, size: tuple[int, int] = (299, 299), dropout: float = 0.2
) -> keras.Model:
    """Inception v3 (Szegedy et al., 2015, as in Keras Applications) with a head
    for breeds and one for "is this a dog".

    Input: `image` float32 (n, height, width, 3) in [0, 1]. Output, float32:
    "breeds" (n, classes) and "dog" (n, 1), logits; "box" (n, 4), where the dog
    is; "cells" (n, h', w', 5), what the box is made of: see `box_head.py`.
    """
    image = keras.Input((*size, 3), name="image")
    scaled = keras.layers.Rescaling(2.0, offset=-1.0, name="to_inception_range")(image)
    network = keras.applications.InceptionV3(
        weights=None, include_top=False, input_shape=(*size, 3)
    )
    maps = StoredStatistics(network, name="backbone")(scaled)
    features = AttentionPooling(name="features", dtype="float32")(maps)
    outputs = heads(features, classes, dropout) | box_head(maps, cell_centres(size))
    return keras.Model(image, outputs, name="inception_v3")


def box_head(maps: keras.KerasTensor, centres: Centres) -> dict[str, keras.KerasTensor]:
    """Maps (n, h', w', channels) -> {"cells": (n, h', w', 5), "box": (n, 4)},
    float32; `centres`: of the cells.
    """
    x = keras.layers.Conv2D(BOX_FILTERS, 1, activation="relu", name="box_channels")(maps)
    x = keras.layers.Conv2D(
        BOX_FILTERS, 3, padding="same", activation="relu", name="box_surroundings"
    )(x)
    cells = keras.layers.Conv2D(CELL_NUMBERS, 1, name="cells", dtype="float32")(x)
    return {"cells": cells, "box": CellBoxes(centres, name="box", dtype="float32")(cells)}


def cell_centres(size: tuple[int, int]) -> Centres:
    """Where the cells of Inception v3's last maps have their centres: of rows
    and columns, fractions of the picture.
    """
    # Its strides multiply to 32 pixels; the convolutions without padding move the first
    # centre to pixel 37.
    height, width = size
    return _spread(height), _spread(width)


def _spread(side: int) -> tuple[float, ...]:
    count = (side - 43) // 32
    return tuple((37 + 32 * index) / side for index in range(count))


def heads(
    features: keras.KerasTensor, classes: int, dropout: float
) -> dict[str, keras.KerasTensor]:
    """Features (n, f) -> {"breeds": (n, classes), "dog": (n, 1)}, float32
    logits, by layers of these names.
    """
    dropped = keras.layers.Dropout(dropout, name="dropout", dtype="float32")(features)
    breeds = keras.layers.Dense(classes, name="breeds", dtype="float32")(dropped)
    own = keras.layers.Dense(1, name="dog", dtype="float32")(features)
    # A recognisable breed is evidence of a dog: the largest logit tells the known from
    # the unknown (Hendrycks et al., 2022).
    return {"breeds": breeds, "dog": own + ops.max(breeds, axis=-1, keepdims=True)}


ARCHITECTURES = {"inception_v3": inception_v3}


def feature_extractor(model: keras.Model) -> keras.Model:
    """The same network up to its pooled features: image (n, h, w, 3) in [0, 1]
    -> float32 (n, 2048). Shares the weights.
    """
    return keras.Model(model.input, model.get_layer("features").output)


def backbone_of(model: keras.Model) -> keras.Model:
    """The network between the image and the pooled features."""
    return model.get_layer("backbone").network


def load_stored_weights(model: keras.Model, path: Path) -> None:
    """Read a file of `save_stored_weights` into a float32 model.

    Raises FileNotFoundError, or ValueError when it does not fit.
    """
    if not path.is_file():
        raise FileNotFoundError(f"weights file {path} does not exist; give a .weights.h5 file")
    try:
        model.load_weights(path)
    except (ValueError, OSError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"weights file {path} does not fit the network {model.name}: {reason}"
        ) from error


def share_all_but_breeds(model: keras.Model, stored: keras.Model) -> None:
    """Give a model the weights of one of other classes, but those of the breeds' head."""
    for layer, source in zip(model.layers, stored.layers, strict=True):
        if layer.name != "breeds":
            layer.set_weights(source.get_weights())


def save_stored_weights(model: keras.Model, path: Path) -> None:
    """Write the weights in half the size; `load_stored_weights` casts back.

    Kernels and matrices become float16. Vectors (0.3 % of the size) stay
    float32: some have learned changes below its resolution. The file is
    replaced atomically.
    """
    require_space(path.parent, 7 * model.count_params())
    whole = path.with_name(f"whole.{path.name}")
    try:
        model.save_weights(whole)
        with replacing(path) as temporary:
            _write_halved(whole, temporary)
    finally:
        whole.unlink(missing_ok=True)


def _write_halved(whole: Path, half: Path) -> None:
    with h5py.File(whole) as source, h5py.File(half, "w") as target:

        def copy(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if isinstance(item, h5py.Group):
                made = target.require_group(name)
            else:
                kind = np.float16 if item.ndim > 1 else None
                made = target.create_dataset(name, data=item[()], dtype=kind)
            made.attrs.update(item.attrs)

        target.attrs.update(source.attrs)
        source.visititems(copy)


def require_space(folder: Path, size: int) -> None:
    """Raises OSError unless `size` bytes, and a megabyte for the file's own
    structure, fit on the disk below `folder`.
    """
    # Checked before HDF5 writes: its library ends the process without a message if a write fails.
    size = size + 1_000_000
    free = shutil.disk_usage(folder).free
    if free < size:
        raise OSError(
            f"not enough disk space below {folder}: {size / 1e6:.1f} MB are needed, "
            f"{free / 1e6:.1f} MB are free; "
            "free some and train again"
        )
