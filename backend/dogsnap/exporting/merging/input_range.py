"""Finds which numbers stand for black and white in a network's input: as
stated, as its first layers show, or 0 and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.exporting import layers
from dogsnap.exporting.freezing import FrozenGraph, Node, inputs_of
from dogsnap.exporting.merging.options import PREPROCESSING, MergeError, Options

# Operations that give a picture in the numbers of the one they take: Keras'
# augmentation and resizing, and changed channels.
SAME_NUMBERS = {
    "Cast", "ConcatV2", "EnsureShape", "ExpandDims", "Identity", "ImageProjectiveTransformV3",
    "MirrorPad", "Pack", "Pad", "PadV2", "Reshape", "ResizeArea", "ResizeBicubic", "ResizeBilinear",
    "ResizeNearestNeighbor", "ReverseV2", "ScaleAndTranslate", "SelectV2", "Squeeze",
    "StopGradient", "StridedSlice", "Transpose",
}  # fmt: skip
# With a constant beside the picture these rescale it.
RESCALING = {"Add", "AddV2", "BiasAdd", "Div", "Mul", "RealDiv", "Sub"}
# A network that multiplies its input by less makes numbers of ordinary size of 0 to
# 255, by more of 0 to 1: this lies between 2 / 1 and 2 / 255, on a logarithmic scale.
LEAST_OF_SMALL = 2 / 255**0.5
TOLERANCE = 1e-3
NO_RESCALING = (1.0, 0.0)
OTHERWISE = "--input-range LOW HIGH says otherwise"


@dataclass(frozen=True)
class Scale:
    """What makes of an image in [0, 1] what the network takes: see
    layers.ImageInput. `reason`: who says so.
    """

    mean: Sequence[float]
    deviation: Sequence[float]
    reason: str


def stated_scale(options: Options, description: Mapping[str, Any]) -> Scale | None:
    """The scale that the options or the source's description state, if any.

    Raises MergeError for what contradicts itself.
    """
    by_mean = tuple(options.mean) != (0.0,) or tuple(options.deviation) != (1.0,)
    if options.preprocessing:
        if by_mean or options.input_range or options.channels:
            raise MergeError(
                f"--preprocessing {options.preprocessing} states channels, range, mean "
                "and deviation; give it without "
                "--channels, --input-range, --mean and --deviation"
            )
        _, ends, mean, deviation = PREPROCESSING[options.preprocessing]
        return _scale_to("--preprocessing", ends, "", mean, deviation)
    if by_mean or options.input_range:
        ends = options.input_range or (0.0, 1.0)
        return _scale_to("--input-range", ends, "", options.mean, options.deviation)
    if "input_range" in description:
        return _scale_to("input_range", description["input_range"], ", as the source says")
    return None


def shown_scale(graph: FrozenGraph, alias: str) -> Scale:
    """The scale that the network's first layers fit, such as Keras' Rescaling
    and Normalization; without these 0 to 1.
    """
    factor, offset = find_rescaling(graph, alias)
    if (factor, offset) == NO_RESCALING:
        return Scale((0.0,), (1.0,), f"; {OTHERWISE}")
    low, high = fitting_range(factor, offset)
    layers = f"its first layers multiply them by {factor:.4g} and add {offset:.4g}"
    return _scale_to("input_range", (low, high), f", since {layers}; {OTHERWISE}")


def fitting_range(factor: float, offset: float) -> tuple[float, float]:
    """The range of pictures that a network expects which first computes
    `factor` * picture + `offset`.

    Rescaling(1 / 127.5, -1) expects 0 to 255, Rescaling(2, -1) 0 to 1, and
    Rescaling(0.5, 0.5) -1 to 1: what becomes 0, the mean or an end of the
    range, lies in it.
    """
    if factor == 0:
        return 0.0, 1.0
    zero = -offset / factor
    if abs(factor) < LEAST_OF_SMALL or zero > 1 + TOLERANCE:
        return 0.0, 255.0
    return (-1.0, 1.0) if zero < -TOLERANCE else (0.0, 1.0)


def find_rescaling(graph: FrozenGraph, alias: str) -> tuple[float, float]:
    """Factor and offset, means of the channels, by which the first layers
    behind an input rescale it; 1 and 0 without any.
    """
    constants: dict[str, Node] = {}
    consumers: dict[str, list[Node]] = {}
    for node in graph.graph_def.node:
        if node.op == "Const":
            constants[node.name] = node
        for name in inputs_of(node):
            consumers.setdefault(name, []).append(node)
    begin = graph.inputs[alias].split(":")[0]
    scales = {begin: NO_RESCALING}
    waiting = [begin]
    last = NO_RESCALING
    while waiting:
        name = waiting.pop(0)
        for node in consumers.get(name, ()):
            scale = _scale_behind(node, name, scales[name], constants)
            if scale is None or node.name in scales:
                continue
            scales[node.name] = scale
            waiting.append(node.name)
            if node.op in RESCALING:
                last = scale
    return last


def _scale_behind(
    node: Node, picture: str, scale: tuple[float, float], constants: Mapping[str, Node]
) -> tuple[float, float] | None:
    """The rescaling of the input that leaves a node which takes `picture`; None
    where no rescaled picture does.
    """
    if node.op in SAME_NUMBERS:
        return scale
    inputs = inputs_of(node)
    beside = [constants[name] for name in inputs if name in constants]
    if node.op not in RESCALING or not beside:
        return None
    value = float(tf.make_ndarray(beside[0].attr["value"].tensor).astype(np.float64).mean())
    factor, offset = scale
    if node.op in ("Mul", "Div", "RealDiv"):
        if node.op != "Mul":
            if inputs[0] != picture or not value:
                return None
            value = 1 / value
        return factor * value, offset * value
    if node.op != "Sub":
        return factor, offset + value
    return (factor, offset - value) if inputs[0] == picture else (-factor, value - offset)


def _scale_to(
    name: str,
    stated: Sequence[float],
    reason: str,
    mean: Sequence[float] = (0.0,),
    deviation: Sequence[float] = (1.0,),
) -> Scale:
    """From [0, 1] to `stated`; `mean` and `deviation` are counted in its numbers."""
    low, high = checked_range(name, stated)
    means = [(number - low) / (high - low) for number in mean]
    deviations = [number / (high - low) for number in deviation]
    return Scale(tuple(means), tuple(deviations), reason)


def checked_range(name: str, stated: Sequence[float]) -> tuple[float, float]:
    low, high = stated
    if low == high:
        raise MergeError(
            f"{name} is {low:g} {high:g}; expected two different numbers: for black and for white"
        )
    return float(low), float(high)


def range_text(wanted: layers.ImageInput, reason: str) -> str:
    """The numbers that black and white become, of the first channel if they
    differ, and who says so.
    """
    if wanted.dtype.is_integer:
        return "images go in as whole numbers from 0 (black) to 255 (white), as their type says"
    ends = []
    for end in (0.0, 1.0):
        ends.append(layers.normalise(tf.fill((1, 1, 1, 3), end), wanted).numpy().flat[0])
    return f"images go in as numbers from {ends[0]:g} (black) to {ends[1]:g} (white){reason}"
