"""A network of the same shape as the real one, small enough to train within seconds: backbone, features, breeds, dog."""

import dataclasses
from typing import Any

import keras
from dogsnap.networks.architectures import AttentionPooling, StoredStatistics, box_head, heads
from dogsnap.networks.dogs_head import MIDDLE
from lab.recipes import RECIPES, Recipe


def tiny_recipe(size: tuple[int, int] = (16, 16), **changes: Any) -> Recipe:
    """The recipe of the real network for the architecture "tiny"."""
    real = dataclasses.replace(
        RECIPES["inception_v3"], architecture="tiny", batch=8, soup=(), validation_per_breed=4
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
