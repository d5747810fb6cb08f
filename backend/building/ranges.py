"""Finds the ranges of a classifier's int8 network on training photos, and compares its answers with those in float32."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from backend.building.acceleration import convert
from backend.building.freezing import freeze, load_signatures
from backend.building.merging.merge import read_description
from backend.building.quantization import Ranges, find_ranges, quantised
from backend.fitting import scoring
from backend.fitting.dataset import (
    DatasetError,
    Example,
    every_second_photo,
    photo_bytes,
    read_list,
    readable,
    readable_photos,
    split_validation,
)
from backend.serving.photos.preprocessing import photos_to_images
from backend.serving.versions.openvino_runtime import INT8, NETWORK, Network, Weights

Report = Callable[[str], None]


@dataclass(frozen=True)
class Photos:
    """Photos to find ranges on, and others to judge on: by folder, and without a dog."""

    found_on: Sequence[Path]
    dogs: dict[str, list[Example]]
    others: Sequence[Path]


def choose(data: Sequence[Path], not_dogs: Path | None, recipe: dict, count: int, judged: int) -> Photos:
    """`count` training photos, evenly from all folders, and at most `judged` validation photos of each.

    `data`: folders in Stanford Dogs' layout; a photo of the same name is in the same part of all of them, the one that
    `recipe` cuts from the first. Raises DatasetError.
    """
    if count < len(data):
        raise DatasetError(f"--photos is {count}; expected at least {len(data)}, one from each folder of --data")
    lists = {str(folder): read_list(folder, "train_list") for folder in data}
    first = next(iter(lists.values()))
    validation = {each.path.stem for each in split_validation(first, recipe["validation_per_breed"], recipe["seed"])[1]}
    for name, examples in lists.items():
        known = sum(each.path.stem in validation for each in examples)
        if not 0 < known < len(examples):
            raise DatasetError(
                f"{name} lists {len(examples)} photos, {known} of them for validation; expected some for validation "
                "and some more to find the ranges on: list more in train_list.txt"
            )
    parts = [[each.path for each in examples if each.path.stem not in validation] for examples in lists.values()]
    dogs = {
        name: _spread([each for each in examples if each.path.stem in validation], judged)
        for name, examples in lists.items()
    }
    found_on = [path for part in parts for path in _spread(part, count // len(parts))]
    return Photos(found_on, dogs, every_second_photo(not_dogs, 1) if not_dogs else [])


def _spread(items: list, most: int) -> list:
    return items[:: max(1, -(-len(items) // most))]


def calibrate(version: Path, photos: Photos, report: Report) -> Ranges:
    """The ranges for a version that takes images, found on `photos.found_on`; the comparison goes to `report`.

    Raises FreezingError, IncompatibleNetwork, or DatasetError.
    """
    description = read_description(version)
    size = tuple(description["input_size"])
    signatures, _keep_alive = load_signatures(version)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        outputs = convert(freeze(signatures["scores"]), folder)
        found_on = readable_photos(list(photos.found_on), report)
        report(f"finding ranges on {len(found_on)} photos")
        ranges = find_ranges(Weights(folder / NETWORK).model, images(found_on, size))
        photos = Photos(
            found_on,
            {name: readable(examples, report) for name, examples in photos.dogs.items()},
            readable_photos(list(photos.others), report) if photos.others else [],
        )
        whole, small = Weights(folder / NETWORK), Weights(folder / NETWORK)
        quantised(small.model, ranges, 8)
        for name, network in (("float32", Network(whole, "f32", outputs)), ("int8", Network(small, INT8, outputs))):
            for line in _judged(network, photos, size, description):
                report(f"{name:8} {line}")
    return replace(ranges, weights=description.get("scores", {}).get("weights", ""))


def images(paths: Sequence[Path], size: tuple[int, int]) -> Iterator[np.ndarray]:
    """Photos as the network sees them, float32 (height, width, 3) in [0, 1]."""
    for path in paths:
        yield photos_to_images([photo_bytes(path)], size).numpy()[0]


def _judged(network: Network, photos: Photos, size: tuple[int, int], description: dict) -> Iterator[str]:
    decision = description["decision"]
    for name, examples in photos.dogs.items():
        probabilities, dog = _answers(network, [each.path for each in examples], size)
        breeds = np.array([each.breed for each in examples])
        scores = scoring.report(probabilities, breeds, description["labels"], decision["confident_threshold"])
        yield (
            f"{name}, {scores['photos']} photos: top-1 {scores['top1']:.1%}, calibration error "
            f"{scores['expected_calibration_error']:.1%}, sure {scores['confident_share']:.1%}, right where sure "
            f"{scores['confident_precision'] or 0:.1%}, taken for a dog {np.mean(dog >= decision['dog_threshold']):.1%}"
        )
    if photos.others:
        _, dog = _answers(network, photos.others, size)
        yield f"{len(dog)} photos without a dog: called no dog {np.mean(dog < decision['dog_threshold']):.1%}"


def _answers(network: Network, paths: Sequence[Path], size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    answers = [network.run(image[np.newaxis]) for image in images(paths, size)]
    return tuple(np.concatenate([each[name].reshape(1, -1) for each in answers]) for name in ("prediction", "dog"))
