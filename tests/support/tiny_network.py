"""A network of the same shape as the real one, small enough to train within seconds: backbone, features, breeds, dog."""

import dataclasses
from pathlib import Path
from typing import Any

import keras
from dogsnap.exporting import SECOND_OPINION
from dogsnap.files import write_json
from dogsnap.networks import second_opinion
from dogsnap.networks.architectures import (
    AttentionPooling,
    StoredStatistics,
    box_head,
    heads,
    save_stored_weights,
)
from dogsnap.networks.dogs_head import MIDDLE
from dogsnap.serving.versions import checksums
from lab.recipes import INCEPTION_V3, Recipe


def tiny_recipe(size: tuple[int, int] = (16, 16), **changes: Any) -> Recipe:
    """The recipe of the real network for the architecture "tiny"."""
    real = dataclasses.replace(
        INCEPTION_V3, architecture="tiny", batch=8, soup=(("all", 1.0),), validation_per_breed=4
    )
    return dataclasses.replace(real, size=size, **changes)


def tiny(classes: int, size: tuple[int, int] = (16, 16), dropout: float = 0.0) -> keras.Model:
    """The interface of `architectures.inception_v3`, with two convolutions behind it and 16 features."""
    image, maps = _backbone(size)
    features = keras.layers.GlobalAveragePooling2D(name="features", dtype="float32")(maps)
    return keras.Model(image, heads(features, classes, dropout), name="tiny")


def tiny_with_box(
    classes: int, size: tuple[int, int] = (32, 32), dropout: float = 0.0
) -> keras.Model:
    """The same with a box from maps of a quarter of the sides, as the real network has one."""
    image, maps = _backbone(size)
    features = AttentionPooling(name="features", dtype="float32")(maps)
    rows, columns = (
        tuple((place + 0.5) / (side // 4) for place in range(side // 4)) for side in size
    )
    return keras.Model(
        image,
        heads(features, classes, dropout) | box_head(maps, (rows, columns)),
        name="tiny_with_box",
    )


def _backbone(size: tuple[int, int]) -> tuple[Any, Any]:
    """The input, and the maps of a quarter of its sides."""
    image = keras.Input((*size, 3), name="image")
    scaled = keras.layers.Rescaling(2.0, offset=-1.0)(image)
    layers = [keras.Input((*size, 3))]
    for filters, name in ((8, MIDDLE), (16, "last")):
        layers += [
            keras.layers.Conv2D(filters, 3, 2, "same", use_bias=False),
            keras.layers.BatchNormalization(scale=False),
            keras.layers.ReLU(name=name),
        ]
    return image, StoredStatistics(keras.Sequential(layers), name="backbone")(scaled)


BESIDE_FEATURES = 6


def beside(classes: int) -> keras.Model:
    """The interface of `efficientnet_lite0`, of smaller images, with one convolution."""
    image = keras.Input((8, 8, 3), name="image")
    maps = keras.layers.Conv2D(BESIDE_FEATURES, 3, activation="relu6", name="stem")(image)
    features = keras.layers.GlobalAveragePooling2D(name="features", dtype="float32")(maps)
    logits = keras.layers.Dense(classes, name="logits", dtype="float32")(features)
    return keras.Model(image, {"features": features, "logits": logits}, name="beside")


def store_beside(model: keras.Model, folder: Path, **stated: Any) -> dict[str, Any]:
    """Store such a network of five classes, of which three are the breeds and one is another dog, as the real one is stored;
    returns what is known of it, `stated` included.
    """
    save_stored_weights(model, folder / second_opinion.WEIGHTS)
    digest = checksums.digest(folder / second_opinion.WEIGHTS)
    network = {"architecture": "beside", "classes": 5, "sha256": digest}
    known = {"network": network, "classes": [4, 0, 2], "dogs": [1], "weight": 0.5, **stated}
    write_json(known, folder / SECOND_OPINION)
    return known
