"""Converts a float32 network to int8, with value ranges that were measured on photos.

The usual tool, NNCF, also rounds the pooled features and the logits to 8 bits, and cuts the dog head's negative logits off at 0:
that, not the convolutions, costs accuracy and saves no time (models/lab_notes.md). So all behind the last one stays float32.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backend.files import replacing
from backend.serving.versions.openvino_runtime import IncompatibleNetwork, import_openvino

RANGES = "int8_ranges.json"
LEVELS = 256  # of an activation: uint8
SAMPLES = 200  # values of each tensor and image that a range is chosen on
SHARES = np.linspace(0.15, 1.0, 50)  # of the largest value: candidates for the end of a range
PASSING = ("Concat", "MaxPool")  # give values of their inputs, so that these are quantised in their place


@dataclass(frozen=True)
class Ranges:
    """Smallest and largest value at the input of each convolution, in the order in which the network runs them.

    `kernels`: shapes (out, in, height, width), by which a network is recognised. `images`: how many the ranges were found on.
    `weights`: the SHA-256 of the stored weights of the network that they were found for; "" if that is not known. `made_by`: the
    command that found them, and its version.
    """

    kernels: Sequence[Sequence[int]]
    inputs: Sequence[Sequence[float]]
    images: int
    weights: str = ""
    made_by: str = "dogsnap quantize"

    def write(self, file: Path) -> None:
        """Write the ranges as JSON, a few kB, in one step."""
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def quantised(model: Any, ranges: Ranges, weight_bits: int) -> Any:
    """Change an OpenVINO model in place: its convolutions multiply int8 weights and uint8 activations; returns it.

    Weights get a scale per output channel, symmetric about 0. `weight_bits`: 8, or 7 for processors that add pairs of products
    in 16 bits (AVX2 without VNNI), where the sum of two products of full size does not fit.
    Raises IncompatibleNetwork if the ranges are not of this network.
    """
    convolutions = _convolutions(model)
    shapes = [list(node.input_value(1).get_shape()) for node in convolutions]
    if shapes != [list(shape) for shape in ranges.kernels]:
        raise IncompatibleNetwork(
            f"the ranges are of another network: of {len(ranges.kernels)} convolutions, this one has {len(shapes)}; "
            "`dogsnap quantize` finds them again"
        )
    found = {
        _name(source): (source, ends)
        for node, ends in zip(convolutions, ranges.inputs, strict=True)
        for source in _sources(node.input_value(0))
    }
    for source, (low, high) in found.values():
        _quantise_activation(source, low, high)
    for node in convolutions:
        _quantise_weights(node, 2 ** (weight_bits - 1) - 1)
    model.validate_nodes_and_infer_types()
    return model


def _convolutions(model: Any) -> list[Any]:
    """Those that a ReLU follows: the others answer, like the head does."""
    return [node for node in model.get_ordered_ops() if node.get_type_name() == "Convolution" and _is_rectified(node)]


def _is_rectified(node: Any) -> bool:
    following = [consumer.get_node() for consumer in node.output(0).get_target_inputs()]
    if len(following) == 1 and following[0].get_type_name() == "Add":
        following = [consumer.get_node() for consumer in following[0].output(0).get_target_inputs()]
    return [each.get_type_name() for each in following] == ["Relu"]


def _sources(value: Any) -> list[Any]:
    """The outputs of nodes whose values arrive at `value` as they are."""
    node = value.get_node()
    if node.get_type_name() not in PASSING:
        return [value]
    tensors = [node.input_value(place) for place in range(node.get_input_size())]
    return [source for tensor in tensors for source in _sources(tensor)]


def _quantise_activation(source: Any, low: float, high: float) -> None:
    """Let every consumer see the values rounded to LEVELS steps between `low` and `high`."""
    ops = _operations()
    consumers = list(source.get_target_inputs())
    ends = [ops.constant(np.float32(end)) for end in (low, high)]
    rounded = ops.fake_quantize(source, *ends, *ends, LEVELS)
    for consumer in consumers:
        consumer.replace_source_output(rounded.output(0))


def _quantise_weights(node: Any, largest: int) -> None:
    """int8 weights in [-largest, largest] and a scale per output channel in place of a convolution's float32 kernel."""
    ops = _operations()
    kernel = node.input_value(1).get_node().data.astype(np.float32)
    scale = np.maximum(np.abs(kernel).max((1, 2, 3), keepdims=True), np.float32(1e-12)) / np.float32(largest)
    whole = np.clip(np.round(kernel / scale), -largest, largest).astype(np.int8)
    weights = ops.multiply(ops.convert(ops.constant(whole), "f32"), ops.constant(scale))
    node.input(1).replace_source_output(weights.output(0))


def _operations() -> Any:
    import_openvino()
    from openvino import opset13

    return opset13


# -- finding the ranges ------------------------------------------------------------------------------------------------


def find_ranges(model: Any, images: Iterable[np.ndarray]) -> Ranges:
    """The ranges with the least mean squared error on images float32 (height, width, channels), of an OpenVINO model in float32.

    Tensors that meet in a concatenation share one range. The model is left with further outputs.
    """
    convolutions = _convolutions(model)
    inputs = [_sources(node.input_value(0)) for node in convolutions]
    tensors = {_name(source): source for sources in inputs for source in sources}
    samples, ends, count = _sampled(model, tensors, images)
    ranges = {}
    for group in _joined([[_name(source) for source in sources] for sources in inputs]):
        low, high = min(ends[name][0] for name in group), max(ends[name][1] for name in group)
        if low >= 0:  # as wide as the values for negative ones
            values = np.concatenate([sample for name in sorted(group) for sample in samples[name]])
            low, high = 0.0, min(SHARES * high, key=lambda end, values=values: _squared_error(values, end))
        ranges |= dict.fromkeys(group, (float(low), float(high)))
    kernels = [list(node.input_value(1).get_shape()) for node in convolutions]
    return Ranges(kernels, [ranges[_name(sources[0])] for sources in inputs], count)


def _sampled(model: Any, tensors: Mapping[str, Any], images: Iterable[np.ndarray]) -> tuple[dict, dict, int]:
    """By the tensors' names, samples of their values for each image, and their smallest and largest; the number of images."""
    first = len(model.outputs)
    model.add_outputs(list(tensors.values()))
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    request = import_openvino().Core().compile_model(model, "CPU", settings).create_infer_request()
    samples: dict[str, list[np.ndarray]] = {name: [] for name in tensors}
    ends, random, count = dict.fromkeys(tensors, (np.inf, -np.inf)), np.random.default_rng(0), 0
    for image in images:
        request.infer([image[np.newaxis]])
        count += 1
        for place, name in enumerate(tensors, first):
            values = request.get_output_tensor(place).data.reshape(-1)
            ends[name] = min(ends[name][0], values.min()), max(ends[name][1], values.max())
            samples[name].append(values[random.integers(0, values.size, SAMPLES)])
    return samples, ends, count


def _name(source: Any) -> str:
    return source.get_node().get_friendly_name()


def _joined(groups: Sequence[Sequence[str]]) -> list[set[str]]:
    """The groups, those with a common member in one."""
    joined: list[set[str]] = []
    for group in groups:
        touching = [each for each in joined if not each.isdisjoint(group)]
        joined = [each for each in joined if each.isdisjoint(group)] + [set(group).union(*touching)]
    return joined


def _squared_error(values: np.ndarray, end: float) -> float:
    step = end / (LEVELS - 1)
    return float(np.mean((np.minimum(np.round(values / step), LEVELS - 1) * step - values) ** 2))
