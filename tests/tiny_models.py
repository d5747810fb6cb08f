"""Tiny real SavedModels for the tests: the arithmetic ones of TensorFlow Serving's own tests, and one that tells colours apart.

Made with plain TensorFlow; what is exported for dogs is made by the export code itself, in its own tests.
"""

import json
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from backend.serving import preprocessing

SIZE = (16, 16)
COLOURS = (
    {"id": "c1", "name": "red dog", "name_zh": "红犬"},
    {"id": "c2", "name": "green dog", "name_zh": "绿犬"},
    {"id": "c3", "name": "blue dog", "name_zh": "蓝犬"},
)


def save(folder: Path, **signatures: Callable) -> Path:
    """Save tf.functions, each with an input signature, under their names."""
    module = tf.Module()
    for name, function in signatures.items():
        setattr(module, name, function)
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return folder


def spec(dtype: tf.DType, *shape: int | None, name: str = "x") -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype, name)


def half_plus(number: float, folder: Path) -> Path:
    """y = x / 2 + number, for x of any shape."""

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, "x")])
    def serving_default(x):
        return {"y": x / 2 + number}

    return save(folder, serving_default=serving_default)


def identity(dtype: tf.DType, folder: Path) -> Path:
    """Gives back what it is given."""

    @tf.function(input_signature=[tf.TensorSpec(None, dtype, "x")])
    def serving_default(x):
        return {"y": tf.identity(x)}

    return save(folder, serving_default=serving_default)


def colours(folder: Path, number: int = 1) -> Path:
    """A "dog" model of three classes, with the signatures of version 1 (`number` 1) or version 2 of the real one.

    The probabilities are those of the mean colour; a photo darker than 0.1 shows no dog.
    """
    name = "image"

    def predict(image):
        mean = tf.reduce_mean(image, axis=[1, 2])
        return {"prediction": tf.nn.softmax(10 * mean), "dog": tf.reduce_max(mean, axis=1)}

    @tf.function(input_signature=[spec(tf.float32, None, *SIZE, 3, name=name)])
    def images(image):
        return {"prediction": predict(image)["prediction"]}

    @tf.function(input_signature=[spec(tf.float32, None, *SIZE, 3, name=name)])
    def image_scores(image):
        return predict(image)

    @tf.function(input_signature=[spec(tf.string, None, name=name)])
    def texts(image):
        return {"prediction": predict(preprocessing.photos_to_images(tf.io.decode_base64(image), SIZE))["prediction"]}

    @tf.function(input_signature=[spec(tf.string, None, name="image_bytes")])
    def bytes_scores(image_bytes):
        return predict(preprocessing.photos_to_images(image_bytes, SIZE))

    if number == 1:
        save(folder, serving_default=images, scores=image_scores)
    else:
        save(folder, serving_default=texts, scores=bytes_scores)
    describe(folder)
    return folder


def describe(folder: Path) -> None:
    """Write the self-description that the real export writes."""
    description = {
        "model": folder.parent.name,
        "labels": COLOURS,
        "input_size": SIZE,
        "decision": {"dog_threshold": 0.1, "confident_threshold": 0.6},
    }
    (folder / "assets.extra").mkdir(exist_ok=True)
    (folder / "assets.extra" / "dogsnap.json").write_text(json.dumps(description, ensure_ascii=False), encoding="utf-8")
