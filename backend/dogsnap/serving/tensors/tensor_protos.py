"""Converts between TensorProto messages and arrays, without trusting the sizes
that a message claims.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2

from dogsnap.errors import InvalidArgument, Unimplemented
from dogsnap.serving.tensors.json_tensors import MAX_RANK
from dogsnap.serving.tensors.signatures import Arrays

STRING_BYTES = 24  # memory of a string in a tensor beside its characters
# The field of tensor.proto with the values of a dtype. Half and bfloat16 are stored as
# 16 bits in an int32, complex numbers as pairs.
FIELDS: dict[tf.DType, str] = {
    tf.float16: "half_val",
    tf.bfloat16: "half_val",
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int8: "int_val",
    tf.int16: "int_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.uint8: "int_val",
    tf.uint16: "int_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
    tf.complex64: "scomplex_val",
    tf.complex128: "dcomplex_val",
}
HALVES = (tf.float16, tf.bfloat16)
# Fields whose packed form on the wire is the memory of an array (little-endian).
FIXED_WIDTH = ("float_val", "double_val", "scomplex_val", "dcomplex_val")
PIECE = 65_536  # values that become Python objects at a time
# Of a shape, without its sizes of 0: NumPy counts the bytes of an empty array, too, up to 2^63.
MOST_VALUES = 2**58
LENGTH_DELIMITED = 2  # wire type of a packed field


def to_arrays(
    protos: Mapping[str, tensor_pb2.TensorProto],
    max_bytes: int,
    hold: Callable[[int], None] = lambda count: None,
) -> Arrays:
    """Alias -> array of the message's dtype and shape; strings as object arrays
    of bytes.

    The last value fills the rest of the tensor, as tf.make_tensor_proto writes
    it. `max_bytes` limits what is filled in all arrays together; `hold` is
    called with its bytes before they are filled. Raises InvalidArgument naming
    the alias, Unimplemented for a dtype that is not in FIELDS.
    """
    arrays = dict[str, np.ndarray]()
    for alias, proto in protos.items():
        try:
            shape = _shape(proto.tensor_shape)
            dtype = _dtype(proto.dtype)
            count = math.prod(shape)
            content = proto.tensor_content  # each access copies it
            values = read_content(content, dtype, count) if content else _read_field(proto, dtype)
            # Only values of a field are repeated; in content, as in TensorFlow, all are there.
            if content and len(values) != count:
                raise InvalidArgument(
                    f"expected {count} values for shape {list(shape)} in tensor_content, "
                    f"received {len(values)}"
                )
            bytes_to_fill = _bytes_to_fill(values, shape, max_bytes)
            hold(bytes_to_fill)
            max_bytes -= bytes_to_fill
            arrays[alias] = _fill_shape(values, shape)
        except (InvalidArgument, Unimplemented) as error:
            raise type(error)(f'tensor parsing error: input "{alias}": {error.message}') from error
    return arrays


def fill_proto(proto: tensor_pb2.TensorProto, array: np.ndarray) -> None:
    """Write an array into an empty message.

    Values go into the field of their dtype (not tensor_content), since clients
    of TensorFlow Serving read `float_val` etc.
    """
    dtype = tf.as_dtype(array.dtype)
    if dtype not in FIELDS:
        proto.CopyFrom(tf.make_tensor_proto(array))
        return
    proto.dtype = dtype.as_datatype_enum
    proto.tensor_shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
    values = array.reshape(-1)
    if dtype in HALVES:
        values = values.view(np.uint16)
    elif dtype.is_complex:
        values = values.view(values.real.dtype)
    name = FIELDS[dtype]
    if name in FIXED_WIDTH:
        _append_packed(proto, name, values)
        return
    field = getattr(proto, name)
    for start in range(0, len(values), PIECE):
        field.extend(values[start : start + PIECE].tolist())


def _append_packed(proto: tensor_pb2.TensorProto, name: str, values: np.ndarray) -> None:
    """Append values as protobuf packs them on the wire: a list of Python
    numbers takes eight times the memory.
    """
    if not len(values):
        return
    number = proto.DESCRIPTOR.fields_by_name[name].number
    data = np.ascontiguousarray(values).view(np.uint8).data
    head = to_varint(number << 3 | LENGTH_DELIMITED) + to_varint(len(data))
    proto.MergeFromString(b"".join((head, data)))


def to_varint(number: int) -> bytes:
    """A whole number in protobuf's form: seven bits in each byte, the lowest first."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def tensor_bytes(array: np.ndarray) -> int:
    """The memory of an array's values; of strings with STRING_BYTES for each."""
    if array.dtype != object:
        return array.nbytes
    return STRING_BYTES * array.size + sum(map(len, array.flat))


def _fill_shape(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The values in this shape; the last one fills the rest."""
    count = math.prod(shape)
    if len(values) == count:
        return values.reshape(shape)
    if len(values) == 1:
        return np.broadcast_to(values, shape)
    rest = np.broadcast_to(values[-1:], count - len(values))
    return np.concatenate([values, rest]).reshape(shape)


def _bytes_to_fill(values: np.ndarray, shape: tuple[int, ...], max_bytes: int) -> int:
    """The memory needed to fill the tensor with its last value; 0 if all are
    given. Raises InvalidArgument.
    """
    count = math.prod(shape)
    if len(values) == count:
        return 0
    if not 0 < len(values) < count:
        raise InvalidArgument(
            f"expected {count} values for shape {list(shape)}, or fewer, of which the last one is "
            f"repeated, received {len(values)}"
        )
    needed = count * tensor_bytes(values[-1:])
    if needed > max_bytes:
        raise InvalidArgument(
            f"one value is to fill shape {list(shape)} with {needed} bytes; at most "
            f"{max_bytes} bytes are taken "
            "(DOGSNAP_MAX_TENSOR_BODY_MB); send a smaller tensor"
        )
    return needed


def _dtype(number: int) -> tf.DType:
    try:
        dtype = tf.as_dtype(number)
    except TypeError:
        raise InvalidArgument(f"expected a DataType, received {number}") from None
    if dtype not in FIELDS:
        known = ", ".join(field_dtype.name for field_dtype in FIELDS)
        raise Unimplemented(f"{dtype.name} values are not taken; expected one of {known}")
    return dtype


def _shape(shape: tensor_shape_pb2.TensorShapeProto) -> tuple[int, ...]:
    if shape.unknown_rank:
        raise InvalidArgument("expected a shape whose every size is known, received none")
    sizes = tuple(dim.size for dim in shape.dim)
    check_shape(sizes)
    return sizes


def check_shape(shape: Sequence[int]) -> None:
    """Raises InvalidArgument for what is no shape of an array, empty or not."""
    if len(shape) > MAX_RANK or min(shape, default=0) < 0:
        raise InvalidArgument(
            f"shape is {list(shape)}; expected at most {MAX_RANK} sizes from 0 on"
        )
    if math.prod(size for size in shape if size) > MOST_VALUES:
        raise InvalidArgument(
            f"shape {list(shape)} is beyond all memory; send sizes that a tensor can have"
        )


def _read_field(proto: tensor_pb2.TensorProto, dtype: tf.DType) -> np.ndarray:
    field = getattr(proto, FIELDS[dtype])
    if dtype == tf.string:
        return np.asarray(field, object)
    received = np.asarray(field)
    if dtype.is_complex:
        return received[: len(received) // 2 * 2].view(dtype.as_numpy_dtype)
    to = np.uint16 if dtype in HALVES else dtype.as_numpy_dtype
    values = received.astype(to, copy=False)
    if values.dtype.itemsize < received.dtype.itemsize and not np.array_equal(values, received):
        raise InvalidArgument(f"a value is out of the range of {dtype.name}")
    return values.view(dtype.as_numpy_dtype)


def read_content(content: bytes, dtype: tf.DType, count: int = 0) -> np.ndarray:
    """Values in their binary form (little-endian); `count`: of strings. Raises
    InvalidArgument.
    """
    if dtype == tf.string:
        return _read_strings(content, count)
    numpy_dtype = np.dtype(dtype.as_numpy_dtype)
    if len(content) % numpy_dtype.itemsize:
        raise InvalidArgument(f"{len(content)} bytes are no whole number of {dtype.name} values")
    if dtype == tf.bool:  # bytes other than 0 and 1 would be invalid bools
        return np.frombuffer(content, np.uint8) != 0
    return np.frombuffer(content, numpy_dtype)


def _read_strings(content: bytes, count: int) -> np.ndarray:
    """`count` strings: first the length of each as a varint, then their bytes."""
    if count <= len(content):  # TensorFlow takes memory for all before it reads the first
        proto = tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum, tensor_content=content)
        proto.tensor_shape.dim.add(size=count)
        with suppress(tf.errors.InvalidArgumentError):
            return tf.io.parse_tensor(proto.SerializeToString(), tf.string).numpy()
    raise InvalidArgument(f"tensor_content does not hold {count} strings")
