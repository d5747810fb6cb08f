"""The signatures of a version, and the id that names a version."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
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
Arrays = Mapping[str, np.ndarray]  # inputs or outputs by alias
Inputs = Mapping[str, Any]  # by alias: arrays, or lists that become some


class ServableId(NamedTuple):
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
        inputs, unserved = _read_specs(definition.inputs)
        if unserved:
            raise InvalidArgument(_refusal(name, "input", unserved))
        outputs, unserved = _read_specs(definition.outputs)
        defaults = {}
        for alias, proto in definition.defaults.items():
            if alias in inputs:
                defaults[alias] = tf.make_ndarray(proto)
        return cls(name, definition.method_name, inputs, outputs, unserved, defaults)

    def required_inputs(self) -> list[str]:
        """The inputs that have no default."""
        return [alias for alias in self.inputs if alias not in self.defaults]

    def check_inputs(self, names: Iterable[str]) -> None:
        """Raises InvalidArgument unless these are the inputs, but for those with a default."""
        expected, sent = set(self.inputs), {*self.defaults, *names}
        if expected != sent:
            raise InvalidArgument(
                f"input size does not match signature: {len(sent)}!={len(expected)} "
                f"len({join_names(sent)}) != len({join_names(expected)}). "
                f"Sent extra: {join_names(sent - expected)}. Missing but required: "
                f"{join_names(expected - sent)}."
            )

    def check_outputs(self, wanted: Sequence[str]) -> None:
        """Raises InvalidArgument, naming the output, if one of those that are
        wanted (without names: all) cannot be served, is unknown or comes twice.
        """
        unserved = {}
        for alias, reason in self.unserved.items():
            if alias in wanted or not wanted:
                unserved[alias] = reason
        if unserved:
            raise InvalidArgument(_refusal(self.name, "output", unserved))
        for alias in wanted:
            if alias not in self.outputs:
                raise InvalidArgument(
                    f"output tensor alias not found in signature: {alias} "
                    f"Outputs expected to be in the set {join_names(self.outputs)}."
                )
        counts = Counter(wanted)
        repeated = [alias for alias, count in counts.items() if count > 1]
        if repeated:
            raise InvalidArgument(f"duplicate output tensor alias: {min(repeated)}")


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


def _refusal(signature: str, part: str, unserved: Mapping[str, str]) -> str:
    parts = ", ".join(f'{part} "{alias}" is {reason}' for alias, reason in unserved.items())
    return (
        f'signature "{signature}" cannot be served: {parts}; expected dense tensors of '
        "numbers, booleans or strings, "
        "use another signature or export the model with one"
    )


def _read_specs(
    infos: Mapping[str, meta_graph_pb2.TensorInfo],
) -> tuple[dict[str, tf.TensorSpec], dict[str, str]]:
    """The tensors, and why those that cannot be served are not among them, by alias.

    References to variables of TensorFlow 1 count as their values.
    """
    specs = {}
    unserved = {}
    for alias, info in sorted(infos.items()):
        if reason := why_unserved(info):
            unserved[alias] = reason
            continue
        dtype = tf.as_dtype(info.dtype).base_dtype
        specs[alias] = tf.TensorSpec(tf.TensorShape(info.tensor_shape), dtype, alias)
    return specs, unserved


def join_names(aliases: Iterable[str]) -> str:
    """{first,second}, as TensorFlow Serving writes them."""
    return "{" + ",".join(sorted(aliases)) + "}"


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
