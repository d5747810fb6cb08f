"""Recognises a network's outputs: boxes, classes and scores of a detector, and the range of values of an image."""

from collections.abc import Mapping

import tensorflow as tf

# The names of TensorFlow's Object Detection API: the option that chooses each, a word in its name, and what is expected.
DETECTIONS = {
    "detection_boxes": ("boxes", "box", "boxes (n, k, 4)"),
    "detection_classes": ("classes", "class", "a class per box (n, k)"),
    "detection_scores": ("scores", "score", "a score per box (n, k)"),
}
# Operations that do not change the values.
PASSING = {
    "Identity",
    "Reshape",
    "Transpose",
    "Squeeze",
    "ExpandDims",
    "EnsureShape",
    "StopGradient",
    "Cast",
    "Snapshot",
}
RANGES = {"Tanh": (-1.0, 1.0), "Sigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0)}


def fitting_detections(name: str, outputs: Mapping[str, tf.TensorSpec], single: bool = False) -> list[str]:
    """The outputs that `name` may refer to: the one with that name, else those with fitting shape and name, else shape and
    dtype.

    `single`: the outputs are of one image, without a batch.
    """
    if name in outputs:
        return [name]
    shaped = [alias for alias, spec in outputs.items() if _has_shape(name, spec, single)]
    named = [alias for alias in shaped if DETECTIONS[name][1] in alias.lower()]
    unnamed = [alias for alias in shaped if not any(word in alias.lower() for _, word, _ in DETECTIONS.values())]
    whole = [alias for alias in unnamed if name == "detection_classes" and outputs[alias].dtype.is_integer]
    return named or whole or unnamed


def _has_shape(name: str, spec: tf.TensorSpec, single: bool) -> bool:
    if spec.shape.rank is None:
        return False
    rank = spec.shape.rank + (1 if single else 0)
    if name == "detection_boxes":
        return spec.dtype.is_floating and rank == 3 and spec.shape[-1] == 4
    numbers = spec.dtype.is_floating or (name == "detection_classes" and spec.dtype.is_integer)
    return numbers and rank == 2


def bounded_by_last_op(output: tf.Tensor) -> tuple[str, tuple[float, float]] | None:
    """The operation that bounds `output`, a tensor of a graph without function calls, and its bounds; None if none does."""
    operation = output.op
    while operation.type in PASSING:
        operation = operation.inputs[0].op
    bounds = RANGES.get(operation.type)
    return (operation.type.lower(), bounds) if bounds else None
