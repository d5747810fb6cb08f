"""Which of a model's versions are loaded, by TensorFlow Serving's version policy."""

from collections.abc import Iterable
from typing import TypeAlias

from tensorflow_serving.config import file_system_storage_path_source_pb2

VersionPolicy: TypeAlias = (
    file_system_storage_path_source_pb2.FileSystemStoragePathSourceConfig.ServableVersionPolicy
)


def aspired_versions(policy: VersionPolicy, numbers: Iterable[int]) -> set[int]:
    """The existing versions that a policy selects.

    Without a policy all, unlike in TensorFlow Serving, to compare versions.
    """
    numbers = sorted(numbers, reverse=True)
    kind = policy.WhichOneof("policy_choice")
    if kind == "latest":
        return set(numbers[: policy.latest.num_versions or 1])
    if kind == "specific":
        return set(numbers) & set(policy.specific.versions)
    return set(numbers)
