"""Runs an exported version over many photos, as its clients would, and collects the answers.

It judges nothing: `evaluation.py` does.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from backend.serving.preprocessing import photos_to_images
from backend.serving.servable import DESCRIPTION_FILE


@dataclass(frozen=True)
class ExportedVersion:
    """A loaded version directory with its self-description (assets.extra/dogsnap.json)."""

    path: Path
    description: dict
    scores: tf.types.experimental.ConcreteFunction
    keep_alive: object

    @classmethod
    def load(cls, path: Path) -> "ExportedVersion":
        """Load a version directory. Raises FileNotFoundError or ValueError, one sentence each, when it is not one of ours."""
        description = path / DESCRIPTION_FILE
        if not description.is_file():
            raise FileNotFoundError(
                f"{description} does not exist; expected a version made by `dogsnap export` or `merge`"
            )
        loaded = tf.saved_model.load(str(path))
        if "scores" not in loaded.signatures:
            raise ValueError(f"{path} has no signature `scores`, only {', '.join(sorted(loaded.signatures))}")
        return cls(path, json.loads(description.read_text(encoding="utf-8")), loaded.signatures["scores"], loaded)

    def answer(self, photos: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Photos, as the bytes of their files -> breed probabilities (n, classes) and probability of a dog (n,)."""
        (name, spec), *_ = self.scores.structured_input_signature[1].items()
        fed = tf.constant(photos)
        if spec.dtype != tf.string:
            fed = photos_to_images(fed, tuple(self.description["input_size"]))
        answer = self.scores(**{name: fed})
        return answer["prediction"].numpy(), answer["dog"].numpy().reshape(-1)


def answers(version: ExportedVersion, paths: list[Path], batch: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """The version's answers to photo files, in their order, with a progress bar: (n, classes) and (n,)."""
    progress = keras.utils.Progbar(len(paths), unit_name="photo")
    predictions, dogs = [], []
    for part in _batches(paths, batch):
        prediction, dog = version.answer([path.read_bytes() for path in part])
        predictions.append(prediction)
        dogs.append(dog)
        progress.add(len(part))
    return np.concatenate(predictions), np.concatenate(dogs)


def _batches(paths: list[Path], size: int) -> Iterator[list[Path]]:
    return (paths[start : start + size] for start in range(0, len(paths), size))
