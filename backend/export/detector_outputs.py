"""Finds boxes, classes and scores among a detector's outputs, and gives them the names that clients expect."""

from collections.abc import Mapping

import tensorflow as tf

# The names of TensorFlow's Object Detection API, and the option that chooses each.
OPTIONS = {"detection_boxes": "boxes", "detection_classes": "classes", "detection_scores": "scores"}
EXPECTED = {
    "detection_boxes": "boxes (n, k, 4)",
    "detection_classes": "a class per box (n, k)",
    "detection_scores": "a score per box (n, k)",
}
WORDS = {"detection_boxes": "box", "detection_classes": "class", "detection_scores": "score"}


def fitting(name: str, outputs: Mapping[str, tf.TensorSpec], single: bool = False) -> list[str]:
    """The outputs that `name` may refer to: the one with that name, else those with fitting shape and name, else shape and
    dtype.

    `single`: the outputs are of one image, without a batch.
    """
    if name in outputs:
        return [name]
    shaped = [alias for alias, spec in outputs.items() if _has_shape(name, spec, single)]
    named = [alias for alias in shaped if WORDS[name] in alias.lower()]
    unnamed = [alias for alias in shaped if not any(word in alias.lower() for word in WORDS.values())]
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
