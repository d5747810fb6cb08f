"""Runs an exported version over many photos and collects the answers."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from dogsnap.errors import DogsnapError
from dogsnap.serving.answers.levels import Levels
from dogsnap.serving.inference.request_kinds import Breeds
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions import saved_model_file
from dogsnap.serving.versions.servable import LocalServable, kernel_sentence
from dogsnap.settings import MAX_PHOTO_PIXELS
from dogsnap.training.stored_arrays import join_rows

METRICS = Metrics()


@dataclass(frozen=True)
class ExportedVersion:
    """A loaded version that has labels, with its description
    (assets.extra/dogsnap.json), run as the server runs it.
    """

    path: Path
    description: Mapping[str, Any]
    servable: LocalServable

    @classmethod
    def load(cls, path: Path) -> "ExportedVersion":
        """Load a version directory.

        Raises ValueError, one sentence, for one that names no classes of
        photos.
        """
        folder = Path(os.path.abspath(path))
        number = int(folder.name) if folder.name.isdigit() else 0
        if saved_model_file.find(folder) is None:
            other = (
                saved_model_file.describe_other(path) or f"it holds no {saved_model_file.BINARY}"
            )
            raise ValueError(f"{path} is no version: {other}")
        try:
            servable = LocalServable(ServableId(folder.parent.name, number), path)
            if not servable.description.labels:
                source = servable.description.raw.get("source", {}).get("merged_from")
                takes_images = path.with_name(Path(str(source)).name) if source else path
                raise ValueError(
                    f"{path} has no labels; `dogsnap merge {takes_images} --labels FILE` writes "
                    "a version that has them"
                )
            servable.photo_signature()
        except DogsnapError as error:
            raise ValueError(f"{path}: {error.message}") from error
        except ValueError:
            raise  # with the path in it
        except Exception as error:  # a damaged file can raise anything
            reason = kernel_sentence(str(error))
            raise ValueError(f"{path} cannot be loaded: {reason}") from error
        return cls(path, servable.description.raw, servable)

    @property
    def levels(self) -> Levels:
        """What its answers claim."""
        return self.servable.description.levels

    @property
    def labels(self) -> Sequence[Mapping[str, Any]]:
        return self.description["labels"]

    @property
    def is_independent(self) -> bool:
        """Whether a photo may show several of its classes, or none."""
        return self.levels.thresholds is not None

    def finds_dogs(self) -> bool:
        """Whether it says of a photo that it shows no dog."""
        has_output = "dog" in self.servable.photo_signature().outputs
        return has_output and self.levels.decision.dog is not None

    def require_dogs(self, option: str) -> None:
        """Raises ValueError for a version that never says that a photo shows no dog."""
        if not self.finds_dogs():
            raise ValueError(
                f"{option}: {self.path} has no output `dog`, or no dog_threshold; leave "
                "the option out"
            )

    def answer(self, photo: bytes) -> dict[str, np.ndarray]:
        """What a server answers for the bytes of a photo file, windows and
        turns included -> "prediction" (1, classes) and, if it has them, "dog"
        (1,) and "box" (1, 4). Raises DogsnapError.
        """
        work = Breeds([photo], None)
        work.prepare(self.servable, MAX_PHOTO_PIXELS, METRICS)
        answer = dict(work.repeat(self.servable))
        if "dog" in answer:
            answer["dog"] = answer["dog"].reshape(-1)
        return answer


def answers(version: ExportedVersion, photos: Sequence[Path]) -> dict[str, np.ndarray]:
    """The version's answers to photo files, in order, and "seconds" (n,) of
    each, decoding included; with a progress bar.

    See `ExportedVersion.answer`. Raises ValueError, naming the photo, for one
    that a server refuses.
    """
    parts = []
    with click.progressbar(photos, label="photos", file=sys.stderr) as bar:
        for photo in bar:
            contents = photo.read_bytes()
            begun = time.perf_counter()
            try:
                answer = version.answer(contents)
            except DogsnapError as error:
                raise ValueError(f"{photo}: {error.message}") from error
            parts.append({**answer, "seconds": np.array([time.perf_counter() - begun])})
    return join_rows(parts)
