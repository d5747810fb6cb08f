"""Finds the ranges of a classifier's int8 network on training photos."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dogsnap.exporting import Report
from dogsnap.exporting.acceleration import convert
from dogsnap.exporting.freezing import Source
from dogsnap.exporting.merging.merge import read_description
from dogsnap.exporting.quantization import (
    LEVELS,
    Ranges,
    name_of,
    rectified_convolutions,
    sources_of,
)
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions.openvino_runtime import NETWORK, import_openvino
from dogsnap.training.dataset import (
    DatasetError,
    paths_of,
    photo_bytes,
    read_list,
    readable_photos,
    split_validation,
)

SAMPLES = 200  # values of each tensor and image that a range is chosen on
SHARES = np.linspace(0.15, 1.0, 50)  # of the largest value: candidates for the end of a range


def choose(data: Sequence[Path], recipe: dict[str, Any], count: int) -> list[Path]:
    """`count` training photos, evenly from all folders of `data` in Stanford
    Dogs' layout.

    A photo of the same name is in the same part of all of them, the one that
    `recipe` cuts from the first. Raises DatasetError.
    """
    if count < len(data):
        raise DatasetError(
            f"--photos is {count}; expected at least {len(data)}, one from each folder of --data"
        )
    lists = {folder: read_list(folder, "train_list") for folder in data}
    _, cut = split_validation(lists[data[0]], recipe["validation_per_breed"], recipe["seed"])
    validation = {path.stem for path in paths_of(cut)}
    found: list[Path] = []
    for folder, examples in lists.items():
        training = [path for path in paths_of(examples) if path.stem not in validation]
        if not training:
            raise DatasetError(
                f"all {len(examples)} photos that {folder} lists are for validation; "
                "expected some more to find the ranges on: "
                "list more in train_list.txt"
            )
        found += training[:: max(1, -(-len(training) // (count // len(data))))]
    return found


def calibrate(version: Path, photos: Sequence[Path], report: Report) -> Ranges:
    """The ranges for a version that takes images.

    Raises FreezingError, IncompatibleNetwork, or DatasetError.
    """
    description = read_description(version)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        convert(Source(version).freeze_signature("scores"), folder)
        found_on = readable_photos(list(photos), report)
        report(f"finding ranges on {len(found_on)} photos")
        ranges = find_ranges(
            import_openvino().Core().read_model(folder / NETWORK),
            images(found_on, tuple(description["input_size"])),
        )
    return replace(ranges, weights=description.get("scores", {}).get("weights", ""))


def find_ranges(model: Any, images: Iterable[np.ndarray]) -> Ranges:
    """The ranges with the least mean squared error on images float32 (height,
    width, channels), of an OpenVINO model in float32.

    Tensors that meet in a concatenation share one range. The model is left with
    further outputs.
    """
    convolutions = rectified_convolutions(model)
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
        if low >= 0:  # as wide as the values for negative ones
            values = np.concatenate([np.concatenate(samples[name]) for name in sorted(group)])
            low, high = 0.0, min(SHARES * high, key=partial(_squared_error, values))
        ranges |= dict.fromkeys(group, (float(low), float(high)))
    kernels = [list(node.input_value(1).get_shape()) for node in convolutions]
    return Ranges(kernels, [ranges[sources[0]] for sources in names], count)


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
    random, count = np.random.default_rng(0), 0
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


def _squared_error(values: np.ndarray, end: float) -> float:
    step = end / (LEVELS - 1)
    return float(np.mean((np.minimum(np.round(values / step), LEVELS - 1) * step - values) ** 2))


def images(paths: Sequence[Path], size: tuple[int, int]) -> Iterator[np.ndarray]:
    """Photos as the network sees them, float32 (height, width, 3) in [0, 1]."""
    for path in paths:
        yield photos_to_images([photo_bytes(path)], size).numpy()[0]
