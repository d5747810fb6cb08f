"""Converts a float32 network to int8, with value ranges that were measured on
photos.

The usual tool, NNCF, also rounds the pooled features and the logits to 8 bits,
and cuts the dog head's negative logits off at 0: that, not the convolutions,
costs accuracy and saves no time (backend/lab/notes.md). So values behind the last one
stay float32, and are multiplied by float32 weights, but for LARGE dense layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dogsnap import processor
from dogsnap.serving.versions.openvino_runtime import IncompatibleNetwork, import_openvino

RANGES = "int8_ranges.json"
LEVELS = 256  # of an activation: uint8
# They give values of their inputs, so that these are quantised instead.
PASSING = ("Concat", "MaxPool")
DEPTHWISE = "GroupConvolution"
CONVOLUTIONS = ("Convolution", DEPTHWISE)
RECTIFIERS = ("Relu", "Clamp")  # Clamp: ReLU6
POOLING = ("ReduceMean", "ReduceMax")  # of whole maps
# Weights from which on a dense layer has them in int8, too: ImageNet's 1,000 classes of
# the second network, 5 MB of float32 in each compiled copy. Those that name 129 breeds
# have 264,000.
LARGE = 1_000_000
DENSE_LEVELS = 127  # of either sign: nothing of them is added up in 16 bits


@dataclass(frozen=True)
class Ranges:
    """Smallest and largest value at the input of each convolution, in the order
    in which the network runs them.

    `kernels`: shapes (out, in, height, width), of depthwise ones (channels, 1,
    1, height, width), by which a network is recognised. `images`: how many the ranges were found on. `weights`: the
    SHA-256 of the stored weights of the network that they were found for; "" if
    that is not known. `made_by`: the command that found them, and its version.
    `pooled`: of which convolutions, see `chosen_convolutions`.
    """

    kernels: Sequence[Sequence[int]]
    inputs: Sequence[Sequence[float]]
    images: int
    weights: str = ""
    made_by: str = "dogsnap quantize"
    pooled: bool = False


def write_quantised(network: Path, ranges: Ranges, target: Path) -> None:
    """Write the float32 network in the file `network` again in int8, with weights
    of as many bits as this processor multiplies. Raises IncompatibleNetwork if
    the ranges are not of this network.
    """
    openvino = import_openvino()
    model = openvino.Core().read_model(network)
    quantise_in_place(model, ranges, processor.int8_weight_bits())
    openvino.save_model(model, target, compress_to_fp16=False)


def quantise_in_place(model: Any, ranges: Ranges, weight_bits: int) -> Any:
    """Change an OpenVINO model in place: its convolutions multiply int8 weights
    and uint8 activations, its LARGE dense layers int8 weights and float32
    activations; returns it.

    Weights get a scale per output channel, symmetric about 0. `weight_bits`: 8,
    or 7 for processors that add pairs of products in 16 bits (AVX2 without
    VNNI), where the sum of two products of full size does not fit. Raises
    IncompatibleNetwork if the ranges are not of this network.
    """
    convolutions = chosen_convolutions(model, ranges.pooled)
    shapes = [list(node.input_value(1).get_shape()) for node in convolutions]
    if shapes != [list(shape) for shape in ranges.kernels]:
        raise IncompatibleNetwork(
            f"the ranges are of another network: of {len(ranges.kernels)} convolutions, "
            f"this one has {len(shapes)}; "
            "leave int8_ranges out, and use `dogsnap quantize` on the merged version"
        )
    sources = {}
    for node, ends in zip(convolutions, ranges.inputs, strict=True):
        for source in sources_of(node.input_value(0)):
            sources[name_of(source)] = (source, ends)
    for source, (low, high) in sources.values():
        _quantise_activation(source, low, high)
    for node in convolutions:
        _quantise_weights(node, 2 ** (weight_bits - 1) - 1)
    for node in _large_dense_layers(model):
        _quantise_weights(node, DENSE_LEVELS, output=int(not node.get_attributes()["transpose_b"]))
    model.validate_nodes_and_infer_types()
    return model


def chosen_convolutions(model: Any, pooled: bool) -> list[Any]:
    """Those that a ReLU follows, and those behind a depthwise one, which end an
    inverted residual block; `pooled`: also those whose maps are pooled in the
    end. The others answer, like the head does, or weigh channels, of one pixel.
    """
    # names of what leads to pooling
    convolutions = []
    leading = set()
    for node in reversed(model.get_ordered_ops()):
        for follower in _consumers(node):
            kind = follower.get_type_name()
            name = follower.get_friendly_name()
            if kind in POOLING or name in leading:
                leading.add(node.get_friendly_name())
        if node.get_type_name() not in CONVOLUTIONS:
            continue
        is_inner = pooled and node.get_friendly_name() in leading and not _is_of_one_pixel(node)
        if is_inner or _is_rectified(node) or _is_projection(node):
            convolutions.append(node)
    return convolutions[::-1]


def _is_of_one_pixel(node: Any) -> bool:
    return list(node.input_value(0).get_shape())[2:] == [1, 1]


def _is_rectified(node: Any) -> bool:
    consumers = _consumers(node)
    if len(consumers) == 1 and consumers[0].get_type_name() == "Add":
        consumers = _consumers(consumers[0])
    return len(consumers) == 1 and consumers[0].get_type_name() in RECTIFIERS


def _is_projection(node: Any) -> bool:
    before = node.input_value(0).get_node()
    if before.get_type_name() not in RECTIFIERS:
        return False
    before = before.input_value(0).get_node()
    if before.get_type_name() == "Add":
        before = before.input_value(0).get_node()
    return before.get_type_name() == DEPTHWISE


def _consumers(node: Any) -> list[Any]:
    return [consumer.get_node() for consumer in node.output(0).get_target_inputs()]


def sources_of(value: Any) -> list[Any]:
    """The outputs of nodes whose values arrive at `value` as they are."""
    node = value.get_node()
    if node.get_type_name() not in PASSING:
        return [value]
    sources = []
    for index in range(node.get_input_size()):
        sources += sources_of(node.input_value(index))
    return sources


def _quantise_activation(source: Any, low: float, high: float) -> None:
    from openvino import opset13 as ops

    consumers = list(source.get_target_inputs())
    ends = [ops.constant(np.float32(end)) for end in (low, high)]
    rounded = ops.fake_quantize(source, *ends, *ends, LEVELS)
    for consumer in consumers:
        consumer.replace_source_output(rounded.output(0))


def _large_dense_layers(model: Any) -> list[Any]:
    layers = []
    for node in model.get_ordered_ops():
        if node.get_type_name() != "MatMul":
            continue
        weights = node.input_value(1).get_node()
        is_kernel = weights.get_type_name() == "Constant" and weights.data.ndim == 2
        if is_kernel and weights.data.size >= LARGE:
            layers.append(node)
    return layers


def _quantise_weights(node: Any, largest: int, output: int = 0) -> None:
    """int8 weights in [-largest, largest] and a scale per output channel
    instead of a float32 kernel, whose axis `output` these are.
    """
    from openvino import opset13 as ops

    kernel = node.input_value(1).get_node().data.astype(np.float32)
    others = tuple(axis for axis in range(kernel.ndim) if axis != output)
    maxima = np.abs(kernel).max(others, keepdims=True)
    scale = np.maximum(maxima, np.float32(1e-12)) / np.float32(largest)
    whole = np.clip(np.round(kernel / scale), -largest, largest).astype(np.int8)
    weights = ops.multiply(ops.convert(ops.constant(whole), "f32"), ops.constant(scale))
    node.input(1).replace_source_output(weights.output(0))


def name_of(source: Any) -> str:
    return source.get_node().get_friendly_name()
