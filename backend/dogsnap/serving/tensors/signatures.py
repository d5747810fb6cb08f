"""The signatures of a version, and the id that names a version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, struct_pb2

from dogsnap.errors import FailedPrecondition, InvalidArgument

DEFAULT_SIGNATURE = "serving_default"
# Of aliases of binary values, by the convention of Cloud ML Engine and TensorFlow Serving.
BYTES_SUFFIX = "_bytes"
# The dtypes that the protocols have values for: not resources, variants, quantised or
# 8-bit floating-point numbers.
FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)
INTEGERS = (tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64)
DTYPES = (*FLOATS, *INTEGERS, tf.bool, tf.string)


@dataclass(frozen=True, order=True)
class ServableId:
    """A model's name and the number of one of its versions."""

    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a signature, by alias; `method` is e.g.
    tensorflow/serving/predict.

    `unserved`: why an output cannot be served, by alias; it is not among
    `outputs`. `defaults`: the values of inputs that a request may leave out.
    """

    name: str
    method: str
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, tf.TensorSpec]
    unserved: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, name: str, definition: meta_graph_pb2.SignatureDef) -> "Signature":
        """Raises InvalidArgument, naming the input, if one cannot be served."""
        if unserved := _find_unserved(definition.inputs):
            raise InvalidArgument(_refusal(name, "input", unserved))
        unserved = _find_unserved(definition.outputs)
        outputs = {}
        for alias, info in definition.outputs.items():
            if alias not in unserved:
                outputs[alias] = info
        inputs = _specs(definition.inputs)
        defaults = {}
        for alias, proto in definition.defaults.items():
            if alias in inputs:
                defaults[alias] = tf.make_ndarray(proto)
        return cls(name, definition.method_name, inputs, _specs(outputs), unserved, defaults)

    def required_inputs(self) -> list[str]:
        """The inputs that have no default."""
        return [alias for alias in self.inputs if alias not in self.defaults]

    def check_outputs(self, wanted: Sequence[str] = ()) -> None:
        """Raises InvalidArgument, naming the output, if one of those that are
        wanted (without names: all) cannot be served.
        """
        unserved = {}
        for alias, reason in self.unserved.items():
            if alias in wanted or not wanted:
                unserved[alias] = reason
        if unserved:
            raise InvalidArgument(_refusal(self.name, "output", unserved))


def why_unserved(info: meta_graph_pb2.TensorInfo) -> str:
    """Why the protocols have no form for this tensor of a signature; "" if they have."""
    encoding = info.WhichOneof("encoding")
    if encoding == "coo_sparse":
        return "a sparse tensor"
    if encoding == "composite_tensor":
        number = info.composite_tensor.type_spec.type_spec_class
        kind = struct_pb2.TypeSpecProto.TypeSpecClass.Name(number)
        return f"no plain tensor ({kind})"
    try:
        dtype = tf.as_dtype(info.dtype).base_dtype
    except TypeError:
        return f"of the unknown dtype {info.dtype}"
    return "" if dtype in DTYPES else f"of the dtype {dtype.name}"


def _find_unserved(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, str]:
    """Why a tensor cannot be served, by alias, of those that cannot."""
    reasons = {}
    for alias, info in sorted(infos.items()):
        if reason := why_unserved(info):
            reasons[alias] = reason
    return reasons


def _refusal(signature: str, part: str, unserved: Mapping[str, str]) -> str:
    parts = ", ".join(f'{part} "{alias}" is {reason}' for alias, reason in unserved.items())
    return (
        f'signature "{signature}" cannot be served: {parts}; expected dense tensors of '
        "numbers, booleans or strings, "
        "use another signature or export the model with one"
    )


def _specs(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, tf.TensorSpec]:
    """References to variables of TensorFlow 1 count as their values."""
    specs = {}
    for alias, info in sorted(infos.items()):
        dtype = tf.as_dtype(info.dtype).base_dtype
        specs[alias] = tf.TensorSpec(tf.TensorShape(info.tensor_shape), dtype, alias)
    return specs


class UnknownSignature(FailedPrecondition):
    """`name` was requested, `known` exist."""

    def __init__(self, name: str, known: Sequence[str]):
        names = ", ".join(f'"{signature}"' for signature in known)
        advice = "no signature: export it with tf.saved_model.save(model, folder, signatures=...)"
        super().__init__(
            f'Serving signature name: "{name}" not found in signature def; this version has: '
            f"{names or advice}"
        )
        self.name = name
