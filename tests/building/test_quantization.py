"""An int8 network: which ranges are found, where values are rounded, and how near its answers are to float32."""

from pathlib import Path

import numpy as np
import pytest
from dogsnap import processor
from dogsnap.exporting import quantization
from dogsnap.exporting.quantization import Ranges, quantise_in_place
from dogsnap.training.ranges import find_ranges
from openvino import Core, Model, opset13, save_model

RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.random((16, 12, 12, 3), np.float32)


def network() -> Model:
    """Two convolutions side by side, joined, pooled, a third, then a head: what Inception is made of."""
    image = opset13.parameter([1, 12, 12, 3], np.float32, "image")
    pixels = opset13.transpose(image, opset13.constant([0, 3, 1, 2]))
    pixels = opset13.add(
        opset13.multiply(pixels, opset13.constant(np.float32(2))), opset13.constant(np.float32(-1))
    )
    joined = opset13.concat([convolved(pixels, 3, 4, 1.0), convolved(pixels, 3, 6, 3.0)], 1)
    pooled = opset13.max_pool(joined, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)
    deep = convolved(pooled, 10, 8, 0.3)
    features = opset13.reduce_mean(deep, opset13.constant([2, 3]))
    logits = opset13.matmul(
        features, opset13.constant(RANDOM.normal(0, 3, (8, 5)).astype(np.float32)), False, False
    )
    return Model([opset13.softmax(logits, 1)], [image], "tiny")


def convolved(values, channels: int, filters: int, size: float):
    kernel = RANDOM.normal(0, size / np.sqrt(9 * channels), (filters, channels, 3, 3)).astype(
        np.float32
    )
    made = opset13.convolution(values, opset13.constant(kernel), [1, 1], [1, 1], [1, 1], [1, 1])
    bias = opset13.constant(RANDOM.normal(0, 0.1, (1, filters, 1, 1)).astype(np.float32))
    return opset13.relu(opset13.add(made, bias))


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("network") / "network.xml"
    save_model(network(), path, compress_to_fp16=False)
    return path


@pytest.fixture(scope="module")
def ranges(file) -> Ranges:
    return find_ranges(Core().read_model(file), IMAGES)


def answers(model: Model) -> np.ndarray:
    compiled = Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.concatenate([compiled([image[np.newaxis]])[0] for image in IMAGES])


def test_ranges_follow_the_values_and_meet_where_tensors_are_joined(ranges):
    assert ranges.images == 16
    assert ranges.kernels == [[4, 3, 3, 3], [6, 3, 3, 3], [8, 10, 3, 3]]
    pixels, same, joined = ranges.inputs
    assert pixels == same
    assert -1 <= pixels[0] < -0.9 < 0.9 < pixels[1] <= 1
    assert joined[0] == 0
    assert joined[1] > 1


def test_the_head_behind_the_last_convolution_stays_float32(file, ranges):
    model = quantise_in_place(Core().read_model(file), ranges, 8)
    rounding = [node for node in model.get_ordered_ops() if node.get_type_name() == "FakeQuantize"]
    rounded = sorted(node.input_value(0).get_node().get_type_name() for node in rounding)
    assert rounded == ["Add", "Relu", "Relu"]  # the pixels, and the two that are joined


@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_large_dense_layer_multiplies_weights_in_int8_and_values_in_float32(
    monkeypatch, is_transposed
):
    image = opset13.parameter([1, 12, 12, 3], np.float32, "image")
    pixels = opset13.transpose(image, opset13.constant([0, 3, 1, 2]))
    features = opset13.reduce_mean(convolved(pixels, 3, 8, 1.0), opset13.constant([2, 3]))
    sizes = np.arange(1, 41, dtype=np.float32)
    kernel = RANDOM.normal(0, 1, (8, 40)).astype(np.float32) * sizes
    weights = opset13.constant(np.ascontiguousarray(kernel.T) if is_transposed else kernel)
    deep = opset13.matmul(features, weights, False, is_transposed)
    small = RANDOM.normal(0, 1, (40, 5)).astype(np.float32)
    logits = opset13.matmul(deep, opset13.constant(small), False, False)
    model = Model([deep, logits], [image], "dense")
    expected = answers(model.clone())
    ranges = find_ranges(model.clone(), IMAGES)
    monkeypatch.setattr(quantization, "LARGE", kernel.size)
    quantise_in_place(model, ranges, 7)
    large, last = (node for node in model.get_ordered_ops() if node.get_type_name() == "MatMul")
    assert last.input_value(1).get_node().data.dtype == np.float32
    scaled = large.input_value(1).get_node()
    whole = scaled.input_value(0).get_node().input_value(0).get_node().data
    assert whole.dtype == np.int8
    assert (np.abs(whole).max(1 if is_transposed else 0) == 127).all()
    rounding = [node for node in model.get_ordered_ops() if node.get_type_name() == "FakeQuantize"]
    assert len(rounding) == 1  # the pixels
    assert (np.abs(answers(model) - expected) < 0.03 * sizes).all()


@pytest.mark.parametrize(("bits", "largest"), [(8, 127), (7, 63)])
def test_weights_are_whole_numbers_with_a_scale_per_output_channel(file, ranges, bits, largest):
    model = quantise_in_place(Core().read_model(file), ranges, bits)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Convolution":
            scaled = node.input_value(1).get_node()
            whole, scale = (
                scaled.input_value(0).get_node().input_value(0).get_node(),
                scaled.input_value(1).get_node(),
            )
            assert whole.data.dtype == np.int8
            assert (np.abs(whole.data).max((1, 2, 3)) == largest).all()
            assert scale.data.shape == (len(whole.data), 1, 1, 1)


@pytest.mark.parametrize(("bits", "tolerance"), [(8, 0.02), (7, 0.04)])
def test_the_answers_are_near_those_in_float32(file, ranges, bits, tolerance):
    if bits > processor.int8_weight_bits():
        pytest.skip("this processor adds products of weights of 8 bits in 16, which is too few")
    expected = answers(Core().read_model(file))
    assert np.ptp(expected, axis=0).max() > 5 * tolerance
    np.testing.assert_allclose(
        answers(quantise_in_place(Core().read_model(file), ranges, bits)), expected, atol=tolerance
    )


def inverted_residual() -> Model:
    """What MobileNet and EfficientNet-Lite are made of: expanded, filtered by channel, projected, and added."""
    image = opset13.parameter([1, 12, 12, 3], np.float32, "image")
    pixels = opset13.transpose(image, opset13.constant([0, 3, 1, 2]))
    before = convolved(pixels, 3, 4, 1.0)
    expanded = opset13.clamp(_plain(before, 4, 8), 0.0, 6.0)
    kernel = RANDOM.normal(0, 0.5, (8, 1, 1, 3, 3)).astype(np.float32)
    filtered = opset13.group_convolution(
        expanded, opset13.constant(kernel), [1, 1], [1, 1], [1, 1], [1, 1]
    )
    bias = opset13.constant(RANDOM.normal(0, 0.1, (1, 8, 1, 1)).astype(np.float32))
    limited = opset13.clamp(opset13.add(filtered, bias), 0.0, 6.0)
    joined = opset13.add(_plain(limited, 8, 4), before)
    features = opset13.reduce_mean(joined, opset13.constant([2, 3]))
    logits = opset13.matmul(
        features, opset13.constant(RANDOM.normal(0, 3, (4, 5)).astype(np.float32)), False, False
    )
    return Model([opset13.softmax(logits, 1)], [image], "inverted")


def _plain(values, channels: int, filters: int):
    kernel = RANDOM.normal(0, 1 / np.sqrt(channels), (filters, channels, 1, 1)).astype(np.float32)
    return opset13.convolution(values, opset13.constant(kernel), [1, 1], [0, 0], [0, 0], [1, 1])


def test_depthwise_convolutions_and_what_they_are_projected_by_multiply_in_int8():
    model = inverted_residual()
    exact = answers(model.clone())
    ranges = find_ranges(model.clone(), IMAGES)
    assert [len(kernel) for kernel in ranges.kernels] == [4, 4, 5, 4]
    quantised = quantise_in_place(model, ranges, 8)
    kinds = [node.get_type_name() for node in quantised.get_ordered_ops()]
    assert kinds.count("FakeQuantize") == 4
    assert np.abs(answers(quantised) - exact).max() < 0.1
