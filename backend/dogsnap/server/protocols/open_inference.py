"""The Open Inference Protocol (KServe's v2), what HTTP and gRPC share: tensors,
metadata, and the work of a request.

MLServer, Triton, OpenVINO Model Server and KServe speak it, too. A version is a
number or a label.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as version_of
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.errors import InvalidArgument, Unimplemented
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.inference.executor import IsGone
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.inference.request_kinds import (
    Photos,
    Prediction,
    Values,
    Work,
    check_output_filter,
)
from dogsnap.serving.photos import photo_values
from dogsnap.serving.tensors.json_tensors import MAX_RANK, OtherInputs
from dogsnap.serving.tensors.signatures import DEFAULT_SIGNATURE, Signature

BYTES = "BYTES"
TYPES = {
    "BOOL": tf.bool,
    "UINT8": tf.uint8,
    "UINT16": tf.uint16,
    "UINT32": tf.uint32,
    "UINT64": tf.uint64,
    "INT8": tf.int8,
    "INT16": tf.int16,
    "INT32": tf.int32,
    "INT64": tf.int64,
    "FP16": tf.float16,
    "BF16": tf.bfloat16,
    "FP32": tf.float32,
    "FP64": tf.float64,
    BYTES: tf.string,
}
DATATYPES = {dtype: datatype for datatype, dtype in TYPES.items()}
LENGTH = struct.Struct("<I")  # before each string of a tensor in its binary form
SERVER = {
    "name": "dogsnap",
    "version": version_of("dogsnap"),
    "extensions": ["binary_tensor_data"],
}
PLATFORM = "tensorflow_savedmodel"


@dataclass(frozen=True)
class Tensor:
    """An input as it came; `read` gives its values in a flat array or list, of
    `datatype`.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]

    def __post_init__(self) -> None:
        if self.datatype not in TYPES:
            raise InvalidArgument(
                f'input "{self.name}": datatype is {self.datatype!r}; expected one of '
                f"{', '.join(TYPES)}"
            )
        if len(self.shape) > MAX_RANK or any(size < 0 for size in self.shape):
            raise InvalidArgument(
                f'input "{self.name}": shape is {list(self.shape)}; expected at most '
                f"{MAX_RANK} sizes from 0 on"
            )

    def array(self, rank: int | None = None) -> np.ndarray:
        """The values in the tensor's shape; strings as objects.

        Raises InvalidArgument.

        Strings (n, 1), as MLServer's codecs write them, are (n,) for an input
        of rank 1.
        """
        values = self.read()
        if values.size != math.prod(self.shape):
            raise InvalidArgument(
                f'input "{self.name}": shape {list(self.shape)} takes '
                f"{math.prod(self.shape)} values, received {values.size}"
            )
        is_column = self.datatype == BYTES and rank == 1 and self.shape[1:] == (1,)
        return values.reshape(-1 if is_column else self.shape)


@dataclass(frozen=True)
class InferRequest:
    """What a client asks; `outputs`: names, all of them if empty.

    `signature_name`: the parameter of this name, or "".
    """

    spec: ModelSpec
    tensors: Sequence[Tensor]
    outputs: Sequence[str] = ()
    signature_name: str = ""


def spec_of(name: str, version: str | None, sticky_key: str) -> ModelSpec:
    """`version`: a number, a label, or nothing for the default."""
    if not version:
        return ModelSpec(name, sticky_key=sticky_key)
    if version.isascii() and version.isdigit():
        return ModelSpec(name, int(version), sticky_key=sticky_key)
    return ModelSpec(name, label=version, sticky_key=sticky_key)


def infer(
    predictor: Predictor,
    request: InferRequest,
    protocol: str,
    timeout: float | None = None,
    is_gone: IsGone | None = None,
) -> Prediction:
    """Run a signature on the tensors of a request. Raises the types of `dogsnap.errors`."""
    work = _work(predictor, request)
    (prediction,) = predictor.answer(request.spec, [work], protocol, timeout, is_gone)
    if isinstance(work, Values) or not request.outputs:
        return prediction
    check_output_filter(prediction.signature, request.outputs)
    wanted = {name: prediction.outputs[name] for name in request.outputs}
    return Prediction(wanted, prediction.servable, prediction.signature)


def _work(predictor: Predictor, request: InferRequest) -> Work:
    """Photos where strings come for a version that takes numbers: an image
    input takes the photo itself.
    """
    if [tensor.datatype for tensor in request.tensors] == [BYTES]:
        with predictor.repository.acquire(request.spec) as servable:
            signature = servable.signature(request.signature_name)
        (tensor,) = request.tensors
        wanted = signature.inputs.get(tensor.name)
        if len(signature.inputs) == 1 and wanted is not None and wanted.dtype != tf.string:
            values = tensor.array().reshape(-1)
            pictures = photo_values.decode_photos(values)
            return Photos(list(values if pictures is None else pictures), signature.name)
    return Values(_reader(request.tensors), request.signature_name, request.outputs)


def _reader(tensors: Sequence[Tensor]) -> Callable[[Signature], dict[str, np.ndarray]]:
    def read(signature: Signature) -> dict[str, np.ndarray]:
        names = [tensor.name for tensor in tensors]
        if len(names) != len(signature.inputs) or set(names) != set(signature.inputs):
            raise OtherInputs(
                f"expected the inputs {', '.join(signature.inputs) or 'none'}, received "
                f"{', '.join(names) or 'none'}",
                names,
            )
        arrays = {}
        for tensor in tensors:
            arrays[tensor.name] = tensor.array(signature.inputs[tensor.name].shape.rank)
        return arrays

    return read


def describe_model(predictor: Predictor, spec: ModelSpec) -> dict[str, Any]:
    """The metadata of a version: its default signature, or the only one."""
    with predictor.repository.acquire(spec) as servable:
        names = [DEFAULT_SIGNATURE, *servable.signatures]
        signature = servable.signature(next(name for name in names if name in servable.signatures))
        versions = [servable.id.version]
        if spec.version is None and spec.label is None:
            versions = sorted(predictor.repository.available(spec.name))
        return {
            "name": servable.id.name,
            "versions": [str(version) for version in versions],
            "platform": PLATFORM,
            "inputs": _describe_tensors(signature.inputs),
            "outputs": _describe_tensors(signature.outputs),
        }


def _describe_tensors(specs: Mapping[str, tf.TensorSpec]) -> list[dict[str, Any]]:
    """Those of a type that the protocol has; -1 is any size."""
    described = []
    for name, spec in specs.items():
        if spec.dtype in DATATYPES:
            sizes = [-1] if spec.shape.rank is None else spec.shape.as_list()
            shape = [-1 if size is None else size for size in sizes]
            described.append({"name": name, "datatype": DATATYPES[spec.dtype], "shape": shape})
    return described


def datatype_of(name: str, array: np.ndarray) -> str:
    dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
    if dtype not in DATATYPES:
        raise Unimplemented(f'output "{name}" has the type {dtype.name}, which the protocol lacks')
    return DATATYPES[dtype]


def from_raw(name: str, datatype: str, count: int, raw: bytes) -> np.ndarray:
    """The values of a tensor in its binary form. Raises InvalidArgument."""
    if datatype == BYTES:
        return _strings_from_raw(name, count, raw)
    dtype = np.dtype(TYPES[datatype].as_numpy_dtype)
    if len(raw) != count * dtype.itemsize:
        raise InvalidArgument(
            f'input "{name}": {count} values of {datatype} take '
            f"{count * dtype.itemsize} bytes, received {len(raw)}"
        )
    if datatype == "BOOL":  # bytes other than 0 and 1 would be invalid bools
        return np.frombuffer(raw, np.uint8) != 0
    return np.frombuffer(raw, dtype)


def _strings_from_raw(name: str, count: int, raw: bytes) -> np.ndarray:
    strings: list[bytes] = []
    start = 0
    while start + LENGTH.size <= len(raw) and len(strings) < count:
        (length,) = LENGTH.unpack_from(raw, start)
        start += LENGTH.size
        strings.append(raw[start : start + length])
        start += length
    if start != len(raw) or len(strings) != count:
        raise InvalidArgument(
            f'input "{name}": expected {count} strings, each behind its length in 4 bytes'
        )
    return np.fromiter(strings, object, count)


def to_raw(array: np.ndarray) -> bytes:
    """The binary form of a tensor: row-major, little-endian; strings behind
    their lengths.
    """
    if array.dtype != object:
        return np.ascontiguousarray(array).tobytes()
    parts = []
    for value in array.reshape(-1):
        parts += [LENGTH.pack(len(value)), value]
    return b"".join(parts)
