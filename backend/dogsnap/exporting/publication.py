"""Publishes version folders: one or several that belong together appear whole,
or not at all.
"""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dogsnap.files import sync
from dogsnap.routing.spec import MAX_INT64
from dogsnap.serving.versions.version_folders import refuse_several_models, version_folders

# how folders with unfinished versions begin: no server takes them for models or versions
WRITING = ".writing-"


def next_version(model_folder: Path) -> int:
    """The number after the largest version; 1 for a new model.

    Raises ValueError for the folder of several models.
    """
    refuse_several_models(model_folder)
    number = max(version_folders(model_folder), default=0) + 1
    if number > MAX_INT64:
        raise ValueError(f"{model_folder} has version {MAX_INT64}: no server reads a larger number")
    return number


def publish(folder: Path, model_folder: Path) -> Path:
    """Move a version that is written to the next free number of `model_folder`;
    it is on disk before it has its name.
    """
    for path in (*folder.rglob("*"), folder):
        sync(path)
    while True:
        try:
            published = folder.rename(model_folder / str(next_version(model_folder)))
        except OSError as error:  # another export has taken the number meanwhile
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        else:
            sync(model_folder)
            return published


@contextmanager
def together(model_folder: Path) -> Iterator[Path]:
    """A folder to write versions to instead of `model_folder`, where all appear
    when the block ends, or none if it raises.
    """
    new = [folder for folder in (model_folder, *model_folder.parents) if not folder.exists()]
    model_folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=WRITING, dir=model_folder) as temporary:
            written = make_staging_folder(Path(temporary), model_folder)
            yield written
            publish_together(written, model_folder)
    finally:
        with suppress(OSError):  # it holds versions
            for folder in new:
                folder.rmdir()


def make_staging_folder(temporary: Path, model_folder: Path) -> Path:
    """A folder in `temporary` to write versions to instead of `model_folder`:
    of the same name, and the numbers go on.
    """
    written = temporary / model_folder.name
    (written / str(next_version(model_folder) - 1)).mkdir(parents=True)
    return written


def publish_together(written: Path, model_folder: Path) -> None:
    """Move the versions in a staging folder to `model_folder`.

    Raises OSError, and moves none, if a number is taken.

    The largest appears first, the one that answers the app: if the computer
    stops between two, it is there.
    """
    _, *versions = sorted(version_folders(written).items())  # the first one holds the number alone
    moved: list[tuple[Path, Path]] = []
    try:
        for _, version in reversed(versions):
            moved.append((version, version.rename(model_folder / version.name)))
        sync(model_folder)
    except OSError as error:
        for version, published in moved:
            published.rename(version)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise OSError(
                f"another export has written a version to {model_folder} meanwhile; try again"
            ) from error
        raise
