"""A copy of a version whose description says something else: other names, thresholds or groups for the same network."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dogsnap.serving.versions import checksums
from dogsnap.serving.versions.description import DESCRIPTION_FILE


def changed_version(version: Path, copy: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Copy a version's folder to `copy`, with the checksums that belong to it. `change` edits its description in place."""
    shutil.copytree(version, copy)
    file = copy / DESCRIPTION_FILE
    description = json.loads(file.read_text(encoding="utf-8"))
    change(description)
    file.write_text(json.dumps(description), encoding="utf-8")
    checksums.write(copy)
    return copy
