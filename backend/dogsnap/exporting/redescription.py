"""Writes a version again with changes, beside it under the next number."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dogsnap.exporting.export import read_json
from dogsnap.exporting.publication import WRITING, publish
from dogsnap.files import write_json
from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.serving.versions.version_folders import model_folder_of


@dataclass(frozen=True)
class Draft:
    """A copy of a version: its files are in `folder`, and may be changed, as its
    `description` may. `finish` makes a version of it, and `publish` gives that the next
    number of `model_folder`.
    """

    folder: Path
    model_folder: Path
    description: dict[str, Any]

    def finish(self) -> None:
        write_json(self.description, self.folder / DESCRIPTION_FILE)
        checksums.write(self.folder)

    def publish(self) -> Path:
        self.finish()
        return publish(self.folder, self.model_folder)


@contextmanager
def rewriting(version: Path) -> Iterator[Draft]:
    """A copy of a version to change, which goes when the block ends unless it
    is published. Raises OSError when the disk is full.
    """
    model_folder = model_folder_of(version)
    with tempfile.TemporaryDirectory(prefix=WRITING, dir=model_folder) as temporary:
        folder = Path(temporary) / "version"
        shutil.copytree(version, folder)
        yield Draft(folder, model_folder, read_json(folder / DESCRIPTION_FILE))


def write_with_threshold(version: Path, threshold: float) -> Path:
    """The version folder, with `threshold` as the probability from which on its
    first class is sure.
    """
    with rewriting(version) as draft:
        draft.description.setdefault("decision", {})["confident_threshold"] = threshold
        return draft.publish()
