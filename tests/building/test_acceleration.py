"""Whether a version brings a second runtime along is decided by measuring: faster, and the same answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting import acceleration
from dogsnap.exporting.acceleration import Acceleration, Steps, accelerate, trial_images
from dogsnap.exporting.drawn_pictures import drawn_pictures
from dogsnap.exporting.freezing import Source, freeze
from dogsnap.exporting.quantization import Ranges
from dogsnap.serving.versions.openvino_runtime import (
    FOLDER,
    NETWORK,
    IncompatibleNetwork,
    Network,
    NetworkManifest,
    import_openvino,
)
from dogsnap.training.ranges import find_ranges
from support import accelerated, exported
from support.command_line import dogsnap, output_of

pytestmark = pytest.mark.early


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A tiny version, which is too small for its export to try another runtime."""
    return exported.export(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def network(source) -> Acceleration:
    graph = Source(source).freeze_signature("scores")
    return Acceleration(graph, graph.function(), {"scores": Steps("image", ["dog", "prediction"])})


@pytest.fixture(scope="module")
def ranges(network, tmp_path_factory) -> Ranges:
    folder = tmp_path_factory.mktemp("float32")
    acceleration.convert(network.graph, folder)
    return find_ranges(
        import_openvino().Core().read_model(folder / "network.xml"),
        trial_images((*exported.SIZE, 3), 8),
    )


def shifted(network: Acceleration) -> Acceleration:
    def other(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {name: value + 0.002 for name, value in network.reference(images).items()}

    return replace(network, reference=other)


def unknown_operation(_: Acceleration) -> Acceleration:
    def unknown(**inputs):
        return {"y": tf.reduce_mean(tf.raw_ops.BesselI0e(x=inputs["image"]), axis=[1, 2])}

    graph = freeze(
        tf.function(unknown).get_concrete_function(image=tf.TensorSpec((None, 8, 8, 3), tf.float32))
    )
    return Acceleration(graph, graph.function(), {"y": Steps("image", ["y"])})


@pytest.mark.parametrize(
    ("change", "speedup", "reason"),
    [
        (
            lambda network: network,
            1.04,
            "OpenVINO in f32 is 1.04 times as fast, expected at least 1.05",
        ),
        (
            shifted,
            2.0,
            "OpenVINO's answers differ from TensorFlow's by 0.002, expected at most 0.001",
        ),
        (unknown_operation, 2.0, ""),
    ],
)
def test_a_network_that_gains_nothing_or_does_not_fit_stays_tensorflows(
    network, tmp_path, monkeypatch, change, speedup, reason
):
    accelerated.patch(monkeypatch, speedup)
    said = []
    assert not accelerate(tmp_path, change(network), said.append)
    assert len(said) == 1
    assert said[0].startswith(f"TensorFlow runs the network: {reason}")
    assert not (tmp_path / FOLDER).exists()


def test_the_stopwatch_gives_a_ratio_of_processor_times(network, tmp_path, monkeypatch):
    assert not accelerate(tmp_path, network)  # too small to be tried
    monkeypatch.setattr(acceleration, "SMALLEST_BYTES", 0)
    monkeypatch.setattr(acceleration, "LEAST_SPEEDUP", 0.0)
    accelerate(tmp_path, network)
    assert 0.01 < NetworkManifest.read(tmp_path / FOLDER).speedup < 100


def test_a_fast_version_that_gains_too_little_is_not_written_and_that_is_no_error(
    source, monkeypatch
):
    accelerated.patch(monkeypatch, 2.0, 2.8)
    said = output_of(dogsnap("merge", "--fast", source))
    assert "no version is written: bf16 is 1.4 times as fast as f32 on this processor" in said
    assert [folder.name for folder in source.parent.iterdir()] == ["1"]


@pytest.mark.parametrize(
    ("speedups", "chosen"),
    [
        ((1.4,), "f32"),
        ((2.0, 2.8), "f32"),  # bf16 gains too little
        ((2.0, 4.0, 6.0), "int8"),
        ((2.0, 6.0, 4.0), "bf16"),
        ((4.0, 2.0, 6.0), "int8"),
    ],
)
def test_the_fastest_precision_is_taken_and_what_was_measured_is_told(
    network, ranges, tmp_path, monkeypatch, speedups, chosen
):
    accelerated.patch(monkeypatch, *speedups)
    said, three = [], len(speedups) == 3
    tried = replace(
        network, fast=len(speedups) > 1, ranges=ranges if three else None, required=three
    )
    assert accelerate(tmp_path, tried, said.append)
    manifest = NetworkManifest.read(tmp_path / FOLDER)
    compared = dict(zip(("f32", "bf16", "int8"), speedups, strict=False))
    assert (manifest.precision, manifest.speedup) == (chosen, compared[chosen])
    assert (sorted(manifest.outputs), "OpenVINO" in manifest.measured_by) == (
        ["dog", "prediction"],
        True,
    )
    if chosen == "f32":
        assert manifest.largest_difference <= manifest.tolerance == 1e-3
        assert (
            f"OpenVINO runs the network in f32: {speedups[0]:g} times as fast as TensorFlow, answers"
            in said[-1]
        )
        return
    assert manifest.compared == compared
    reason = manifest.summary()["reason"]
    for name, speedup in compared.items():
        assert (
            f"{name} is {speedup:g} times" if name == chosen else f"{name} {speedup:g}"
        ) in reason
    files = sorted(file.name for file in (tmp_path / FOLDER).iterdir())
    assert files == ["around", "network.bin", "network.xml", "runtime.json"]


def test_ranges_of_another_network_leave_int8_out_and_say_so(
    network, ranges, tmp_path, monkeypatch
):
    accelerated.patch(monkeypatch, 2.0, 4.0)
    said = []
    other = replace(ranges, kernels=ranges.kernels[1:], inputs=ranges.inputs[1:])
    assert accelerate(tmp_path, replace(network, fast=True, ranges=other), said.append)
    assert NetworkManifest.read(tmp_path / FOLDER).precision == "bf16"
    assert said[0].startswith("int8 is not used: the ranges are of another network")


def test_a_network_is_refused_by_the_breeds_that_it_names(network, tmp_path):
    outputs = acceleration.convert(network.graph, tmp_path)
    exact = Network(tmp_path / NETWORK, "f32", outputs, one_caller=True)
    assert acceleration._difference_of_names(exact, network.reference, 0.3) < 1e-3

    def others(images: tf.Tensor) -> dict[str, tf.Tensor]:
        named = tf.argmax(network.reference(images)["prediction"], -1)
        return {"prediction": tf.roll(tf.one_hot(named, 3), 1, -1)}

    with pytest.raises(
        IncompatibleNetwork,
        match=r"changes \d+% of its answers on 24 test pictures .*the ranges are not of this network",
    ):
        acceleration._difference_of_names(exact, others, 0.3)


def test_drawn_pictures_are_the_same_again_and_differ_from_each_other_and_trial_images_use_the_whole_range():
    pictures, images = drawn_pictures((32, 24)), trial_images((32, 24, 3))
    assert (pictures.shape, images.shape) == ((24, 32, 24, 3), (4, 32, 24, 3))
    for each in (pictures, images):
        assert 0 <= each.min() < each.max() <= 1
    assert np.ptp(images) > 0.6
    np.testing.assert_array_equal(pictures, drawn_pictures((32, 24)))
    assert min(np.abs(pictures[0] - other).mean() for other in pictures[1:]) > 0.05
