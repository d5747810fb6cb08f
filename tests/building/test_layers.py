"""Layers: each gives the same eager and in a graph, and what it says it gives."""

import numpy as np
import pytest
import tensorflow as tf
from exported import png

from backend.building import layers
from backend.building.layers import ImageInput

SIZE = (8, 6)


def both(function, *arguments: tf.Tensor) -> np.ndarray:
    """The result eager, after checking that a graph gives the same."""
    eager = function(*arguments)
    graph = tf.function(function, autograph=False)(*arguments)
    tf.nest.map_structure(np.testing.assert_array_equal, eager, graph)
    return eager


def test_mean_and_deviation_hold_for_each_channel_before_channels_go_first() -> None:
    wanted = ImageInput(SIZE, channels_first=True, mean=(0.1, 0.2, 0.3), deviation=(1, 2, 4))
    image = both(lambda images: layers.fit(images, wanted), tf.fill((1, *SIZE, 3), 0.5))
    assert image.shape == (1, 3, *SIZE)
    np.testing.assert_allclose(image[0, :, 0, 0], [0.4, 0.15, 0.05], atol=1e-6)


def test_softmax_gives_probabilities_whatever_the_type_of_the_logits() -> None:
    logits = tf.constant([[0.0, 1.0, 2.0], [30000.0, 0.0, 0.0]], tf.float16)
    probabilities = both(layers.softmax, logits)
    assert probabilities.dtype == tf.float32
    np.testing.assert_allclose(tf.reduce_sum(probabilities, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(probabilities[0], [0.0900, 0.2447, 0.6652], atol=1e-4)


def test_top_k_names_the_most_probable_classes_in_falling_order() -> None:
    named = both(lambda p: layers.top_k(p, ["a", "犬", "c"], 2), tf.constant([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]]))
    assert [[name.decode() for name in row] for row in named["labels"].numpy()] == [["犬", "c"], ["a", "c"]]
    np.testing.assert_allclose(named["probabilities"], [[0.7, 0.2], [0.5, 0.4]])


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_in_0_to_1_leave_as_png_and_come_back(channels: int) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 5, 4, channels))
    files = both(layers.png_bytes, tf.constant(pixels / 255, tf.float32))
    assert files.shape == (3,)
    for file, image in zip(files.numpy(), pixels, strict=True):
        np.testing.assert_array_equal(tf.io.decode_png(file, channels=channels), image)


def test_a_png_of_minus_1_to_1_is_stretched_and_clipped() -> None:
    image = tf.constant([-3.0, -1.0, 0.0, 1.0, 9.0], shape=(1, 1, 5, 1))
    (file,) = both(lambda images: layers.png_bytes(images, -1.0, 1.0), image).numpy()
    assert tf.io.decode_png(file).numpy().ravel().tolist() == [0, 0, 128, 255, 255]


def test_an_image_of_bytes_becomes_a_png_as_it_is() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    assert both(layers.png_bytes, tf.constant(pixels)).numpy()[0] == png(pixels[0])


@pytest.mark.parametrize("batch_of_one", [True, False])
def test_a_network_for_a_single_image_takes_a_vector_of_them(batch_of_one: bool) -> None:
    def network(image: tf.Tensor) -> dict[str, tf.Tensor]:
        assert image.shape == ((1, 2, 2, 1) if batch_of_one else (2, 2, 1))
        return {"sum": tf.reduce_sum(image, axis=(-3, -2)), "same": image}

    lead = (1,) if batch_of_one else ()
    outputs = {"sum": tf.TensorSpec((*lead, 1), tf.float32), "same": tf.TensorSpec((*lead, 2, 2, 1), tf.float32)}
    images = tf.random.uniform((3, 2, 2, 1))
    answer = both(layers.one_by_one(network, outputs, batch_of_one), images)
    np.testing.assert_allclose(answer["sum"], tf.reduce_sum(images, axis=(1, 2)), rtol=1e-6)
    np.testing.assert_array_equal(answer["same"], images)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_network_never_sees_an_empty_batch_and_still_gives_one_row_an_image(count: int) -> None:
    weights = tf.random.uniform((3, 3, 3, 4))

    @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 3), tf.float32)])
    def network(images):
        return layers.never_empty(
            lambda x: {"y": tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME") + 1.0), "n": 5.0 * tf.ones(2)}, images
        )

    images = tf.random.uniform((count, 8, 8, 3))
    answer = network(images)
    assert answer["y"].shape == (count, 8, 8, 4)
    assert answer["n"].shape == (2,)
    if count:
        np.testing.assert_allclose(answer["y"], tf.nn.relu(tf.nn.conv2d(images, weights, 1, "SAME") + 1.0), atol=1e-5)
