"""Writes a version again with another description, beside it under the next number."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dogsnap.exporting.publication import WRITING, publish
from dogsnap.serving.versions import checksums, description
from dogsnap.serving.versions.version_folders import model_folder_of


def write_with_threshold(version: Path, stated: Mapping[str, Any], threshold: float) -> Path:
    """The version folder, with `threshold` as the probability from which on its
    first class is sure.

    `stated`: the description of `version`. Raises OSError when the disk is full.
    """
    model_folder = model_folder_of(version)
    decision = {**stated.get("decision", {}), "confident_threshold": threshold}
    with tempfile.TemporaryDirectory(prefix=WRITING, dir=model_folder) as temporary:
        folder = Path(temporary) / "version"
        shutil.copytree(version, folder)
        text = json.dumps({**stated, "decision": decision}, indent=1, ensure_ascii=False)
        (folder / description.DESCRIPTION_FILE).write_text(text + "\n", encoding="utf-8")
        checksums.write(folder)
        return publish(folder, model_folder)
