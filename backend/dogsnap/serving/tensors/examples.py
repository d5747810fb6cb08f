"""tf.Example and the results of TensorFlow Serving's classify and regress methods."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.errors import InvalidArgument, TooLarge
from dogsnap.serving.tensors.json_tensors import is_base64, show, to_bytes, type_name
from dogsnap.serving.tensors.signatures import Arrays, Signature

METHODS = {"classify": "tensorflow/serving/classify", "regress": "tensorflow/serving/regress"}
KINDS = {"classify": "classification", "regress": "regression"}  # in TensorFlow Serving's errors
INT64 = range(-(2**63), 2**63)


def examples_from_body(fields: Mapping[str, Any], method: str, max_bytes: int) -> list[bytes]:
    """The serialized tf.Examples of a classify or regress body, each with the
    body's context merged in.

    Raises InvalidArgument, and TooLarge for more than `max_bytes` of them.
    """
    if "examples" not in fields:
        raise InvalidArgument(
            f"JSON Value: {show(fields)} When method is {method}, key 'examples' is "
            "expected and was not found"
        )
    rows = fields["examples"]
    if not isinstance(rows, list):
        raise InvalidArgument(
            f"JSON Value: {show(fields)} Expecting 'examples' value to be an list/array"
        )
    if not rows:
        raise InvalidArgument(f"JSON Value: {show(fields)} 'examples' value is an empty array")
    context = _example(fields["context"]) if "context" in fields else tf.train.Example()
    check_merged_size(context.ByteSize(), len(rows), max_bytes)
    return [merge_context(_example(row), context) for row in rows]


def check_merged_size(context: int, count: int, max_bytes: int) -> None:
    """Raises TooLarge for a context of so many bytes that is to be merged into
    each of `count` examples.
    """
    if context * count > max_bytes:
        raise TooLarge(
            f"a context of {context} bytes is to be merged into {count} examples; at "
            f"most {max_bytes} bytes "
            "are taken (DOGSNAP_MAX_TENSOR_BODY_MB); send fewer examples at once"
        )


def merge_context(example: tf.train.Example, context: tf.train.Example) -> bytes:
    """One example merged with the shared context, serialized; the example's own
    features take precedence.
    """
    both = tf.train.Example()
    both.CopyFrom(context)
    for name, feature in example.features.feature.items():
        both.features.feature[name].CopyFrom(feature)
    return both.SerializeToString()


def _example(row: Any) -> tf.train.Example:
    if not isinstance(row, dict):
        raise InvalidArgument(f"Example must be JSON object but got JSON {type_name(row)}")
    example = tf.train.Example()
    for name, content in row.items():
        feature = example.features.feature[name]
        values = content if isinstance(content, list) else [content]
        converted = [_feature_value(name, value) for value in values]
        kinds = [kind for kind, _ in converted]
        if len(set(kinds)) > 1:
            expected = kinds[0].removesuffix("_list")
            raise InvalidArgument(
                f"Unexpected element type in feature: {name} expecting type: {expected}"
            )
        if kinds:
            getattr(feature, kinds[0]).value.extend(value for _, value in converted)
    return example


def _feature_value(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, int):  # a bool is one, and becomes 0 or 1
        if value not in INT64:
            raise InvalidArgument(
                f"Feature: {name} has uint64_t element. Only int64_t is supported."
            )
        return "int64_list", int(value)
    if isinstance(value, float):
        return "float_list", value
    if isinstance(value, str) or is_base64(value):
        return "bytes_list", to_bytes(value)
    raise InvalidArgument(
        f"Feature: {name} has element with unexpected JSON type: {type_name(value)}"
    )


def check_signature(signature: Signature, method: str) -> str:
    """The alias of the one input that takes Examples.

    Raises InvalidArgument if the signature has another method.
    """
    expected = METHODS[method]
    kind = KINDS[method]
    if signature.method != expected:
        raise InvalidArgument(
            f"Expected {kind} signature method_name to be {expected}. "
            f"Was: {signature.method} (signature {signature.name})"
        )
    if len(signature.inputs) != 1:
        raise InvalidArgument(
            f"Expected one input Tensor. Signature {signature.name} has {len(signature.inputs)}"
        )
    return next(iter(signature.inputs))


def classify_rows(outputs: Arrays, count: int) -> list[list[tuple[str, float]]]:
    """The (label, score) pairs of each example, from the outputs `classes` and
    `scores`; without one of them "" or 0.0.
    """
    if not {"classes", "scores"} & set(outputs):
        raise InvalidArgument(
            f"Expected classification outputs classes and/or scores, found: {sorted(outputs)}"
        )
    for alias in ("classes", "scores"):
        if alias in outputs and (outputs[alias].ndim != 2 or len(outputs[alias]) != count):
            raise InvalidArgument(
                f"Expected {alias} of shape [{count} num_classes] but got {outputs[alias].shape}"
            )
    shape = outputs["scores" if "scores" in outputs else "classes"].shape
    classes = outputs.get("classes", np.full(shape, b"", dtype=object))
    scores = outputs.get("scores", np.zeros(shape, np.float32))
    if classes.dtype != object:
        raise InvalidArgument(f"Expected classes Tensor of DT_STRING. Got: {classes.dtype}")
    _check_numbers("scores", scores)
    if classes.shape != scores.shape:
        raise InvalidArgument(
            f"Expected classes and scores of one shape but got {classes.shape} and {scores.shape}"
        )
    rows = []
    for labels, values in zip(classes.tolist(), scores.astype(float).tolist(), strict=True):
        names = [label.decode("utf-8", "replace") for label in labels]
        rows.append(list(zip(names, values, strict=True)))
    return rows


def _check_numbers(alias: str, values: np.ndarray) -> None:
    if values.dtype == object or np.iscomplexobj(values):
        kind = "strings" if values.dtype == object else values.dtype
        raise InvalidArgument(f"Expected {alias} Tensor of DT_FLOAT. Got: {kind}")


def regress_rows(outputs: Arrays, count: int) -> list[float]:
    """The value of each example, from the one output `outputs`, of shape
    (examples) or (examples, 1).
    """
    values = outputs.get("outputs")
    if values is None or values.shape not in ((count,), (count, 1)):
        shapes = {alias: value.shape for alias, value in outputs.items()}
        raise InvalidArgument(
            f"Expected a regression output of shape [{count}] or [{count} 1] named outputs, "
            f"found: {shapes}"
        )
    _check_numbers("outputs", values)
    return values.reshape(count).astype(float).tolist()
