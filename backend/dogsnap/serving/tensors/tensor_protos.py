"""Converts between TensorProto messages and arrays, without trusting the sizes that a message claims."""

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2

from dogsnap.errors import InvalidArgument, Unimplemented
from dogsnap.serving.tensors.json_tensors import MAX_RANK

STRING_BYTES = 24  # memory of a string in a tensor beside its characters
# The field of tensor.proto with the values of a dtype. Half and bfloat16 are stored as 16 bits in an int32, complex numbers as
# pairs.
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


def to_arrays(
    protos: Mapping[str, tensor_pb2.TensorProto], max_bytes: int
) -> dict[str, np.ndarray]:
    """Alias -> array of the message's dtype and shape; strings as object arrays of bytes.

    A single value may fill the whole tensor, as tf.make_tensor_proto writes it; `max_bytes` limits all arrays together.
    Raises InvalidArgument naming the alias, Unimplemented for a dtype that has no place in FIELDS.
    """
    arrays: dict[str, np.ndarray] = {}
    for alias, proto in protos.items():
        try:
            shape = _shape(proto.tensor_shape)
            dtype = _dtype(proto.dtype)
            content = proto.tensor_content  # each access copies it
            values = (
                _from_content(content, dtype, math.prod(shape))
                if content
                else _from_field(proto, dtype)
            )
            max_bytes -= _filled_bytes(values, shape, max_bytes)
            arrays[alias] = _shaped(values, shape)
        except (InvalidArgument, Unimplemented) as error:
            raise type(error)(f'tensor parsing error: input "{alias}": {error.message}') from error
    return arrays


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Values in the field of their dtype (not tensor_content), since clients of TensorFlow Serving read `float_val` etc."""
    dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
    if dtype not in FIELDS:
        return tf.make_tensor_proto(array)
    shape = tf.TensorShape(array.shape).as_proto()
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape)
    values = array.reshape(-1)
    if dtype in HALVES:
        values = values.view(np.uint16)
    elif dtype.is_complex:
        values = values.view(values.real.dtype)
    getattr(proto, FIELDS[dtype]).extend(values.tolist())
    return proto


def _shaped(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return (
            values.reshape(shape)
            if len(values) == math.prod(shape)
            else np.broadcast_to(values, shape)
        )
    except ValueError:  # an empty shape may have sizes beyond all memory, but not for NumPy
        raise InvalidArgument(
            f"shape {list(shape)} is beyond all memory; send sizes that a tensor can have"
        ) from None


def _filled_bytes(values: np.ndarray, shape: tuple[int, ...], max_bytes: int) -> int:
    """The memory needed to fill the tensor from a single value; 0 if all values are given. Raises InvalidArgument."""
    count = math.prod(shape)
    if len(values) == count:
        return 0
    if len(values) != 1 or count == 0:
        raise InvalidArgument(
            f"expected {count} values for shape {list(shape)}, received {len(values)}"
        )
    needed = count * (STRING_BYTES + len(values[0]) if values.dtype == object else values.itemsize)
    if needed > max_bytes:
        raise InvalidArgument(
            f"one value is to fill shape {list(shape)} with {needed} bytes; at most {max_bytes} bytes are taken "
            "(DOGSNAP_MAX_TENSOR_BODY_MB); send a smaller tensor"
        )
    return needed


def _dtype(number: int) -> tf.DType:
    try:
        dtype = tf.as_dtype(number)
    except TypeError:
        raise InvalidArgument(f"expected a DataType, received {number}") from None
    if dtype not in FIELDS:
        raise Unimplemented(
            f"{dtype.name} values are not taken; expected one of {', '.join(d.name for d in FIELDS)}"
        )
    return dtype


def _shape(shape: tensor_shape_pb2.TensorShapeProto) -> tuple[int, ...]:
    sizes = tuple(dim.size for dim in shape.dim)
    if shape.unknown_rank or any(size < 0 for size in sizes):
        raise InvalidArgument(
            "expected a shape whose every size is known, received an unknown rank or a negative size"
        )
    if len(sizes) > MAX_RANK:
        raise InvalidArgument(f"expected at most {MAX_RANK} dimensions, received {len(sizes)}")
    return sizes


def _from_field(proto: tensor_pb2.TensorProto, dtype: tf.DType) -> np.ndarray:
    field = getattr(proto, FIELDS[dtype])
    if dtype == tf.string:
        return np.fromiter(field, object, len(field))
    received = np.array(field)
    if dtype.is_complex:
        return received[: len(received) // 2 * 2].view(dtype.as_numpy_dtype)
    values = received.astype(np.uint16 if dtype in HALVES else dtype.as_numpy_dtype)
    if values.dtype.itemsize < received.dtype.itemsize and not np.array_equal(values, received):
        raise InvalidArgument(f"a value is out of the range of {dtype.name}")
    return values.view(dtype.as_numpy_dtype)


def _from_content(content: bytes, dtype: tf.DType, count: int) -> np.ndarray:
    if dtype == tf.string:
        return _strings(content, count)
    numpy_dtype = np.dtype(dtype.as_numpy_dtype)
    if len(content) % numpy_dtype.itemsize:
        raise InvalidArgument(
            f"{len(content)} bytes of tensor_content are no whole number of {dtype.name} values"
        )
    if dtype == tf.bool:  # bytes other than 0 and 1 would be invalid bools
        return np.frombuffer(content, np.uint8) != 0
    return np.frombuffer(content, numpy_dtype)


def _strings(content: bytes, count: int) -> np.ndarray:
    """`count` strings: first the length of each as a varint, then their bytes."""
    proto = tensor_pb2.TensorProto(dtype=tf.string.as_datatype_enum, tensor_content=content)
    proto.tensor_shape.dim.add(size=count)
    try:
        if count <= len(content):  # TensorFlow takes memory for all before it reads the first
            return tf.io.parse_tensor(proto.SerializeToString(), tf.string).numpy()
    except tf.errors.InvalidArgumentError:
        pass
    raise InvalidArgument(f"tensor_content does not hold {count} strings")
