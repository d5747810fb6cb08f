"""`dogsnap quantize`: ranges of a tiny version, found on photos that are not for validation."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from dogsnap import processor
from dogsnap.exporting.quantization import Ranges
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.serving.versions.openvino_runtime import FOLDER, NetworkManifest
from support import accelerated, exported
from support.command_line import dogsnap, output_of, refused
from support.photos import make_data_set


@pytest.fixture
def version(tmp_path: Path) -> Path:
    folder = exported.export(tmp_path / "models" / "tiny")
    describe(folder, recipe={"validation_per_breed": 1, "seed": 1})
    return folder


def describe(version: Path, **more: object) -> None:
    file = version / DESCRIPTION_FILE
    file.write_text(
        json.dumps(json.loads(file.read_text(encoding="utf-8")) | more), encoding="utf-8"
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data_set(tmp_path / "dogs", per_breed=3)


def quantize(version: Path, data: Path, *more: object) -> Result:
    return dogsnap("quantize", version, "--data", data, "--out", version.parent, *more)


def test_ranges_are_found_on_photos_that_are_not_for_validation(version, data):
    said = output_of(quantize(version, data))
    ranges = Ranges(**json.loads((version.parent / "int8_ranges.json").read_text()))
    assert [kernel[:2] for kernel in ranges.kernels] == [[8, 3], [16, 8]]
    assert ranges.images == 6
    assert "finding ranges on 6 photos" in said


def test_a_fast_version_is_made_from_the_ranges_that_its_source_brings(version, data, monkeypatch):
    describe(version, scores={"weights": "a" * 64})
    quantize(version, data)
    assert (
        json.loads((version.parent / "int8_ranges.json").read_text(encoding="utf-8"))["weights"]
        == "a" * 64
    )
    describe(
        version,
        int8_ranges=json.loads((version.parent / "int8_ranges.json").read_text(encoding="utf-8")),
    )
    accelerated.patch(monkeypatch)
    said = output_of(dogsnap("merge", "--fast", version))
    assert "OpenVINO runs the network in int8: 6 times as fast as TensorFlow" in said
    manifest = NetworkManifest.read(version.parent / "2" / FOLDER)
    assert manifest.weight_bits == processor.int8_weight_bits()
    assert manifest.compared == {
        "f32": 2.0,
        "bf16": 4.0,
        "int8": 6.0,
    }


@pytest.mark.parametrize(
    ("change", "flags", "words"),
    [
        (
            lambda version, data: (data / "train_list.txt").unlink(),
            [],
            "train_list.txt does not exist",
        ),
        (
            lambda version, data: (version / DESCRIPTION_FILE).write_text("{}"),
            [],
            "does not say 'recipe'",
        ),
        (
            lambda version, data: describe(version, recipe={"validation_per_breed": 3, "seed": 1}),
            [],
            "are for validation; expected some more to find the ranges on",
        ),
        (
            lambda version, data: make_data_set(data.parent / "whole", per_breed=3),
            ["--data", "whole", "--photos", "1"],
            "--photos is 1; expected at least 2, one from each folder of --data",
        ),
    ],
)
def test_what_is_missing_or_too_little_is_named(version, data, monkeypatch, change, flags, words):
    monkeypatch.chdir(data.parent)
    change(version, data)
    refused(quantize(version, data, *flags), words)
    assert not (version.parent / "int8_ranges.json").exists()
