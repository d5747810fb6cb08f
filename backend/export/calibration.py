"""Finds the ranges of a classifier's int8 network on training photos, and compares its answers with those in float32."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backend.export.acceleration import convert
from backend.export.freezing import freeze, load_signatures
from backend.export.merging.merge import read_description
from backend.export.quantization import Ranges, find_ranges, quantised
from backend.serving.photos.preprocessing import photos_to_images
from backend.serving.versions.runtimes import INT8, NETWORK, Network, Weights
from backend.training import evaluation
from backend.training.dataset import Example, every_second_photo, read_list, split_validation

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
    lists = {str(folder): read_list(folder, "train_list") for folder in data}
    first = next(iter(lists.values()))
    validation = {each.path.stem for each in split_validation(first, recipe["validation_per_breed"], recipe["seed"])[1]}
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
        report(f"finding ranges on {len(photos.found_on)} photos")
        ranges = find_ranges(Weights(folder / NETWORK).model, images(photos.found_on, size))
        whole, small = Weights(folder / NETWORK), Weights(folder / NETWORK)
        quantised(small.model, ranges, 8)
        for name, network in (("float32", Network(whole, "f32", outputs)), ("int8", Network(small, INT8, outputs))):
            for line in _judged(network, photos, size, description):
                report(f"{name:8} {line}")
    return ranges


def images(paths: Sequence[Path], size: tuple[int, int]) -> Iterator[np.ndarray]:
    """Photos as the network sees them, float32 (height, width, 3) in [0, 1]."""
    for path in paths:
        yield photos_to_images([path.read_bytes()], size).numpy()[0]


def _judged(network: Network, photos: Photos, size: tuple[int, int], description: dict) -> Iterator[str]:
    decision = description["decision"]
    for name, examples in photos.dogs.items():
        probabilities, dog = _answers(network, [each.path for each in examples], size)
        breeds = np.array([each.breed for each in examples])
        scores = evaluation.report(probabilities, breeds, description["labels"], decision["confident_threshold"])
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
