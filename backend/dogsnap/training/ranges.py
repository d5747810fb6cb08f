"""Finds the ranges of a classifier's int8 network on training photos."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dogsnap.exporting.quantization import (
    LEVELS,
    Ranges,
    chosen_convolutions,
    name_of,
    sources_of,
)
from dogsnap.serving.versions.openvino_runtime import import_openvino

SAMPLES = 200  # values of each tensor and image that a range is chosen on
SHARES = np.linspace(0.15, 1.0, 50)  # of the largest value: candidates for the end of a range
LEAST_END = 1e-6  # of a range whose values are all 0


def find_ranges(model: Any, images: Iterable[np.ndarray], pooled: bool = False) -> Ranges:
    """The ranges with the least mean squared error on images float32 (height,
    width, channels), of an OpenVINO model in float32; `pooled` as in `Ranges`.

    Tensors that meet in a concatenation share one range. The model is left with
    further outputs.
    """
    convolutions = chosen_convolutions(model, pooled)
    tensors: dict[str, Any] = {}
    names = []  # of the tensors that a convolution takes
    for node in convolutions:
        sources = {name_of(source): source for source in sources_of(node.input_value(0))}
        tensors |= sources
        names.append(list(sources))
    samples, ends, count = _sample(model, tensors, images)
    ranges: dict[str, tuple[float, float]] = {}
    for group in _join_groups(names):
        low = min(ends[name][0] for name in group)
        high = max(ends[name][1] for name in group)
        values = np.concatenate([np.concatenate(samples[name]) for name in sorted(group)])
        ranges |= dict.fromkeys(group, _least_error(values, low, high))
    kernels = [list(node.input_value(1).get_shape()) for node in convolutions]
    return Ranges(kernels, [ranges[sources[0]] for sources in names], count, pooled=pooled)


def _sample(
    model: Any, tensors: Mapping[str, Any], images: Iterable[np.ndarray]
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """By the tensors' names, samples of their values for each image, and their
    smallest and largest; the number of images.
    """
    first = len(model.outputs)
    model.add_outputs(list(tensors.values()))
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    request = import_openvino().Core().compile_model(model, "CPU", settings).create_infer_request()
    samples: dict[str, list[np.ndarray]] = {name: [] for name in tensors}
    ends = dict.fromkeys(tensors, (np.inf, -np.inf))
    random = np.random.default_rng(0)
    count = 0
    for image in images:
        request.infer([image[np.newaxis]])
        count += 1
        for place, name in enumerate(tensors, first):
            values = request.get_output_tensor(place).data.reshape(-1)
            ends[name] = min(ends[name][0], values.min()), max(ends[name][1], values.max())
            samples[name].append(values[random.integers(0, values.size, SAMPLES)])
    return samples, ends, count


def _join_groups(groups: Sequence[Sequence[str]]) -> list[set[str]]:
    """The groups, those with a common member in one."""
    joined: list[set[str]] = []
    for group in groups:
        touching = [each for each in joined if not each.isdisjoint(group)]
        joined = [each for each in joined if each.isdisjoint(group)] + [set(group).union(*touching)]
    return joined


def _least_error(values: np.ndarray, low: float, high: float) -> tuple[float, float]:
    """The range that holds 0, within the smallest and the largest value, in which
    `values` are rounded with the least error.
    """
    low, high = min(float(low), 0.0), max(float(high), LEAST_END)
    high = min((SHARES * high).tolist(), key=lambda end: _squared_error(values, low, end))
    if low < 0:
        low = min((SHARES * low).tolist(), key=lambda end: _squared_error(values, end, high))
    return low, high


def _squared_error(values: np.ndarray, low: float, high: float) -> float:
    step = (high - low) / (LEVELS - 1)
    rounded = np.clip(np.round((values - low) / step), 0, LEVELS - 1) * step + low
    return float(np.mean((rounded - values) ** 2))
