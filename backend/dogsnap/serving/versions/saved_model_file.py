"""Reads the graphs of a SavedModel's file, and says what a file is that is none."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from dogsnap.errors import FailedPrecondition
from dogsnap.serving.tensors.tensor_protos import to_varint

BINARY, TEXT = "saved_model.pb", "saved_model.pbtxt"
NAMES = (BINARY, TEXT)  # in TensorFlow's order
LARGE = 4096  # bytes of what may be left out
# Where the values of constants lie, by the numbers of the fields of SavedModel: meta_graphs,
# graph_def, then node or library, function, node_def, and of each attr; None: left out.
NODE: dict[int, Any] = {5: None}
CONSTANTS: dict[int, Any] = {2: {2: {1: NODE, 2: {1: {3: NODE}}}}}
VARINT, LENGTH = 0, 2  # the kinds of fields that these messages have
POINTER_BYTES = 1024  # at most (the specification of Git LFS)
LFS_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/.*\n(?s:.*)size (\d+)\n")

KERAS = 'a file of Keras: keras.saving.load_model(FILE).export("models/NAME/1") writes a version'
UNPACK = "a packed archive: unpack it"
FROZEN = (
    "a frozen graph (a GraphDef), not a SavedModel: load it with tf.import_graph_def and save it "
    "with tf.compat.v1.saved_model.simple_save, which names its inputs and outputs"
)
FIRST_NODE = rb"\n.{1,3}\n.[\w./-]{1,127}\x12.[A-Z]\w+"  # its size, name and operation
# What stands in place of a SavedModel, by the ending of its name and its first bytes.
OTHERS = (
    (r"\.keras", rb"PK\x03\x04", KERAS),
    (r"", rb"\x89HDF\r\n", KERAS),
    (r"", rb"....TFL3", "a model for TensorFlow Lite: export the one that it was converted from"),
    (r"\.pth?", rb"PK\x03\x04|\x80", "a file of PyTorch: convert that network to a SavedModel"),
    (r"", rb"\x08[\x01-\x40]\x12[\x01-\x7f][A-Za-z]", "an ONNX model: convert it, as by onnx2tf"),
    (r"", rb"PK\x03\x04|\x1f\x8b|BZh|\xfd7zXZ|.{257}ustar", UNPACK),
    (r"\.pb", FIRST_NODE, FROZEN),
    (r"", rb"\s*<", "a web page (HTML), as of a failed download: fetch it again"),
)
OTHER_ENDINGS = {
    ".keras", ".h5", ".hdf5", ".tflite", ".pt", ".pth", ".onnx", ".zip", ".tar", ".gz", ".tgz", ".pb",
}  # fmt: skip
HEAD_BYTES = 512


def find(version: Path) -> Path | None:
    """The file of a version's graphs, as binary or as text; None if there is none."""
    for name in NAMES:
        if (version / name).is_file():
            return version / name
    return None


def read(version: Path) -> Sequence[meta_graph_pb2.MetaGraphDef]:
    """The graphs of a version, without the values of large constants: to parse
    these would take Python's lock from requests for 0.2 s.

    Raises FailedPrecondition that says what the file is instead.
    """
    file = find(version)
    if file is None:
        other = describe_other(version)
        raise FailedPrecondition(other or f"{version} holds no {BINARY}, and no {TEXT}")
    refuse_lfs_pointers(version)
    contents = file.read_bytes()
    try:
        graphs = _parse(file, contents).meta_graphs
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise FailedPrecondition(f"{_describe(file, contents)}: {error}") from None
    if not graphs:
        raise FailedPrecondition(_describe(file, contents))
    return graphs


def describe_other(path: Path) -> str:
    """What a file is, or the first in a folder that is no SavedModel but a model
    of another kind, and what to do; "" where nothing known lies there.
    """
    files = [path]
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.suffix.lower() in OTHER_ENDINGS]
    for file in filter(Path.is_file, files):
        with file.open("rb") as content:
            head = content.read(HEAD_BYTES)
        if words := _name_other(file, head):
            return words
    return ""


def _name_other(file: Path, head: bytes) -> str:
    if pointer := LFS_POINTER.match(head):
        return (
            f"{file} is a pointer of Git LFS to a file of {pointer[1].decode()} bytes, which "
            "was not fetched: run `git lfs pull` where the version comes from, and copy it again"
        )
    for ending, start, words in OTHERS:
        if re.search(f"{ending}$", file.name, re.I) and re.match(start, head, re.S):
            return f"{file.name} is {words.replace('FILE', repr(str(file)))}"
    return ""


def refuse_lfs_pointers(version: Path) -> None:
    """Raises FailedPrecondition for what Git writes instead of a large file
    until that is fetched.
    """
    for file in sorted(version.rglob("*")):
        if not file.is_file() or file.stat().st_size > POINTER_BYTES:
            continue
        content = file.read_bytes()
        if LFS_POINTER.match(content):
            raise FailedPrecondition(_name_other(file.relative_to(version), content))


def _parse(file: Path, contents: bytes) -> saved_model_pb2.SavedModel:
    if file.name == TEXT:
        return text_format.Parse(contents.decode(), saved_model_pb2.SavedModel())
    try:
        structure = bytes(_without(CONSTANTS, memoryview(contents)))
    except (IndexError, ValueError):  # what is wrong with it, the parser says
        structure = contents
    return saved_model_pb2.SavedModel.FromString(structure)


def _without(fields: dict[int, Any], message: memoryview) -> bytearray:
    """A message in protobuf's encoding without those large fields that `fields`
    leave out. Raises IndexError or ValueError for what is none.
    """
    kept, position = bytearray(), 0
    while position < len(message):
        start = position
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if not number:  # of a file of zeros, which a copy that broke off may leave
            raise ValueError("a field without a number")
        if kind not in (VARINT, LENGTH):
            raise ValueError(f"a field of the kind {kind}")
        length, body = _varint(message, position)
        size = length if kind == LENGTH else 0
        position = body + size
        if position > len(message):
            raise IndexError("the message ends within a field")
        if kind != LENGTH or number not in fields or size <= LARGE:
            kept += message[start:position]
        elif fields[number] is not None:
            part = _without(fields[number], message[body:position])
            kept += to_varint(tag) + to_varint(len(part)) + part
    return kept


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """An integer, and the position behind it. Raises ValueError for one of more than 64 bits."""
    value = 0
    for shift in range(0, 64, 7):
        byte = message[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
    raise ValueError("an integer of more than 64 bits")


def _describe(file: Path, contents: bytes) -> str:
    """Why a file holds no graph that can be served, and what to do."""
    if not contents:
        return f"{file.name} is empty; copy the version again"
    if other := _name_other(file, contents[:HEAD_BYTES]):
        return other
    return f"{file.name} is no SavedModel, or damaged; export or copy the version again"
