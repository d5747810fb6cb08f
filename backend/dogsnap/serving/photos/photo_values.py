"""Applies the limits for photos to photos inside string tensors, where a
model's graph decodes them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2

from dogsnap.errors import InvalidArgument, UnsupportedPhoto
from dogsnap.serving.execution.executor import check_deadline
from dogsnap.serving.photos import photo
from dogsnap.serving.photos.base64_text import (
    decode_base64,
    first_bytes,
    to_web_safe_base64,
    web_safe,
)
from dogsnap.serving.photos.hostile_files import (
    GIF,
    JPEG,
    PNG,
    check_structure,
    first_frame,
    gif_pixels,
)
from dogsnap.serving.photos.photo import Photo
from dogsnap.serving.tensors.signatures import Arrays

# The magic bytes by which TensorFlow recognises pictures (ClassifyFileFormat in
# decode_image_op.cc).
BMP = b"BM"
JPEG_XL = (b"\xff\n", b"\0\0\0\x0cJXL ")
STARTS = (JPEG, PNG, b"GIF8", BMP, *JPEG_XL)
OPERATIONS = {
    "DecodeImage",
    "DecodeJpeg",
    "DecodeAndCropJpeg",
    "DecodePng",
    "DecodeBmp",
    "DecodeGif",
    "DecodeJxl",
    "DecodeWebP",
}
OF_ALL_FRAMES = {"DecodeGif", "DecodeWebP"}
CALLS = ("PartitionedCall", "StatefulPartitionedCall")  # whose inputs are the function's arguments
# Bytes; enough for TensorFlow to recognise the format and refuse it with its own message.
KEPT_OF_NO_PHOTO = 16
# The tags of tf.Example's one field, and of the other of tf.SequenceExample.
EXAMPLE_STARTS = (b"\n", b"\x12")


@dataclass(frozen=True)
class Decoding:
    """Whether a graph decodes pictures, and whether it reads more than the
    first frame.

    `tensors`: the names of the inputs that reach a decoder; None if that is not
    known. `base64`: it decodes base64 text.
    """

    pictures: bool = False
    frames: bool = False
    tensors: frozenset[str] | None = None
    base64: bool = False

    @classmethod
    def of(cls, graph: graph_pb2.GraphDef, inputs: Iterable[str] = ()) -> "Decoding":
        """From the operations in a graph and its functions; `inputs`: the names
        of the signatures' tensors.
        """
        nodes = list(graph.node)
        for function in graph.library.function:
            nodes.extend(function.node_def)
        operations = {node.op for node in nodes}
        found = operations & OPERATIONS
        # A SavedModel omits attributes with default values; this one's default is True.
        expands = any(
            node.op == "DecodeImage"
            and ("expand_animations" not in node.attr or node.attr["expand_animations"].b)
            for node in nodes
        )
        reaching = {name for name in inputs if found and _reaches_decoder(graph, name)}
        frames = bool(found & OF_ALL_FRAMES) or expands
        return cls(bool(found), frames, frozenset(reaching), "DecodeBase64" in operations)


def _reaches_decoder(graph: graph_pb2.GraphDef, tensor: str) -> bool:
    """Whether something that depends on a tensor is decoded as a picture;
    rather yes than no.
    """
    functions = {body.signature.name: body for body in graph.library.function}
    visited = set[tuple[str, frozenset[str]]]()
    waiting = [(graph.node, frozenset([_node_name(tensor)]))]
    while waiting:
        nodes, starts = waiting.pop()
        for node, positions in _dependent(nodes, starts):
            if node.op in OPERATIONS:
                return True
            calls = [call.name for call in called_functions(node)]
            for name in [node.op, *calls]:  # in graphs of TensorFlow 1 a function is an operation
                if name not in functions:
                    continue
                function = functions[name]
                arguments = [argument.name for argument in function.signature.input_arg]
                if node.op in CALLS:
                    arguments = [arguments[index] for index in positions if index < len(arguments)]
                call = name, frozenset(arguments)
                if call not in visited:
                    visited.add(call)
                    waiting.append((function.node_def, call[1]))
    return False


def _dependent(
    nodes: Sequence[node_def_pb2.NodeDef], starts: frozenset[str]
) -> list[tuple[node_def_pb2.NodeDef, set[int]]]:
    """The nodes that depend on those named, or on these arguments, each with
    the inputs by which it does.
    """
    readers = defaultdict[str, list[tuple[node_def_pb2.NodeDef, int]]](list)
    for node in nodes:
        for index, edge in enumerate(node.input):
            readers[_node_name(edge)].append((node, index))
    found = dict[str, tuple[node_def_pb2.NodeDef, set[int]]]()
    waiting = list(starts)
    while waiting:
        for node, index in readers[waiting.pop()]:
            if node.name not in found:
                found[node.name] = node, set()
                waiting.append(node.name)
            found[node.name][1].add(index)
    return list(found.values())


def called_functions(node: node_def_pb2.NodeDef) -> Iterator[attr_value_pb2.NameAttrList]:
    """What the attributes of a node call: the `f` of a call, or the branches of a condition."""
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func
        yield from value.list.func


def _node_name(edge: str) -> str:
    """Of the node, or argument, of which an edge is an output: x:0, body:output:0, ^x."""
    return edge.removeprefix("^").partition(":")[0]


def check_and_cut_photos(arrays: Arrays, decoding: Decoding, max_pixels: int) -> tuple[Arrays, int]:
    """Check the photos in string arrays against the limits: file bytes, base64
    text, or tf.Examples with file bytes.

    Returns the values for the graph: the same ones, but GIFs cut after the
    first frame if the graph reads no other. Values that look like a picture but
    have no readable header are cut to a few bytes, in case the graph could
    decode them. Returns also how many pixels the graph decodes. Raises TooLarge,
    UnsupportedPhoto as `check_structure` does and for JPEG XL, and InvalidArgument
    for an animated WebP.
    """
    check = _PhotoCheck(decoding, max_pixels)
    seen = {alias: _each(values, check.cut_value) for alias, values in arrays.items()}
    photo.check_together(check.photos, max_pixels)
    return seen, sum(each.pixels for each in check.photos)


def check_base64(arrays: Arrays) -> None:
    """Raises InvalidArgument for the first string that is no base64 text, with
    what it is instead, and DeadlineExceeded when time is up.
    """
    for alias, values in arrays.items():
        for place, value in enumerate(np.ravel(values)):
            check_deadline()
            try:
                decode_base64(value)
            except InvalidArgument as error:
                raise InvalidArgument(f'input "{alias}", value {place}: {error}') from None


def decode_photos(texts: np.ndarray) -> np.ndarray | None:
    """The photos for base64 texts or, from {"b64": ...}, for their bytes, (n,)
    -> (n,); None unless all are photos.
    """
    try:
        contents = _each(texts, lambda value: value if is_photo(value) else decode_base64(value))
    except InvalidArgument:
        return None
    return contents if all(map(is_photo, contents.flat)) else None


def encode_photos(values: np.ndarray) -> np.ndarray:
    """Photos as the base64 text that a graph decodes; other values stay."""
    return _each(values, lambda value: to_web_safe_base64(value) if is_photo(value) else value)


def is_base64_of_photo(value: bytes) -> bool:
    """Whether a string is base64 text of a photo; its beginning tells."""
    return not is_photo(value) and is_photo(first_bytes(value))


def _each(values: np.ndarray, change: Callable[[bytes], bytes]) -> np.ndarray:
    """The values after `change`, in the same shape.

    Raises DeadlineExceeded when time is up.
    """
    values = np.asarray(values, dtype=object)
    changed = np.empty(values.size, object)
    for index, value in enumerate(values.flat):
        check_deadline()
        changed[index] = change(value)
    return changed.reshape(values.shape)


def is_photo(contents: bytes) -> bool:
    """Whether a string begins like a file that TensorFlow's decoders take."""
    return contents.startswith(STARTS) or (
        contents.startswith(b"RIFF") and contents[8:12] == b"WEBP"
    )


class _PhotoCheck:
    """Checks values one by one; `photos`: those that the graph decodes."""

    def __init__(self, decoding: Decoding, max_pixels: int):
        self._decoding = decoding
        self._max_pixels = max_pixels
        self.photos: list[Photo] = []

    def cut_value(self, value: bytes) -> bytes:
        """What the graph gets of it."""
        # What starts like a tf.Example may also be base64 text after a line break.
        return self._cut_string(self._cut_example(value))

    def _cut_example(self, value: bytes) -> bytes:
        """A tf.Example or tf.SequenceExample with checked pictures; any other value
        unchanged.

        It is serialized again: of a feature that occurs twice TensorFlow reads the
        first, protobuf the last. Raises InvalidArgument for one that only
        TensorFlow can parse.
        """
        if not value.startswith(EXAMPLE_STARTS):
            return value
        try:  # a tf.Example is a SequenceExample without feature_lists
            example = tf.train.SequenceExample.FromString(value)
        except DecodeError:
            nothing = {"": tf.io.VarLenFeature(tf.string)}
            try:  # TensorFlow's parser, unlike protobuf's, accepts feature names that are not UTF-8
                tf.io.parse_sequence_example([value], nothing, nothing)
            except tf.errors.OpError:
                return value
            raise InvalidArgument(
                "a tf.Example cannot be read: expected the names of its features in UTF-8; "
                "serialize it again"
            ) from None
        features = list(example.context.feature.values())
        for row in example.feature_lists.feature_list.values():
            features += row.feature
        for feature in features:
            if feature.HasField("bytes_list"):
                strings = feature.bytes_list.value
                strings[:] = list(map(self._cut_string, strings))
        return example.SerializeToString(deterministic=True) if features else value

    def _cut_string(self, value: bytes) -> bytes:
        check_deadline()
        if is_photo(value):
            return self._cut_picture(value)
        try:
            contents = decode_base64(value)
        except InvalidArgument:
            return value
        if not is_photo(contents):
            return value
        seen = self._cut_picture(contents)
        return web_safe(value) if seen is contents else to_web_safe_base64(seen)

    def _cut_picture(self, contents: bytes) -> bytes:
        check_structure(contents)
        if contents[8:16] == b"WEBPVP8X" and contents[20:21] and contents[20] & 0x02:
            # TensorFlow 2.21 writes out of bounds and crashes when it decodes one with channels=0.
            raise InvalidArgument(
                "an animated WebP cannot be decoded; send one picture of it, or a GIF"
            )
        reads_frames = self._decoding.frames
        contents = contents if reads_frames else first_frame(contents)
        try:
            found = photo.check_header(contents, self._max_pixels)
        except UnsupportedPhoto:  # a BMP needs no cut: TensorFlow refuses incomplete ones
            if contents.startswith(JPEG_XL):  # a whole one may have fewer bytes, and any size
                raise
            return contents if contents.startswith(BMP) else contents[:KEPT_OF_NO_PHOTO]
        if reads_frames and contents.startswith(GIF):
            found.pixels = gif_pixels(contents, self._max_pixels)
            photo.check_pixels(found.pixels, 1, self._max_pixels)
        self.photos.append(found)
        photo.check_count(len(self.photos))
        return contents
