"""Folders of models and versions on disk: which there are, and whether one is
complete.
"""

import errno
import hashlib
import logging
import os
import re
import stat
from functools import cache
from pathlib import Path

from dogsnap.errors import NoRoom
from dogsnap.memory import free_bytes
from dogsnap.routing.spec import MAX_INT64
from dogsnap.serving.versions import checksums, saved_model_file
from dogsnap.settings import MEBIBYTE

log = logging.getLogger("dogsnap.models")

Fingerprint = tuple[tuple[str, int, int, int], ...]
# What a load takes at most, over the size of the files: 2.4 to 2.9 for versions of Inception v3.
MEMORY_OF_FILES = 2.5
VERSION = re.compile("0*[0-9]{1,19}")
SHARD = re.compile(r"variables\.data-(\d{5})-of-(\d{5})")


def version_folders(base_path: Path) -> dict[int, Path]:
    """The folders whose name is a number, by that number (leading zeros are
    ignored: 007 is 7).

    Raises OSError if the folder cannot be read; one that does not exist holds
    none.
    """
    folders = dict[int, Path]()
    for child in _list(base_path):
        if VERSION.fullmatch(child.name) and int(child.name) <= MAX_INT64 and is_folder(child):
            number = int(child.name)
            if number in folders:
                _warn_of_same_number(folders[number], child)
            folders[number] = child
    return folders


@cache
def _warn_of_same_number(other: Path, folder: Path) -> None:
    """Once for each pair."""
    log.warning("%s and %s are the same version; the second one is served", other, folder)


def model_folders(models: Path) -> tuple[dict[str, Path], dict[Path, str]]:
    """The folders in `models` that hold versions, by the name of their entry;
    or `models` itself if it holds complete versions.

    The second dict says of the entries that cannot be served why not. Raises
    OSError if `models` itself cannot be read.
    """
    if _holds_versions(models):
        name = Path(os.path.abspath(models)).name
        others = {
            child: f"{child} is not served: {models} holds versions itself, so it is the "
            f"folder of one model; move these to {models / name}"
            for child in other_models(models)
        }
        return {name: models}, others
    found, troubles = {}, {}
    for child in _list(models):
        try:
            os.path.realpath(child).encode(), child.name.encode()
            if is_folder(child) and version_folders(child):
                found[child.name] = child
            elif saved_model_file.find(child):
                troubles[child] = (
                    f"{child} is a version without a number; move its files to {child / '1'}"
                )
            elif nearly := _nearly_version(child):
                troubles[child] = (
                    f"{nearly} is no version: expected a number as its name, such as 1"
                )
            elif other := is_folder(child) and saved_model_file.describe_other(child):
                troubles[child] = f"{child} holds no version of a model: {other}"
        except UnicodeEncodeError:
            troubles[child] = f"expected a folder whose path is UTF-8, received {str(child)!a}"
        except OSError as error:
            troubles[child] = describe_unreadable(child, error)
    return found, troubles


def _nearly_version(folder: Path) -> Path | None:
    """A folder with a SavedModel in it whose name is no number, as v1 or 1.0."""
    return next((child for child in _list(folder) if saved_model_file.find(child)), None)


def other_models(folder: Path) -> list[Path]:
    """The folders of models in a folder, which hold complete versions."""
    children = [child for child in _list(folder) if not VERSION.fullmatch(child.name)]
    return list(filter(_holds_versions, children))


def _holds_versions(folder: Path) -> bool:
    try:
        return not all(map(find_fault, version_folders(folder).values()))
    except OSError:
        return False


def model_folder_of(version: Path) -> Path:
    """The folder that versions made of this one are written to: that of the
    path as it is given, not of what a link leads to.

    Raises ValueError where the version has no number, so that this would be the
    folder of all models.
    """
    folder = Path(os.path.abspath(version))
    if not VERSION.fullmatch(folder.name):
        raise ValueError(
            f"{version} is no version of a model: expected a folder whose name is a number, "
            f"beside which the next one is written; move its files to {version / '1'}"
        )
    refuse_several_models(folder.parent)
    return folder.parent


def refuse_several_models(folder: Path) -> None:
    """Raises ValueError for the folder of all models: with a version in it, a
    server would take it for that of one.
    """
    if others := other_models(folder):
        names = ", ".join(other.name for other in others)
        raise ValueError(
            f"{folder} holds models ({names}); expected the folder of one model, with nothing "
            f"but its versions, such as {folder / 'NAME'}"
        )


def is_folder(path: Path) -> bool:
    """Whether this is a folder.

    What cannot be looked at counts as one: reading it says what is wrong with
    it.
    """
    try:
        return path.is_dir()
    except OSError:
        return True


def describe_unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read: {error.strerror or error}"


def _list(folder: Path) -> list[Path]:
    """Without hidden names: Kubernetes' volumes keep what their links lead to in ..data."""
    try:
        return sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except ValueError as error:  # a null character
        raise OSError(errno.EINVAL, str(error), str(folder)) from error


def find_fault(version: Path) -> str:
    """Why a version folder cannot be loaded as it is; "" if it can."""
    try:
        lacks = missing(version)
    except OSError as error:
        return describe_unreadable(version, error)
    return f"{version} lacks {lacks}" if lacks else ""


def missing(path: Path) -> str:
    """What a version folder lacks, as a SavedModel; "" if it is complete.

    Raises OSError if it cannot be read.
    """
    if saved_model_file.find(path) is None:
        other = saved_model_file.describe_other(path)
        return f"{saved_model_file.BINARY} ({other})" if other else saved_model_file.BINARY
    variables = path / "variables"
    shards = [SHARD.fullmatch(file.name) for file in variables.glob("variables.data-*")]
    counts = {int(shard[2]) for shard in shards if shard}
    has_index = (variables / "variables.index").is_file()
    if has_index != bool(counts):
        return "variables/variables.data-*" if has_index else "variables/variables.index"
    is_part = counts and len(shards) != max(counts)
    return f"some of the {max(counts)} files variables/variables.data-*" if is_part else ""


def check_memory(files: Fingerprint) -> None:
    """Raises NoRoom if a version of these files would not fit into what is free now."""
    needed, free = MEMORY_OF_FILES * sum(size for _, size, *_ in files), free_bytes()
    if free is not None and needed > free:
        raise NoRoom(
            f"loading it needs about {needed / MEBIBYTE:,.0f} MB of memory "
            f"({MEMORY_OF_FILES:g} times "
            f"its files), {free / MEBIBYTE:,.0f} MB are free; unload another version, or give the "
            "server more"
        )


def digest(path: Path) -> str:
    """The SHA-256 of names and contents of all files, whatever their times.

    Raises OSError if one cannot be read.

    Of variables the index stands for the rest: it holds the checksum of each
    tensor.
    """
    sums = []
    for file in sorted(path.rglob("*")):
        if file.is_file() and not SHARD.fullmatch(file.name):
            sums.append(f"{checksums.digest(file)} {file.relative_to(path).as_posix()}")
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def fingerprint(path: Path) -> Fingerprint:
    """Name, size and times of every file, which are equal if nothing was
    written in between.

    Raises OSError if one, or a folder, cannot be looked at; one that vanishes
    meanwhile is left out.
    """
    entries = []
    for folder, _, names in os.walk(path, onerror=_raise_unless_gone):
        for name in names:
            file = Path(folder, name)
            try:
                status = file.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                relative = file.relative_to(path).as_posix()
                times = status.st_mtime_ns, status.st_ctime_ns
                entries.append((relative, status.st_size, *times))
    return tuple(sorted(entries))
