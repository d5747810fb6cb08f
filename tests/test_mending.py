"""Mending: a hole in a kernel is filled with what its other rows tell, and the statistics behind it are set anew."""

import keras
import numpy as np
import pytest

from backend.training.mending import fill_holes, hole, settle_statistics

SIZE = (12, 12)


def _network() -> keras.Model:
    """Three convolutions of the same shape whose rows resemble each other, as those of trained networks do."""
    generator = np.random.default_rng(4)
    image = maps = keras.Input((*SIZE, 8))
    for number in range(3):
        convolution = keras.layers.Conv2D(8, 3, padding="same", use_bias=False, name=f"conv{number}")
        maps = keras.layers.BatchNormalization(scale=False)(convolution(maps))
        shared = generator.normal(size=(1, 3, 8, 8))
        convolution.kernel.assign(
            shared * [[[[0.5]]], [[[1.0]]], [[[0.8]]]] + 0.2 * generator.normal(size=(3, 3, 8, 8))
        )
    return keras.Model(image, maps)


def _hole(network: keras.Model, name: str, values: int) -> np.ndarray:
    kernel = network.get_layer(name).kernel
    whole = kernel.numpy()
    holed = whole.ravel().copy()
    holed[:values] = 0
    kernel.assign(holed.reshape(whole.shape))
    return whole


def test_a_kernel_without_a_run_of_zeros_has_no_hole() -> None:
    kernel = np.ones((3, 3, 2, 2))
    kernel[0, 0, 0, 0] = 0
    assert hole(kernel) == 0
    assert fill_holes(_network()) == []


@pytest.mark.parametrize("values", [2 * 3 * 64, 2 * 3 * 64 - 50, 3 * 64 + 7])
def test_missing_rows_are_predicted_from_the_rows_that_are_there(values: int) -> None:
    network = _network()
    whole = _hole(network, "conv1", values)
    mended = fill_holes(network)
    filled = network.get_layer("conv1").kernel.numpy()
    assert [layer.name for layer in mended] == ["conv1"]
    np.testing.assert_array_equal(filled.ravel()[values:], whole.ravel()[values:])
    assert np.corrcoef(filled.ravel()[:values], whole.ravel()[:values])[0, 1] > 0.8


def test_a_kernel_with_nothing_left_is_drawn_as_for_a_fresh_layer_and_the_same_every_time() -> None:
    first, second = _network(), _network()
    for network in (first, second):
        _hole(network, "conv1", 576)
        fill_holes(network)
    kernel = first.get_layer("conv1").kernel.numpy()
    limit = np.sqrt(6 / (9 * 16))
    assert 0.5 * limit < kernel.std() < limit
    assert np.abs(kernel).max() <= limit
    np.testing.assert_array_equal(kernel, second.get_layer("conv1").kernel.numpy())


def test_settled_statistics_let_the_mended_layer_come_out_centred_and_of_unit_width() -> None:
    network = _network()
    _hole(network, "conv1", 300)
    layers = fill_holes(network)
    images = [np.random.default_rng(batch).uniform(size=(8, *SIZE, 8)).astype(np.float32) for batch in range(4)]
    settle_statistics(network, layers, images)
    norm = network.layers[network.layers.index(layers[0]) + 1]
    maps = keras.Model(network.input, norm.output).predict(np.concatenate(images), verbose=0)
    np.testing.assert_allclose(maps.mean((0, 1, 2)), 0, atol=0.01)
    np.testing.assert_allclose(maps.std((0, 1, 2)), 1, atol=0.01)
    untouched = network.layers[network.layers.index(network.get_layer("conv0")) + 1]
    np.testing.assert_array_equal(untouched.moving_mean.numpy(), 0)
