"""Protobuf messages that a file beside a module describes; `make protos` writes it from a .proto."""

from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool


def add_messages(file: Path, pool: DescriptorPool) -> DescriptorPool:
    """The pool with what the file describes."""
    (described,) = FileDescriptorSet.FromString(file.read_bytes()).file
    pool.Add(described)
    return pool
