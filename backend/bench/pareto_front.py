"""The Pareto front of accuracy and time over the versions of a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from backend.bench.remote import CannotMeasure, Target, asked

if TYPE_CHECKING:
    from backend.training.dataset import Example

LIST = "test_list"
BATCH = 8


@dataclass(frozen=True)
class ParetoPoint:
    """A version: time per photo with 16 clients, and top-1 accuracy on `photos` photos."""

    version: int
    photo_ms: float
    top1: float
    photos: int

    def is_beaten_by(self, other: "ParetoPoint") -> bool:
        return other != self and other.photo_ms <= self.photo_ms and other.top1 >= self.top1


def sample(data: Path, most: int) -> "list[Example]":
    """At most `most` photos of the test list in the Stanford Dogs layout, evenly spread. Raises CannotMeasure."""
    from backend.training.dataset import DatasetError, breed_folders, read_list  # imports TensorFlow

    try:
        breed_folders(data)
        examples = read_list(data, LIST)
    except (DatasetError, OSError) as error:
        raise CannotMeasure(f"--data: {error}") from error
    missing = [each.path for each in examples if not each.path.is_file()]
    if missing or not examples:
        what = f"{missing[0]} is missing" if missing else "it is empty"
        raise CannotMeasure(f"--data: {LIST}.txt cannot be used: {what}; expected photos of Stanford Dogs")
    return examples[:: max(1, -(-len(examples) // most))]


def top1(target: Target, examples: "Sequence[Example]") -> float:
    """Top-1 accuracy of the version's only output. Raises CannotMeasure."""
    right = 0
    for start in range(0, len(examples), BATCH):
        some = examples[start : start + BATCH]
        predictions = asked(target, [each.path.read_bytes() for each in some])
        if len(predictions) != len(some) or not isinstance(predictions[0], list):
            raise CannotMeasure(
                f"{target.url} gives more than probabilities; expected one output, a row for each photo"
            )
        right += int(sum(np.argmax(predictions, axis=1) == [each.breed for each in some]))
    return right / len(examples)
