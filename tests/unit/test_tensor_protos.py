"""TensorProto messages to arrays and back: every dtype, both ways of writing values, and messages that lie."""

import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.errors import InvalidArgument, Unimplemented
from dogsnap.serving.tensors.tensor_protos import FIELDS, fill_proto, to_arrays
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tensorflow.core.framework import tensor_pb2, types_pb2

MAX_BYTES = 2**20


def read(proto: tensor_pb2.TensorProto, max_bytes: int = MAX_BYTES) -> np.ndarray:
    return to_arrays({"x": proto}, max_bytes)["x"]


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    proto = tensor_pb2.TensorProto()
    fill_proto(proto, array)
    return proto


def message(dtype: tf.DType, *shape: int, **fields) -> tensor_pb2.TensorProto:
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, **fields)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


def assert_same(received: np.ndarray, expected: np.ndarray) -> None:
    assert (received.dtype, received.shape) == (expected.dtype, expected.shape)
    if expected.dtype == object:
        assert received.tolist() == expected.tolist()
    else:
        assert received.tobytes() == expected.tobytes()  # so that NaN equals itself


def some_values(dtype: tf.DType) -> np.ndarray:
    if dtype == tf.string:
        return np.array([[b"", b"a\0b\0"], ["狗".encode(), b"\xff" * 300]], dtype=object)
    if dtype == tf.bool:
        return np.array([[True, False], [False, False]])
    if dtype.is_integer:
        return np.array([[dtype.min, dtype.max], [0, 1]], dtype=dtype.as_numpy_dtype)
    return np.array([[1.5, -2], [np.inf, np.nan]]).astype(dtype.as_numpy_dtype)


@pytest.mark.parametrize("dtype", FIELDS, ids=lambda dtype: dtype.name)
def test_what_is_written_is_read_back_and_is_what_tensorflow_reads(dtype):
    values = some_values(dtype)
    proto = to_proto(values)
    assert not proto.tensor_content
    assert len(getattr(proto, FIELDS[dtype])) == values.size * (2 if dtype.is_complex else 1)
    for back in (read(proto), tf.make_ndarray(proto)):
        assert_same(back, values)


@pytest.mark.parametrize("dtype", FIELDS, ids=lambda dtype: dtype.name)
def test_what_tensorflows_python_client_writes_is_read(dtype):
    values = some_values(dtype)
    assert_same(read(tf.make_tensor_proto(values)), values)
    assert_same(read(tf.make_tensor_proto(values[0, 0], dtype)), values[:1, 0].reshape(()))
    if dtype not in (tf.string, tf.bool):
        assert_same(read(message(dtype, 2, 2, tensor_content=values.tobytes())), values)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine is no failure
@given(
    array=arrays.arrays(
        np.float32, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    )
)
def test_every_float_array_keeps_its_shape_and_its_bits(array):
    assert_same(read(to_proto(array)), array)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strings=st.lists(st.binary(max_size=400), min_size=1, max_size=5))
def test_strings_in_tensor_content_are_read_as_tensorflow_reads_them(strings):
    # As C++ clients send them: all lengths as varints, then all bytes.
    content = b"".join(varint(len(each)) for each in strings) + b"".join(strings)
    proto = message(tf.string, len(strings), tensor_content=content)
    assert read(proto).tolist() == strings
    assert tf.io.parse_tensor(proto.SerializeToString(), tf.string).numpy().tolist() == strings


def varint(number: int) -> bytes:
    head = []
    while number >= 0x80:
        head.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*head, number])


def test_a_byte_other_than_0_and_1_is_true():
    assert read(message(tf.bool, 3, tensor_content=b"\0\1\2")).tolist() == [False, True, True]


def test_one_value_stands_for_all_as_make_tensor_proto_writes_it():
    assert read(tf.make_tensor_proto(5.0, shape=[2, 3])).tolist() == [[5.0] * 3] * 2
    assert read(tf.make_tensor_proto("a", shape=[2])).tolist() == [b"a", b"a"]


@pytest.mark.parametrize("dtype", FIELDS, ids=lambda dtype: dtype.name)
def test_the_last_of_fewer_values_is_repeated_as_tensorflow_does(dtype):
    proto = to_proto(some_values(dtype).reshape(-1)[:3])
    proto.tensor_shape.CopyFrom(tf.TensorShape([2, 4]).as_proto())
    expected = tf.io.parse_tensor(proto.SerializeToString(), dtype).numpy()
    assert_same(read(proto), expected)


def test_what_is_filled_is_counted_before_it_is_filled():
    counted: list[int] = []
    proto = message(tf.float32, 25, float_val=[1.0, 2.0])
    to_arrays({"a": proto, "b": message(tf.float32, 1, float_val=[1])}, 1000, counted.append)
    assert counted == [25 * 4, 0]


def test_an_array_is_written_in_little_more_memory_than_it_has():
    tracemalloc.start()
    to_proto(np.zeros(1_000_000, np.float32))
    of_floats = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    to_proto(np.zeros(1_000_000, np.int32))
    of_integers = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert of_floats < 3 * 4_000_000
    assert of_integers < 3 * 4_000_000


def test_one_value_may_fill_no_more_memory_than_a_message_could_and_all_inputs_share_it():
    assert read(message(tf.float32, 25, float_val=[1.0]), max_bytes=100).shape == (25,)
    with pytest.raises(InvalidArgument, match="with 104 bytes; at most 100 bytes are taken"):
        read(message(tf.float32, 26, float_val=[1.0]), max_bytes=100)
    half = message(tf.float32, 15, float_val=[1.0])
    with pytest.raises(InvalidArgument, match=r'input "b": .* at most 40 bytes'):
        to_arrays({"a": half, "b": half}, 100)


WRONG = {
    "more values than the shape says": (message(tf.float32, 1, float_val=[1, 2]), "received 2"),
    "no values": (message(tf.float32, 2), "received 0"),
    "values for an empty shape": (message(tf.float32, 0, float_val=[1]), "expected 0 values"),
    "values in the field of another dtype": (
        message(tf.float32, 2, double_val=[1, 2]),
        "received 0",
    ),
    "a shape beyond all memory": (
        message(tf.float32, 2**40, 2**40, float_val=[1]),
        "is beyond all memory",
    ),
    "a very large shape": (
        message(tf.float32, 2**20, 2**20, float_val=[1]),
        "at most 1048576 bytes",
    ),
    "a very large shape, of strings": (
        message(tf.string, 2**50, string_val=[b"a"]),
        "at most 1048576 bytes",
    ),
    "a very large shape, in content": (
        message(tf.float32, 2**50, tensor_content=b"\0" * 8),
        "received 2",
    ),
    "an empty shape beyond all memory": (message(tf.float32, 0, 2**62), "is beyond all memory"),
    "very many strings in little content": (
        message(tf.string, 2**50, tensor_content=b"\1\1aa"),
        "does not hold",
    ),
    "more strings than a size can say": (
        message(tf.string, 2**40, 2**40, tensor_content=b"\1\1aa"),
        "is beyond all memory",
    ),
    "a negative size": (message(tf.float32, -1, float_val=[1]), "sizes from 0 on"),
    "an unknown rank": (
        tensor_pb2.TensorProto(dtype=1, tensor_shape={"unknown_rank": True}),
        "every size is known",
    ),
    "too many dimensions": (message(tf.float32, *[1] * 33, float_val=[1]), "at most 32 sizes"),
    "half a float": (
        message(tf.float32, 1, tensor_content=b"\0" * 3),
        "no whole number of float32 values",
    ),
    "half a complex number": (message(tf.complex64, 1, scomplex_val=[1]), "received 0"),
    "strings that are longer than they are": (
        message(tf.string, 1, tensor_content=b"\5abc"),
        "does not hold",
    ),
    "strings that are shorter than they are": (
        message(tf.string, 1, tensor_content=b"\1abc"),
        "does not hold",
    ),
    "a length without an end": (
        message(tf.string, 1, tensor_content=b"\xff" * 30),
        "does not hold",
    ),
    "300 as int8": (message(tf.int8, 1, int_val=[300]), "out of the range of int8"),
    "-1 as uint8": (message(tf.uint8, 1, int_val=[-1]), "out of the range of uint8"),
    "70000 as bits of a half": (
        message(tf.float16, 1, half_val=[70000]),
        "out of the range of float16",
    ),
    "no dtype": (tensor_pb2.TensorProto(), "expected a DataType, received 0"),
    "a dtype that is none": (
        tensor_pb2.TensorProto(dtype=999),
        "expected a DataType, received 999",
    ),
}


@pytest.mark.parametrize(("proto", "error"), WRONG.values(), ids=WRONG)
def test_a_message_that_does_not_hold_what_it_claims_is_refused(proto, error):
    with pytest.raises(InvalidArgument, match=error) as raised:
        read(proto)
    assert raised.value.message.startswith('tensor parsing error: input "x": ')


@pytest.mark.parametrize("dtype", [tf.resource, tf.variant, tf.qint8])
def test_a_dtype_that_is_not_taken_is_refused_with_those_that_are(dtype):
    with pytest.raises(
        Unimplemented, match=f"{dtype.name} values are not taken; expected one of float16, bfloat16"
    ):
        read(message(dtype, 1))


def test_an_output_of_a_rare_dtype_is_written_in_tensorflows_own_way():
    values = np.array([1, -2], dtype=tf.as_dtype(types_pb2.DT_INT4).as_numpy_dtype)
    assert tf.make_ndarray(to_proto(values)).tolist() == [1, -2]
