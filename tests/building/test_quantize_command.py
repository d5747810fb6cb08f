"""`dogsnap quantize`: the next version of a classifier in int8, where it is worth one; else the figures, and nothing written."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from click.testing import Result
from dogsnap.exporting.merging.merge import merge
from dogsnap.exporting.merging.options import Options
from dogsnap.exporting.quantization import Ranges
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.serving.versions.openvino_runtime import FOLDER, NetworkManifest
from dogsnap.training import int8_version
from dogsnap.training.evaluation.exported_version import ExportedVersion
from PIL import Image
from support import accelerated, exported, tiny_models
from support.command_line import dogsnap, output_of, refused
from support.photos import BREEDS, make_data_set, striped


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number in range(int8_version.LEAST_PHOTOS):
        colour = list(BREEDS.values())[number % len(BREEDS)]
        striped(colour, number, (24, 20)).save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Version 1 takes images, 2 photos in float32, and 3 in whatever was called the fastest: int8 by ranges."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    with pytest.MonkeyPatch.context() as monkeypatch:
        accelerated.patch(monkeypatch)
        merge(exported.export(folder), Options())
    return folder


@pytest.fixture
def model(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "models" / "tiny")


def quantize(version: Path, photos: Path) -> Result:
    return dogsnap("quantize", version, "--photos", photos)


def test_the_next_version_computes_in_int8_and_answers_alike(model, photos, monkeypatch):
    monkeypatch.setattr(int8_version, "LEAST_SPEEDUP", 0.0)  # a tiny network gains nothing
    said = output_of(quantize(model / "2", photos))
    assert "finding ranges on 100 photos" in said
    assert "100.0% of 100 answers agree" in said
    assert f"wrote {model / '3'}" in said
    description = json.loads((model / "3" / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    ranges = Ranges(**description.pop("int8_ranges"))
    assert [kernel[:2] for kernel in ranges.kernels] == [[8, 3], [16, 8]]
    assert description == json.loads((model / "2" / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    manifest = NetworkManifest.read(model / "3" / FOLDER)
    assert (manifest.precision, manifest.compared["f32"]) == ("int8", 2.0)
    photo = next(photos.iterdir()).read_bytes()
    before, after = [ExportedVersion.load(model / number) for number in ("2", "3")]
    assert after.servable.runtime["precision"] == "int8"
    difference = np.abs(before.answer(photo)["prediction"] - after.answer(photo)["prediction"])
    assert 0 < difference.max() < 0.05
    refused(quantize(model / "3", photos), "computes in int8 already")


def test_what_is_not_faster_or_answers_otherwise_is_told_and_not_written(
    model, photos, monkeypatch
):
    monkeypatch.setattr(int8_version, "LEAST_SPEEDUP", 1000.0)
    said = refused(quantize(model / "2", photos), "no version is written")
    assert "times as fast, and 100.0% of 100 answers agree; asked are 1000 times and 99%" in said
    monkeypatch.setattr(int8_version, "LEAST_SPEEDUP", 0.0)
    monkeypatch.setattr(int8_version, "LEAST_AGREEMENT", 1.1)
    refused(quantize(model / "2", photos), "no version is written")
    assert sorted(path.name for path in model.iterdir()) == ["1", "2"]


def no_network(model: Path, photos: Path) -> tuple[Path, Path]:
    shutil.rmtree(model / "2" / FOLDER)
    (model / "2" / "assets.extra" / "SHA256SUMS").unlink()
    return model / "2", photos


def no_classifier(model: Path, photos: Path) -> tuple[Path, Path]:
    return tiny_models.half_plus(1, model.parent / "half" / "1"), photos


def few_photos(model: Path, photos: Path) -> tuple[Path, Path]:
    few = make_data_set(model.parent / "few", per_breed=3)
    (few / "images" / "broken.jpg").write_bytes(b"no photo")
    return model / "2", few


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (few_photos, "has 21 photos that can be read; expected at least 200"),
        (lambda model, photos: (model / "2", model), "holds no photo"),
        (lambda model, photos: (model / "1", photos), "makes a version that takes photos"),
        (lambda model, photos: (model / "9", photos), "is no version"),
        (no_classifier, "has no labels"),
        (no_network, "has no network for OpenVINO"),
    ],
)
def test_what_cannot_be_quantised_is_refused_in_a_sentence_and_nothing_is_written(
    model, photos, given, words
):
    version, folder = given(model, photos)
    before = sorted(model.parent.rglob("*"))
    refused(quantize(version, folder), words)
    assert sorted(model.parent.rglob("*")) == before


def test_the_former_options_say_where_they_went(model, photos):
    refused(dogsnap("quantize", model / "1", "--data", photos), "python -m lab calibrate")


def test_a_fast_version_is_made_from_the_ranges_that_its_source_brings(model, photos, monkeypatch):
    monkeypatch.setattr(int8_version, "LEAST_SPEEDUP", 0.0)
    output_of(quantize(model / "2", photos))
    ranges = json.loads((model / "3" / DESCRIPTION_FILE).read_text())["int8_ranges"]
    file = model / "1" / DESCRIPTION_FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), "int8_ranges": ranges}))
    accelerated.patch(monkeypatch)
    said = output_of(dogsnap("merge", "--fast", model / "1"))
    assert "OpenVINO runs the network in int8: 6 times as fast as TensorFlow" in said


NETWORKS = {"EfficientNetB0": None, "MobileNetV2": "tf", "ResNet50": "caffe"}
SIDE = 128


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_keras_are_written_in_int8_or_the_figures_say_why_not(
    name, photos, tmp_path
) -> None:
    """Random weights, statistics of these photos, and a head that tells the colours apart."""
    keras.utils.set_random_seed(1)
    make = getattr(keras.applications, name)
    network = make(weights=None, include_top=False, pooling="avg", input_shape=(SIDE, SIDE, 3))
    files = sorted(photos.iterdir(), key=lambda file: int(file.stem))
    images = np.stack([np.asarray(Image.open(file).resize((SIDE, SIDE))) for file in files])
    images = images.astype(np.float32)
    if NETWORKS[name]:
        images = keras.applications.imagenet_utils.preprocess_input(images, mode=NETWORKS[name])
    for layer in network.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    network(images[:50], training=True)
    features = network.predict(images, verbose=0)
    mean, deviation = features.mean(0), features.std(0) + 1e-6
    wanted = np.eye(3)[np.arange(len(files)) % 3]
    scaled = (features - mean) / deviation
    kernel = np.linalg.solve(
        scaled.T @ scaled + 1000 * np.eye(scaled.shape[1]), scaled.T @ (wanted - 1 / 3)
    )
    kernel = 20 * kernel / deviation[:, np.newaxis]
    head = keras.layers.Dense(3, activation="softmax")
    classifier = keras.Model(network.input, head(network.output))
    head.set_weights([kernel, -mean @ kernel])
    model = tmp_path / name
    classifier.export(model / "1", verbose=False)
    options = Options(labels=exported.LABELS, preprocessing=NETWORKS[name])
    found = int8_version.quantize(merge(model / "1", options), photos)
    is_worth_it = found.speedup >= 1.3 and found.agreement >= 0.99
    assert (found.version is not None) == is_worth_it, found
    assert found.photos == 100
