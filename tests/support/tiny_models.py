"""Tiny real SavedModels for the tests: the arithmetic ones of TensorFlow Serving's own tests, and one that tells colours apart.

The arithmetic ones are plain TensorFlow; the one that names breeds is exported and merged by the real code.
"""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from support.changed_version import changed_version

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


def signature(function: Callable, *specs: tf.TensorSpec) -> Callable:
    return tf.function(function, input_signature=specs, autograph=False)


NUMBERS, STRINGS = tf.TensorSpec(None, tf.float32, "x"), tf.TensorSpec(None, tf.string, "bin")


def half_plus(number: float, folder: Path) -> Path:
    """y = x / 2 + number, for x of any shape."""
    return save(folder, serving_default=signature(lambda x: {"y": x / 2 + number}, NUMBERS))


def colours(model_folder: Path) -> Path:
    """A "dog" model of three classes, told apart by the mean colour: version 1 exported and version 2 merged by the real code.

    A photo whose mean red, green and blue are below 0.25 of white together shows no dog.
    """
    from dogsnap.exporting.export import Stored
    from dogsnap.exporting.merging import merge
    from dogsnap.networks.temperature import Calibration

    image = keras.Input((*SIZE, 3), name="image")
    mean = keras.layers.GlobalAveragePooling2D()(image)
    breeds = keras.layers.Dense(3, name="breeds", use_bias=False)
    dog = keras.layers.Dense(1, name="dog")
    network = keras.Model(image, {"breeds": breeds(mean), "dog": dog(mean)})
    breeds.set_weights([10 * np.eye(3, dtype=np.float32)])
    dog.set_weights([np.full((3, 1), 40, np.float32), np.array([-10], np.float32)])
    description = {
        "model": model_folder.name,
        "labels": COLOURS,
        "input_size": SIZE,
        "decision": {"dog_threshold": 0.5, "confident_threshold": 0.6},
    }
    merge.merge(
        Stored(network, Calibration(1.0), description).export(model_folder).folder,
        merge.Options(),
    )
    return model_folder


def confused(version: Path, number: int) -> Path:
    """A copy of a version that tells colours apart, under another number, which calls red green and green red."""

    def swap(description: dict) -> None:
        red, green, blue = description["labels"]
        description["labels"] = [green, red, blue]

    return changed_version(version, version.with_name(str(number)), swap)


def with_levels(version: Path, number: int) -> Path:
    """A copy of a version that tells colours apart, under another number: red and green dogs are a group, and grey is unknown."""
    thresholds = {
        "confident_threshold": 0.9,
        "group_threshold": 0.8,
        "set_threshold": 0.1,
        "unknown_threshold": 0.3,
    }
    group = {
        "id": "warm",
        "name": "warm dog",
        "name_zh": "暖色犬",
        "members": ["c1", "c2"],
        "difference": "By hue.",
    }

    def add_levels(description: dict) -> None:
        description["decision"].update(thresholds)
        description["groups"] = [group]

    return changed_version(version, version.with_name(str(number)), add_levels)


def several(folder: Path) -> Path:
    """Two inputs, `a` (n) float32 and `b` (n) int32; two outputs, `sum` (n) and `product` (n)."""

    def serving_default(a, b):
        b = tf.cast(b, tf.float32)
        return {"sum": a + b, "product": a * b}

    specs = spec(tf.float32, None, name="a"), spec(tf.int32, None, name="b")
    return save(folder, serving_default=signature(serving_default, *specs))


def constant(folder: Path) -> Path:
    """No input; `x` () is 42."""
    return save(folder, serving_default=signature(lambda: {"x": tf.constant(42.0)}))


def texts(folder: Path) -> Path:
    """Strings in, and out both as text and as bytes; the other signatures have one output each."""
    functions = {
        "serving_default": lambda bin: {"text": tf.identity(bin), "tensor_bytes": tf.identity(bin)},
        "as_bytes": lambda bin: {"str_tensor_bytes": tf.identity(bin)},
        "as_text": lambda bin: {"text": tf.identity(bin)},
        "shape": lambda bin: {"shape": tf.shape(bin)},
    }
    return save(
        folder, **{name: signature(function, STRINGS) for name, function in functions.items()}
    )


TYPES = (
    "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "bool", "string", "half", "complex64"
)  # fmt: skip


def all_types(folder: Path) -> Path:
    """One signature per dtype, named after it, that gives back what it is given."""
    specs = {name: tf.TensorSpec(None, getattr(tf, name), "x") for name in TYPES}
    return save(
        folder,
        **{name: signature(lambda x: {"y": tf.identity(x)}, each) for name, each in specs.items()},
    )


def odd_outputs(folder: Path) -> Path:
    """Outputs that the row form cannot hold, numbers that strict JSON cannot hold, and a kernel that fails."""
    functions = {
        "scalar": lambda x: {"y": tf.reduce_sum(x)},
        "uneven": lambda x: {"a": x, "b": tf.concat([x, x], axis=0)},
        "not_finite": lambda x: {
            "y": tf.stack([x / 0.0, -x / 0.0, x - x / 0.0 + x / 0.0, x], axis=-1)
        },
        "empty": lambda x: {"y": x[:0]},
        "complex_number": lambda x: {"y": tf.complex(x, x)},
    }
    decode_png = signature(
        lambda png: {"y": tf.io.decode_png(png)}, tf.TensorSpec(None, tf.string, "png")
    )
    signatures = {name: signature(function, NUMBERS) for name, function in functions.items()}
    return save(folder, decode_png=decode_png, **signatures)


def half_plus_two_of_examples(folder: Path) -> Path:
    """TensorFlow Serving's saved_model_half_plus_two: x / 2 + 2 by predict, and by classify and regress from tf.Examples."""

    def values(serialized: tf.Tensor) -> tf.Tensor:
        return (
            tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"] / 2
            + 2
        )

    def with_labels(inputs: tf.Tensor) -> dict:
        scores = tf.concat([values(inputs), -values(inputs)], axis=1)
        return {
            "scores": scores,
            "classes": tf.repeat(tf.constant([["plus", "minus"]]), tf.shape(scores)[0], axis=0),
        }

    examples = spec(tf.string, None, name="inputs")
    save(
        folder,
        serving_default=signature(lambda x: {"y": x / 2 + 2}, NUMBERS),
        regress_x_to_y=signature(lambda inputs: {"outputs": values(inputs)}, examples),
        classify_x_to_y=signature(lambda inputs: {"scores": values(inputs)}, examples),
        classify_with_labels=signature(with_labels, examples),
    )
    set_methods(
        folder,
        regress_x_to_y="regress",
        classify_x_to_y="classify",
        classify_with_labels="classify",
    )
    return folder


def set_methods(folder: Path, **methods: str) -> None:
    """Give signatures another method than predict, which TensorFlow 2 writes for all."""
    file = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for name, method in methods.items():
        model.meta_graphs[0].signature_def[name].method_name = f"tensorflow/serving/{method}"
    file.write_bytes(model.SerializeToString())


def decoders(folder: Path) -> Path:
    """Picture files in: the mean of each by `serving_default` and, from tf.Examples, by `of_examples`; the shape of one with
    as many channels as it has by `any_channels`.
    """

    def mean(contents: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(
            tf.cast(tf.io.decode_jpeg(contents, channels=3), tf.float32), axis=[0, 1]
        )

    def means(contents: tf.Tensor) -> tf.Tensor:
        return tf.map_fn(mean, contents, fn_output_signature=tf.float32)

    def of_examples(x: tf.Tensor) -> dict:
        return {
            "scores": means(
                tf.io.parse_example(x, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
            )
        }

    save(
        folder,
        serving_default=signature(lambda x: {"y": means(x)}, spec(tf.string, None)),
        any_channels=signature(
            lambda x: {"y": tf.shape(tf.io.decode_image(x[0], expand_animations=False))},
            spec(tf.string, None),
        ),
        of_examples=signature(of_examples, spec(tf.string, None)),
    )
    set_methods(folder, of_examples="classify")
    return folder


def frames(folder: Path) -> Path:
    """The shape of a picture file with all its frames."""
    shape = signature(
        lambda x: {"y": tf.shape(tf.io.decode_image(x[0], channels=3))}, spec(tf.string, None)
    )
    return save(folder, serving_default=shape)


def pictures_and_words(folder: Path) -> Path:
    """Takes files of pictures and, beside them, words, which are counted; signature `count` takes words alone."""

    def mean(contents):
        picture = tf.io.decode_image(contents, channels=3, expand_animations=False)
        return tf.reduce_mean(tf.cast(picture, tf.float32), axis=[0, 1])

    def describe(image, words):
        means = tf.map_fn(mean, image, fn_output_signature=tf.float32)
        return {"mean": means, "number": tf.size(words)}

    image, words = spec(tf.string, None, name="image"), spec(tf.string, None, name="words")
    both = signature(describe, image, words)
    count = signature(lambda words: {"number": tf.size(words)}, words)
    return save(folder, serving_default=both, count=count)


def zeros(folder: Path) -> Path:
    """As many zeros as are asked for; signature `empty`: so many rows without a value, `pairs`: two outputs of so many rows.

    And `scores` and `classes`, which classify: of one tf.Example with `count`, so many scores, or classes of 1000 letters.
    """

    def pairs(count):
        return {"y": tf.zeros([count]), "z": tf.zeros([count])}

    def count_in(inputs):
        parsed = tf.io.parse_example(inputs, {"count": tf.io.FixedLenFeature([1], tf.float32)})
        return tf.cast(parsed["count"][0, 0], tf.int32)

    def classes(inputs):
        return {"classes": tf.fill([1, count_in(inputs)], "a" * 1000)}

    count, examples = spec(tf.int32, name="count"), spec(tf.string, None)
    save(
        folder,
        serving_default=signature(lambda count: {"y": tf.zeros([count])}, count),
        empty=signature(lambda count: {"y": tf.zeros([count, 0])}, count),
        pairs=signature(pairs, count),
        texts=signature(lambda count: {"y": tf.fill([count], "a" * 1000)}, count),
        scores=signature(lambda inputs: {"scores": tf.zeros([1, count_in(inputs)])}, examples),
        classes=signature(classes, examples),
    )
    set_methods(folder, scores="classify", classes="classify")
    return folder


def half_of_positive(folder: Path) -> Path:
    """y = x / 2, and a failure for negative numbers; x of any shape, as in `half_plus`."""

    def positive(x: tf.Tensor) -> dict:
        with tf.control_dependencies([tf.debugging.assert_non_negative(x)]):
            return {"y": x / 2}

    return save(folder, serving_default=signature(positive, NUMBERS))


def slept(x: tf.Tensor, seconds: tf.Tensor) -> tf.Tensor:
    """x after so many seconds, without using the processor meanwhile."""
    # The data set sleeps before its value and before its end.
    microseconds = tf.cast(seconds * 5e5, tf.int64)
    types, shapes = [tf.float32], [tf.TensorShape([None])]
    one = tf.raw_ops.TensorDataset(components=[x], output_shapes=shapes)
    slow = tf.raw_ops.SleepDataset(
        input_dataset=one,
        sleep_microseconds=microseconds,
        output_types=types,
        output_shapes=shapes,
    )
    return tf.raw_ops.DatasetToSingleElement(
        dataset=slow, output_types=types, output_shapes=shapes
    )[0]


def sleeper(folder: Path, times: float = 1.0) -> Path:
    """y = x after x seconds (or so many `times`); the inputs of one request add up."""

    def serving_default(x: tf.Tensor) -> dict:
        return {"y": slept(x, tf.reduce_sum(x) * times)}

    return save(folder, serving_default=signature(serving_default, spec(tf.float32, None)))


def gate(folder: Path, file: Path) -> Path:
    """y = x once `file` is empty, so that a test decides how long a request runs."""

    def serving_default(x: tf.Tensor) -> dict:
        def is_shut(y: tf.Tensor) -> tf.Tensor:
            nothing = tf.strings.substr(tf.as_string(y[0]), 0, 0)  # else it is read only once
            return tf.strings.length(tf.io.read_file(str(file) + nothing)) > 0

        return {"y": tf.while_loop(is_shut, lambda y: [slept(y, tf.constant(0.01))], [x])[0]}

    return save(folder, serving_default=signature(serving_default, spec(tf.float32, None)))
