"""Runs an exported version over many photos and collects the answers."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from dogsnap.errors import DogsnapError
from dogsnap.serving.answers.levels import Levels
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import Servable
from dogsnap.training.dataset import photo_bytes
from dogsnap.training.stored_arrays import join_rows

BATCH = 16  # photos that the version is given together


@dataclass(frozen=True)
class ExportedVersion:
    """A loaded version that has labels, with its description
    (assets.extra/dogsnap.json), run as the server runs it.
    """

    path: Path
    description: Mapping
    servable: Servable

    @classmethod
    def load(cls, path: Path) -> "ExportedVersion":
        """Load a version directory.

        Raises ValueError, one sentence, for one that names no classes of
        photos.
        """
        folder = path.resolve()
        number = int(folder.name) if folder.name.isdigit() else 0
        if not (folder / "saved_model.pb").is_file():
            raise ValueError(f"{path} is no version: it holds no saved_model.pb")
        try:
            servable = Servable.load(ServableId(folder.parent.name, number), path)
            if not servable.description.labels:
                raise ValueError(
                    f"{path} has no labels; `dogsnap merge {path} --labels FILE` writes "
                    "a version that has them"
                )
            servable.photo_signature()
        except DogsnapError as error:
            raise ValueError(error.message) from error
        return cls(path, servable.description.raw, servable)

    @property
    def levels(self) -> Levels:
        """What its answers claim."""
        return self.servable.description.levels

    @property
    def labels(self) -> Sequence[Mapping]:
        return self.description["labels"]

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

    def answer(self, photos: list[bytes]) -> dict[str, np.ndarray]:
        """Photos, as the bytes of their files -> "prediction" (n, classes) and,
        if it has them, "dog" (n,) and "box" (n, 4).
        """
        answer = self.servable.run_photos(self.servable.photo_signature(), photos)
        if "dog" in answer:
            answer["dog"] = answer["dog"].reshape(-1)
        return answer


def answers(version: ExportedVersion, photos: Sequence[Path | bytes]) -> dict[str, np.ndarray]:
    """The version's answers to photo files, or to their bytes, in order, and
    "seconds" (n,) of each; with a progress bar.

    See `ExportedVersion.answer`. Photos run BATCH at a time, and each has its
    share of the time, decoding included.
    """
    parts = []
    with click.progressbar(length=len(photos), label="photos", file=sys.stderr) as bar:
        for start in range(0, len(photos), BATCH):
            part = photos[start : start + BATCH]
            contents = [photo_bytes(photo) for photo in part]
            begun = time.perf_counter()
            answer = version.answer(contents)
            seconds = (time.perf_counter() - begun) / len(part)
            parts.append({**answer, "seconds": np.full(len(part), seconds)})
            bar.update(len(part))
    return join_rows(parts)
