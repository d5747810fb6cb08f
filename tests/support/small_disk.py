"""A real file system that is soon full."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of `size`, like "8m", mounted at `folder`."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(
            "mounting a small file system needs root: the full disk cannot be provoked here"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(disk: Path) -> Path:
    """Take all the room that is left; removing the file that is returned gives it back."""
    (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free))
    return disk / "filler"
