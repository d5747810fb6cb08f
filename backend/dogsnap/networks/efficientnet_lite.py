"""EfficientNet-Lite0 as a Keras model: the small network whose opinion version 3
adds to that of Inception v3.
"""

from collections.abc import Iterator
from typing import NamedTuple

import keras

SIDE = 224  # of the picture that it sees, in pixels
# of pixels in 0 to 255, as it was trained
MEAN = 127.0
SCALE = 128.0
STEM = 32
FEATURES = 1280


class Stage(NamedTuple):
    """`blocks` alike, of which the first has `stride`: `expansion` of the
    channels, a depthwise convolution of `kernel` pixels, then `channels`.
    """

    blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


# Tan and Le, 2019, table 1; the Lite variant (Liu, 2020) has no squeeze and excitation, ReLU6 in
# place of swish, and stem and head as they are for every size.
STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


def efficientnet_lite0(classes: int, side: int = SIDE) -> keras.Model:
    """EfficientNet-Lite0 whose batch normalization is folded into its
    convolutions.

    Input: `image` float32 (n, side, side, 3) in [0, 1]. Output float32:
    "features" (n, 1280), "logits" (n, classes).
    """
    image = keras.Input((side, side, 3), name="image")
    x = keras.layers.Rescaling(255 / SCALE, offset=-MEAN / SCALE, name="scaled")(image)
    x = _convolution(x, STEM, 3, 2, name="stem")
    for name, block in blocks():
        x = _inverted_residual(x, name, block)
    x = _convolution(x, FEATURES, 1, 1, name="top")
    features = keras.layers.GlobalAveragePooling2D(name="features", dtype="float32")(x)
    logits = keras.layers.Dense(classes, name="logits", dtype="float32")(features)
    return keras.Model(image, {"features": features, "logits": logits}, name="efficientnet_lite0")


def blocks() -> Iterator[tuple[str, Stage]]:
    """All of its blocks in their order: what the names of their layers begin
    with, and what they are like.
    """
    for number, stage in enumerate(STAGES, 1):
        for place in range(stage.blocks):
            alike = stage if place == 0 else stage._replace(stride=1)
            yield f"stage{number}_block{place + 1}", alike


def _inverted_residual(x: keras.KerasTensor, name: str, block: Stage) -> keras.KerasTensor:
    """Sandler et al., 2018."""
    before = x
    if block.expansion > 1:
        x = _convolution(x, block.expansion * x.shape[-1], 1, 1, name=f"{name}_expand")
    x = keras.layers.DepthwiseConv2D(
        block.kernel, block.stride, padding="same", activation="relu6", name=f"{name}_depthwise"
    )(x)
    x = keras.layers.Conv2D(block.channels, 1, name=f"{name}_project")(x)
    if block.stride > 1 or before.shape[-1] != block.channels:
        return x
    return keras.layers.Add(name=f"{name}_sum")([before, x])


def _convolution(
    x: keras.KerasTensor, channels: int, kernel: int, stride: int, name: str
) -> keras.KerasTensor:
    return keras.layers.Conv2D(
        channels, kernel, stride, padding="same", activation="relu6", name=name
    )(x)
