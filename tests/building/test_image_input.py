"""Finding the image input of a SavedModel from its signatures: layouts, options that choose, and the sentences of refusals."""

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.layers import fit
from dogsnap.exporting.merging.image_input import Layout, find_image_input, image_input, layout_of
from dogsnap.exporting.merging.options import PREPROCESSING, MergeError, Options
from keras.applications.imagenet_utils import preprocess_input


def spec(*shape: int | None, dtype: tf.DType = tf.float32) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype)


@pytest.mark.parametrize(
    ("image", "layout"),
    [
        (spec(None, 8, 9, 3), Layout("many", 8, 9, 3, False)),
        (spec(None, 3, 8, 9), Layout("many", 8, 9, 3, True)),
        (spec(1, 8, 9, 1), Layout("one", 8, 9, 1, False)),
        (spec(8, 9, 3, dtype=tf.uint8), Layout("none", 8, 9, 3, False)),
        (spec(None, None, None, 3), Layout("many", None, None, 3, False)),
        (spec(None, 8, 9, 3, dtype=tf.int32), None),
        (spec(4, 8, 9, 3), None),
        (spec(None, 8, 9, 5), None),
        (spec(None, 7), None),
        (tf.TensorSpec(None, tf.float32), None),
    ],
    ids=str,
)
def test_the_layout_is_read_from_the_shape(image, layout) -> None:
    assert layout_of(image) == layout


TWO = {
    "serving_default": {"a": spec(None, 8, 9, 3), "b": spec(None, 8, 9, 3)},
    "other": {"c": spec(None, 3, 8, 9)},
}
UNKNOWN = {
    "serving_default": {"x": tf.TensorSpec(None, tf.float32), "y": tf.TensorSpec(None, tf.float32)}
}


def test_the_options_choose_between_inputs_and_call_one_of_unknown_shape_an_image() -> None:
    assert find_image_input(TWO, Options(input="b")).name == "b"
    assert find_image_input(TWO, Options(signature="other")).name == "c"
    found = find_image_input(UNKNOWN, Options(input="x"))
    assert (found.name, found.layout) == ("x", Layout("many", None, None, 3, False))


@pytest.mark.parametrize(
    ("inputs", "options", "sentence"),
    [
        (
            TWO,
            Options(),
            r'there are 2 image inputs to merge in front of: input "a" .*; choose one with --input$',
        ),
        ({"m": TWO["other"], "n": TWO["other"]}, Options(), r"; choose one with --signature$"),
        (
            TWO,
            Options(signature="third"),
            r'--signature names "third"; available: serving_default, other$',
        ),
        (TWO, Options(input="z"), r'^"z" is no image input: expected numbers'),
        (
            {"s": {"text": spec(None, dtype=tf.string)}},
            Options(),
            r"; decoding may be merged in already$",
        ),
        (UNKNOWN, Options(), r'"x" \(float32 of unknown shape\) of "serving_default"'),
    ],
)
def test_without_one_choice_the_candidates_and_the_option_are_named(
    inputs, options, sentence
) -> None:
    with pytest.raises(MergeError, match=sentence):
        find_image_input(inputs, options)


FIXED, FREE = (
    find_image_input({"s": {"x": spec(None, *size, 3)}}) for size in ((8, 9), (None, None))
)


def test_size_and_range_come_from_the_shape_else_from_the_options_else_from_the_description() -> (
    None
):
    assert image_input(FIXED, Options(), {"input_size": [5, 5]}).size == (8, 9)
    assert image_input(FREE, Options(size=(6, 7)), {"input_size": [5, 5]}).size == (6, 7)
    assert image_input(FREE, Options(), {"input_size": [5, 5]}).size == (5, 5)
    wanted = image_input(FIXED, Options(input_range=(-1, 1)), {})
    assert (wanted.mean, wanted.deviation) == ((0.5,), (0.5,))
    assert image_input(FIXED, Options(), {"input_range": [0, 255]}).deviation == (1 / 255,)


@pytest.mark.parametrize(
    ("found", "options", "sentence"),
    [
        (FREE, Options(), "give it with --size HEIGHT WIDTH"),
        (FIXED, Options(size=(6, 7)), r"--size is 6 7; .* takes 8 9 alone"),
        (
            FIXED,
            Options(preprocessing="caffe", mean=(0.5,)),
            "--preprocessing caffe states channels, range, mean and deviation",
        ),
        (FIXED, Options(input_range=(1, 1)), "expected two different numbers"),
    ],
)
def test_options_that_do_not_fit_are_refused(found, options, sentence) -> None:
    with pytest.raises(MergeError, match=sentence):
        image_input(found, options, {})


CAFFE = Options(channels="bgr", input_range=(0, 255), mean=(103.939, 116.779, 123.68))


@pytest.mark.parametrize(
    ("mode", "options"),
    [*((mode, Options(preprocessing=mode)) for mode in PREPROCESSING), ("caffe", CAFFE)],
)
@pytest.mark.parametrize("order", ["channels_last", "channels_first"])
def test_pictures_are_preprocessed_as_keras_does(mode, options, order) -> None:
    pictures = np.random.default_rng(1).integers(0, 256, (2, 8, 9, 3)).astype(np.float32)
    shape = (None, 8, 9, 3) if order == "channels_last" else (None, 3, 8, 9)
    found = find_image_input({"serving_default": {"x": spec(*shape)}})
    prepared = fit(tf.constant(pictures / 255), image_input(found, options, {}))
    given = pictures if order == "channels_last" else pictures.transpose(0, 3, 1, 2)
    expected = preprocess_input(given.copy(), data_format=order, mode=mode)
    np.testing.assert_allclose(prepared, expected, atol=1e-4)
