"""Runs an exported version over many photos and collects the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from dogsnap.errors import DogsnapError
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.serving.versions.servable import Servable
from dogsnap.training.dataset import photo_bytes

BATCH = 16  # photos that the version is given together


@dataclass(frozen=True)
class ExportedVersion:
    """A loaded version with its description (assets.extra/dogsnap.json), run as the server runs it."""

    path: Path
    description: Mapping
    servable: Servable

    @classmethod
    def load(cls, path: Path) -> "ExportedVersion":
        """Load a version directory. Raises FileNotFoundError or ValueError, one sentence each, when it is not one of ours."""
        description = path / DESCRIPTION_FILE
        if not description.is_file():
            made = "a version made by `dogsnap export` or `merge`"
            raise FileNotFoundError(f"{description} does not exist; expected {made}")
        folder = path.resolve()
        number = int(folder.name) if folder.name.isdigit() else 0
        try:
            servable = Servable.load(ServableId(folder.parent.name, number), path)
        except DogsnapError as error:
            raise ValueError(error.message) from error
        if "scores" not in servable.signatures:
            raise ValueError(
                f"{path} has no signature `scores`, only {', '.join(sorted(servable.signatures))}"
            )
        if (
            "dog" not in servable.signatures["scores"].outputs
            or len(servable.description.decision) < 2
        ):
            missing = f"{path} has no output `dog`, or no thresholds"
            raise ValueError(f"{missing}; expected a version of a network trained here")
        return cls(path, servable.description.raw, servable)

    def answer(self, photos: list[bytes]) -> dict[str, np.ndarray]:
        """Photos, as the bytes of their files -> "prediction" (n, classes), "dog" (n,) and, if it has it, "box" (n, 4)."""
        answer = self.servable.run_photos(self.servable.signature("scores"), photos)
        return {**answer, "dog": answer["dog"].reshape(-1)}


def answers(version: ExportedVersion, photos: Sequence[Path | bytes]) -> dict[str, np.ndarray]:
    """The version's answers to photo files, or to their bytes, in order, with a progress bar; see `ExportedVersion.answer`."""
    progress = keras.utils.Progbar(len(photos), unit_name="photo")
    parts = []
    for start in range(0, len(photos), BATCH):
        part = photos[start : start + BATCH]
        parts.append(
            version.answer(
                [each if isinstance(each, bytes) else photo_bytes(each) for each in part]
            )
        )
        progress.add(len(part))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
