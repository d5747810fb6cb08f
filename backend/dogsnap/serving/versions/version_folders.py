"""Version folders on disk: which there are, which a policy selects, and whether one is complete."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from tensorflow_serving.config import file_system_storage_path_source_pb2

VersionPolicy: TypeAlias = (
    file_system_storage_path_source_pb2.FileSystemStoragePathSourceConfig.ServableVersionPolicy
)
Fingerprint = tuple[tuple[str, int, int, int], ...]
VERSION = re.compile("0*[0-9]{1,19}")
MAX_INT64 = 2**63 - 1  # the largest version number, as TensorFlow Serving's
SHARD = re.compile(r"variables\.data-(\d{5})-of-(\d{5})")


def version_folders(base_path: Path) -> dict[int, Path]:
    """The folders whose name is a number, by that number (leading zeros are ignored: 007 is 7)."""
    if not base_path.is_dir():
        return {}
    return {
        int(child.name): child
        for child in sorted(base_path.iterdir())
        if VERSION.fullmatch(child.name) and int(child.name) <= MAX_INT64 and child.is_dir()
    }


def aspired_versions(policy: VersionPolicy, numbers: Iterable[int]) -> set[int]:
    """The existing versions that a policy selects. Without a policy all, unlike in TensorFlow Serving, to compare versions."""
    numbers = sorted(numbers, reverse=True)
    kind = policy.WhichOneof("policy_choice")
    if kind == "latest":
        return set(numbers[: policy.latest.num_versions or 1])
    if kind == "specific":
        return set(numbers) & set(policy.specific.versions)
    return set(numbers)


def missing(path: Path) -> str:
    """What a version folder lacks, as a SavedModel; "" if it is complete."""
    if not (path / "saved_model.pb").is_file():
        return "saved_model.pb"
    variables = path / "variables"
    shards = (
        [SHARD.fullmatch(file.name) for file in variables.glob("variables.data-*")]
        if variables.is_dir()
        else []
    )
    counts = {int(shard[2]) for shard in shards if shard}
    has_index = (variables / "variables.index").is_file()
    if has_index != bool(counts):
        return "variables/variables.data-*" if has_index else "variables/variables.index"
    is_part = counts and len(shards) != max(counts)
    return f"some of the {max(counts)} files variables/variables.data-*" if is_part else ""


def fingerprint(path: Path) -> Fingerprint:
    """Name, size and times of every file, which are equal if nothing was written in between."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    stats = [(file.relative_to(path).as_posix(), file.stat()) for file in files]
    return tuple((name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in stats)
