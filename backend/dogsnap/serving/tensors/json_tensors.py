"""Converts between JSON and arrays as TensorFlow Serving's REST API does, with
the phrases of its error messages.
"""

import base64
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import orjson
import tensorflow as tf

from dogsnap.errors import InvalidArgument, Unimplemented
from dogsnap.serving.photos.base64_text import decode_base64
from dogsnap.serving.tensors.signatures import BYTES_SUFFIX, INTEGERS, Arrays, Signature

SHOWN_BYTES = 256  # how much of a request an error text repeats, as TensorFlow Serving does
# Of the bytes of a photo, which tell nobody anything; few characters are repeated as
# TensorFlow Serving does.
BASE64_SHOWN, FEW_CHARACTERS = '{"b64": ...}', 16
MAX_RANK = 32  # dimensions; NumPy holds at most 64
# The JSON types (in Python) of each tensor type, and bytes. Unlike in Python, a bool is
# not a number here.
JSON_TYPES: dict[tf.DType, frozenset[type]] = {
    tf.float32: frozenset((int, float)),
    tf.float64: frozenset((int, float)),
    tf.bool: frozenset((bool,)),
    tf.string: frozenset((str, bytes, dict)),
    **{dtype: frozenset((int,)) for dtype in INTEGERS},
}
# The longest text of a number and a comma.
MOST_DIGITS = {
    "bool": 6,
    "int8": 5,
    "uint8": 4,
    "int16": 7,
    "uint16": 6,
    "int32": 12,
    "float32": 16,
}
# Of a string as a Python object, with quotes and a comma, or as {"b64": ...}.
MOST_STRING_BYTES = 80
ROW_BYTES = 200  # of an output's value in the object of one row
TYPE_NAMES = {
    type(None): "Null",
    dict: "Object",
    list: "Array",
    str: "String",
    bytes: "String",  # of a gRPC message
    int: "Number",
    float: "Number",
}


class OtherInputs(InvalidArgument):
    """The request names `received`, which are not the inputs of the signature;
    they may be those of another one.
    """

    def __init__(self, message: str, received: Iterable[str]):
        super().__init__(message)
        self.received = frozenset(received)


def from_body(body: Mapping[str, Any], signature: Signature) -> Arrays:
    """The inputs of a predict request's body, from "instances" (rows) or
    "inputs" (columns). Raises InvalidArgument.
    """
    if "instances" in body and "inputs" in body:
        raise InvalidArgument(
            f"JSON Value: {show(body)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    if "instances" in body:
        rows = body["instances"]
        if not isinstance(rows, list):
            raise InvalidArgument(
                f"JSON Value: {show(body)} Expecting 'instances' to be an list/array"
            )
        if not rows:
            raise InvalidArgument(f"JSON Value: {show(body)} No values in 'instances' array")
        return from_rows(rows, signature)
    if "inputs" in body:
        return from_columns(body["inputs"], signature)
    raise InvalidArgument("Missing 'inputs' or 'instances' key")


def from_rows(rows: list[Any], signature: Signature) -> Arrays:
    as_objects = _is_object(rows[0])
    if not as_objects:
        alias = _only_input(signature, "instances is a plain list, but expecting list of objects")
    for number, row in enumerate(rows):
        if _is_object(row) != as_objects:
            wanted, got = ("object", "list") if as_objects else ("value/list", "object")
            raise InvalidArgument(
                f"Expecting {wanted} but got {got} at item {number} of input list"
            )
    if not as_objects:
        return {alias: _stack(rows, signature.inputs[alias].dtype, "")}
    for number, row in enumerate(rows):
        _check_row_keys(number, row, rows[0], signature)
    arrays = {}
    for alias, spec in signature.inputs.items():
        if alias in rows[0]:
            values = [row[alias] for row in rows]
            arrays[alias] = _stack(values, spec.dtype, f"key: {alias} ")
    return arrays


def _only_input(signature: Signature, sentence: str) -> str:
    """The input of a value that comes without a name: a request has to give no other."""
    aliases = list(signature.inputs)
    if not aliases:
        raise InvalidArgument(
            f"Failed to get input map for signature: {signature.name}; it has no inputs, send {{}}"
        )
    if len(aliases) > 1:
        aliases = signature.required_inputs()
    if len(aliases) != 1:
        raise InvalidArgument(
            f"{sentence} as multiple input tensors required as per tensorinfo_map; "
            f"expected inputs: {_aliases(signature)}"
        )
    return aliases[0]


def _check_row_keys(
    number: int, row: Mapping[str, Any], first: Mapping[str, Any], signature: Signature
) -> None:
    for alias in row:
        if alias not in signature.inputs:
            raise OtherInputs(
                f"Failed to process element: {number} key: {alias} of 'instances' list. "
                "Error: INVALID_ARGUMENT: "
                f"JSON object: does not have named input: {alias}; expected inputs: "
                f"{_aliases(signature)}",
                row,
            )
    required = set(signature.required_inputs())
    if row.keys() != first.keys() or not row.keys() >= required:
        raise InvalidArgument(
            f"Failed to process element: {number} of 'instances' list. JSON object: {show(row)} "
            f"keys must be equal to: {_aliases(signature)}"
        )


def from_columns(
    value: Any, signature: Signature, field: str = "inputs", takes_floats: bool = False
) -> Arrays:
    """One array per input, each with its own shape; keys that are no input are
    ignored. `takes_floats`: see `to_array`. Raises InvalidArgument.
    """
    if not _is_object(value):
        alias = _only_input(signature, "inputs is a plain value/list, but expecting an object")
        value = {alias: value}
    for alias in signature.required_inputs():
        if alias not in value:
            raise OtherInputs(
                f"Missing named input: {alias} in '{field}' object. Expected inputs: "
                f"{_aliases(signature)}",
                value,
            )
    arrays = {}
    for alias, spec in signature.inputs.items():
        if alias in value:
            arrays[alias] = to_array(value[alias], spec.dtype, takes_floats)
    return arrays


def from_data(data: Any, signature: Signature, base64_decode: bool = False) -> Arrays:
    """The columns of Simple TensorFlow Serving. Raises InvalidArgument.

    Its clients send a single photo to graphs without a batch dimension; here
    every input has one, so it is a batch of one. And they send 1.0 for 1.
    """
    if not isinstance(data, dict):
        raise InvalidArgument(
            f"data is a JSON {type_name(data)}; expected an object by input: {_aliases(signature)}"
        )
    columns = dict(from_columns(data, signature, "data", takes_floats=True))
    for alias, column in columns.items():
        spec = signature.inputs[alias]
        if base64_decode and column.dtype == object:
            texts = map(decode_base64, column.flat)
            columns[alias] = np.fromiter(texts, object, column.size).reshape(column.shape)
        if spec.shape.rank == column.ndim + 1:
            columns[alias] = columns[alias][np.newaxis]
    return columns


def takes(signature: Signature, data: Any) -> bool:
    """Whether `data` has every input of the signature, by name and by kind of
    value (its first one).
    """
    if not isinstance(data, dict) or not set(signature.required_inputs()) <= set(data):
        return False
    for alias, spec in signature.inputs.items():
        if alias not in data:
            continue
        value = data[alias]
        while isinstance(value, list) and value:
            value = value[0]
        if type(_as_whole(value, spec.dtype)) not in JSON_TYPES.get(spec.dtype, ()):
            return False
    return True


def _as_whole(value: Any, dtype: tf.DType) -> Any:
    """1.0 as 1 where whole numbers are expected; any other value as it is."""
    is_whole = dtype in INTEGERS and type(value) is float and value.is_integer()
    return int(value) if is_whole else value


def to_array(value: Any, dtype: tf.DType, takes_floats: bool = False) -> np.ndarray:
    """A JSON value (scalar or nested lists of equal sizes) as an array of
    `dtype`; strings as an object array of bytes.

    `takes_floats`: 1.0 is taken for a whole number. Raises InvalidArgument for a
    wrong type or ragged lists, Unimplemented for a dtype that JSON has no form for.
    """
    if dtype not in JSON_TYPES:
        raise Unimplemented(f"Conversion of JSON Value: {show(value)} to type: {_name(dtype)}")
    shape = _shape(value)
    leaves = _leaves(value, shape, dtype, takes_floats)
    try:
        with np.errstate(over="ignore"):  # larger values become infinity, as in TensorFlow Serving
            if dtype == tf.string:
                return np.fromiter(map(to_bytes, leaves), object, len(leaves)).reshape(shape)
            return np.array(leaves, dtype=dtype.as_numpy_dtype).reshape(shape)
    except OverflowError:
        raise InvalidArgument(
            f"JSON Value: {show(value)} Type: Number is not of expected type: "
            f"{_name(dtype)}; a value is out of its range"
        ) from None


def _stack(values: list[Any], dtype: tf.DType, where: str) -> np.ndarray:
    """The rows' values with a new first dimension.

    Raises InvalidArgument naming the first wrong row.
    """
    try:
        return to_array(values, dtype)
    except (InvalidArgument, Unimplemented) as error:
        number, message = _find_first_fault(values, dtype)
        raise InvalidArgument(
            f"Failed to process element: {number} {where}of 'instances' list. "
            f"Error: {message or error.message}"
        ) from None


def _find_first_fault(values: list[Any], dtype: tf.DType) -> tuple[int, str]:
    """The number of the first wrong row, and what is wrong; 0 and "" if each
    row is right alone.
    """
    start, end = 0, len(values)  # the first wrong row lies between
    while end - start > 1:
        middle = (start + end) // 2
        try:
            to_array([values[0], *values[start:middle]], dtype)
            start = middle
        except (InvalidArgument, Unimplemented):
            end = middle
    try:
        _check_like(to_array(values[0], dtype), to_array(values[start], dtype))
    except (InvalidArgument, Unimplemented) as error:
        return start, f"{error.code}: {error.message}"
    return 0, ""


def _check_like(first: np.ndarray, array: np.ndarray) -> None:
    if array.size != first.size:
        raise InvalidArgument(f"Expecting tensor size: {first.size} but got: {array.size}")
    if array.shape != first.shape:
        raise InvalidArgument(f"Expecting shape {_dims(first.shape)} but got: {_dims(array.shape)}")


def _shape(value: Any) -> tuple[int, ...]:
    """The sizes along the first element of each list; `_leaves` checks the others."""
    sizes = []
    while isinstance(value, list):
        sizes.append(len(value))
        if len(sizes) > MAX_RANK:
            raise InvalidArgument(
                f"expected lists nested at most {MAX_RANK} deep, received deeper ones"
            )
        if not value:
            break
        value = value[0]
    return tuple(sizes)


def _leaves(value: Any, shape: tuple[int, ...], dtype: tf.DType, takes_floats: bool) -> list[Any]:
    """The values in row-major order.

    Raises InvalidArgument for the first one of another level, size or type.
    """
    rank = len(shape)
    types = JSON_TYPES[dtype]
    level = [value]
    for depth, size in enumerate(shape):
        if set(map(type, level)) - {list}:
            wrong = next(item for item in level if not isinstance(item, list))
            raise InvalidArgument(
                f"JSON Value: {show(wrong)} found at incorrect level: {depth + 1} in the JSON DOM. "
                f"Expected at level: {rank}"
            )
        if set(map(len, level)) - {size}:
            wrong = next(len(item) for item in level if len(item) != size)
            raise InvalidArgument(
                f"Encountered list at unexpected size: {wrong} at level: {depth} "
                f"expected size: {size}"
            )
        level = list(chain.from_iterable(level))
    if takes_floats and dtype in INTEGERS:
        level = [_as_whole(item, dtype) for item in level]
    if set(map(type, level)) - types:
        wrong = next(item for item in level if type(item) not in types)
        if isinstance(wrong, list):
            raise InvalidArgument(f"Encountered list at unexpected level: {rank} expected < {rank}")
        is_long = is_base64(wrong) and len(wrong["b64"]) > FEW_CHARACTERS
        shown = BASE64_SHOWN if is_long else show(wrong)
        raise InvalidArgument(
            f"JSON Value: {shown} Type: {type_name(wrong)} is not of expected type: {_name(dtype)}"
        )
    return level


def to_bytes(value: str | bytes | Mapping[str, Any]) -> bytes:
    """A JSON string as its UTF-8 bytes, or the bytes in {"b64": ...}; bytes as
    they are. Raises InvalidArgument.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not is_base64(value):
        raise InvalidArgument(f"JSON Value: {show(value)} not formatted correctly for base64 data")
    return decode_base64(value["b64"])


def is_base64(value: Any) -> bool:
    """Whether a JSON value encodes bytes: an object with the single member
    "b64", a string.
    """
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_base64(value)


def show(value: Any) -> str:
    try:
        text = orjson.dumps(value)
    except (TypeError, ValueError):  # numbers or nesting that cannot be written as JSON
        text = repr(value).encode("utf-8", "replace")
    return text[:SHOWN_BYTES].decode("utf-8", "ignore")


def type_name(value: Any) -> str:
    """The JSON type of a value, in the words of TensorFlow Serving."""
    return str(value) if isinstance(value, bool) else TYPE_NAMES[type(value)]


def _name(dtype: tf.DType) -> str:
    return {"float32": "float", "float64": "double", "float16": "half"}.get(dtype.name, dtype.name)


def _dims(shape: Iterable[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _aliases(signature: Signature) -> str:
    return ",".join(sorted(signature.inputs))


def most_json_bytes(outputs: Arrays, by_rows: bool) -> int:
    """At most how much memory the outputs take as JSON, with the objects that
    rows of several outputs become on the way.
    """
    total = 0
    for alias, value in outputs.items():
        lists = sum(math.prod(value.shape[:depth]) for depth in range(value.ndim))
        total += 3 * lists + _most_text(value)
        if by_rows and len(outputs) > 1:
            total += len(value) * (ROW_BYTES + len(alias)) if value.ndim else 0
    return total


def _most_text(value: np.ndarray) -> int:
    """The longest text of an array's values, each with a comma."""
    if value.dtype == object:
        return sum(MOST_STRING_BYTES + 6 * len(text) for text in value.flat)  # 6: \u0000
    return MOST_DIGITS.get(value.dtype.name, 25) * value.size


def to_rows(outputs: Arrays) -> Any:
    """The outputs row by row: bare values for one output, else objects.

    Raises InvalidArgument without a common batch.
    """
    batch = None
    for alias, value in outputs.items():
        if value.ndim == 0:
            raise InvalidArgument(f"Tensor name: {alias} has no shape information ")
        batch = len(value) if batch is None else batch
        if len(value) != batch:
            raise InvalidArgument(
                f"Tensor name: {alias} has inconsistent batch size: {len(value)} expecting: {batch}"
            )
    columns = to_columns(outputs)
    if len(outputs) == 1:
        return columns
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def to_members(outputs: Arrays) -> dict[str, Any]:
    """The outputs as an object by alias."""
    return {alias: to_json(alias, value) for alias, value in outputs.items()}


def to_columns(outputs: Arrays) -> Any:
    """The outputs as they are: the bare value for one output, else an object by alias."""
    columns = to_members(outputs)
    return next(iter(columns.values())) if len(columns) == 1 else columns


def to_json(alias: str, value: np.ndarray) -> Any:
    """An output as what orjson writes: numeric arrays as they are, strings as
    nested lists.

    Strings of an alias that ends in _bytes become {"b64": ...}, and so do
    strings that are no UTF-8 text, which JSON could not carry. Raises
    InvalidArgument for a dtype that JSON has no form for.
    """
    if value.dtype == object:
        as_bytes = alias.endswith(BYTES_SUFFIX)
        texts = (_string(text, as_bytes) for text in value.flat)
        return np.fromiter(texts, object, value.size).reshape(value.shape).tolist()
    if tf.as_dtype(value.dtype) not in JSON_TYPES:
        raise InvalidArgument(
            f"Failed to write JSON value for tensor type: {_name(tf.as_dtype(value.dtype))} "
            f'(output "{alias}"; gRPC has a form for it)'
        )
    return np.ascontiguousarray(value) if value.ndim else value.item()


def _string(value: bytes, as_bytes: bool) -> str | dict[str, str]:
    with suppress(UnicodeDecodeError):
        if not as_bytes:
            return value.decode("utf-8")
    return {"b64": base64.b64encode(value).decode("ascii")}
