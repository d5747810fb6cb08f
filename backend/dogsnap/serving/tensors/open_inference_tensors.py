"""Tensors of the Open Inference Protocol: types, values in lists or in their binary form."""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.errors import InvalidArgument, Unimplemented
from dogsnap.serving.photos.base64_text import decode_base64
from dogsnap.serving.tensors.json_tensors import JSON_TYPES, to_array
from dogsnap.serving.tensors.signatures import INTEGERS
from dogsnap.serving.tensors.tensor_protos import check_shape, read_content

TYPES = {
    **{dtype.name.upper(): dtype for dtype in (tf.bool, *INTEGERS)},
    "FP16": tf.float16,
    "BF16": tf.bfloat16,
    "FP32": tf.float32,
    "FP64": tf.float64,
    "BYTES": tf.string,
}
DATATYPES = {dtype: datatype for datatype, dtype in TYPES.items()}
LENGTH = struct.Struct("<I")  # before each string of a tensor in its binary form


@dataclass(frozen=True)
class Tensor:
    """An input as it came. `data`: a list of its values, nested or not, or their binary
    form; `is_base64`: its strings are base64 text.
    """

    name: str
    datatype: str
    shape: Sequence[int]
    data: Sequence[Any] | memoryview
    is_base64: bool = False

    def array(self, rank: int | None = None) -> np.ndarray:
        """The values in the tensor's shape; strings as objects. Raises InvalidArgument.

        Strings (n, 1), as MLServer's codecs write them, are (n,) for an input
        of rank 1.
        """
        shape = tuple(self.shape)
        try:
            values = self._values()
            if values.size != math.prod(shape):
                raise InvalidArgument(
                    f"shape {list(shape)} takes {math.prod(shape)} values, received {values.size}"
                )
        except InvalidArgument as error:
            raise InvalidArgument(f'input "{self.name}": {error.message}') from error
        is_column = values.dtype == object and rank == 1 and shape[1:] == (1,)
        return values.reshape(-1 if is_column else shape)

    def _values(self) -> np.ndarray:
        """All values in one dimension."""
        if self.datatype not in TYPES:
            names = ", ".join(TYPES)
            raise InvalidArgument(f"datatype is {self.datatype!r}; expected one of {names}")
        check_shape(self.shape)
        dtype = TYPES[self.datatype]
        if isinstance(self.data, memoryview):
            if dtype == tf.string:
                return _split_strings(self.data, math.prod(self.shape))
            return read_content(bytes(self.data), dtype)
        if dtype not in JSON_TYPES:
            raise InvalidArgument(f"{self.datatype} is taken in binary form alone")
        values = to_array(list(self.data), dtype).reshape(-1)
        if self.is_base64 and dtype == tf.string:
            return np.fromiter(map(decode_base64, values), object, values.size)
        return values


def _split_strings(raw: memoryview, count: int) -> np.ndarray:
    strings = []
    start = 0
    while start + LENGTH.size <= len(raw):
        (length,) = LENGTH.unpack_from(raw, start)
        start += LENGTH.size
        strings.append(bytes(raw[start : start + length]))
        start += length
    if start != len(raw) or len(strings) != count:
        raise InvalidArgument(f"expected {count} strings, each behind its length in 4 bytes")
    return np.fromiter(strings, object, count)


def to_raw(array: np.ndarray) -> bytes:
    """The binary form of values: row-major, little-endian; strings behind their lengths."""
    if array.dtype != object:
        return array.tobytes()
    return b"".join(LENGTH.pack(len(value)) + value for value in array.flat)


def describe_output(name: str, array: np.ndarray) -> dict[str, Any]:
    """Its name, datatype and shape. Raises Unimplemented."""
    dtype = tf.as_dtype(array.dtype)
    if dtype not in DATATYPES:
        raise Unimplemented(f'output "{name}" has the type {dtype.name}, which the protocol lacks')
    return {"name": name, "datatype": DATATYPES[dtype], "shape": list(array.shape)}


def describe_specs(specs: Mapping[str, tf.TensorSpec]) -> list[dict[str, Any]]:
    """Those of a type that the protocol has; -1 is any size."""
    described = []
    for name, spec in specs.items():
        if spec.dtype in DATATYPES:
            sizes = [None] if spec.shape.rank is None else spec.shape.as_list()
            shape = [-1 if size is None else size for size in sizes]
            described.append({"name": name, "datatype": DATATYPES[spec.dtype], "shape": shape})
    return described
