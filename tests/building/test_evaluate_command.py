"""`dogsnap evaluate`: what it prints, writes and refuses, on a tiny version and photos that the tests draw."""

import json
import re
from pathlib import Path

import pytest
from click.testing import Result
from dogsnap.exporting.export import Stored
from dogsnap.networks.temperature import Calibration
from support import spotting
from support.command_line import dogsnap, output_of, refused
from support.exported import DESCRIPTION, LABELS, export
from support.photos import make_data_set


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data_set(tmp_path / "dogs", per_breed=2)


def _evaluate(version: Path, data: Path, *more: object) -> Result:
    return dogsnap("evaluate", version, "--data", data, *more)


def test_the_scores_of_the_test_list_are_printed_and_written_and_bad_photos_named(
    version: Path, data: Path
) -> None:
    no_dogs = data / "images" / "n00000003-blue_spaniel"
    for bad in (
        data / "images" / "n00000001-red_hound" / "n00000001_3.jpg",
        no_dogs / "n00000003_1.jpg",
    ):
        bad.write_bytes(b"no photo")
    file = data.parent / "scores.json"
    said = output_of(_evaluate(version, data, "--not-dogs", no_dogs, "--json", file))
    assert "n00000001_3.jpg" in said
    assert "n00000003_1.jpg" in said
    scores = json.loads(file.read_text(encoding="utf-8"))
    assert scores["photos"] == 11
    assert 0 <= scores["top1"] <= 1
    assert scores["not_dogs"]["photos"] == 2


def test_a_folder_without_lists_is_taken_whole_and_a_named_list_has_to_be_there(
    version: Path, data: Path
) -> None:
    for name in ("train_list", "test_list"):
        (data / f"{name}.txt").unlink()
    assert f"on 18 photos of {data}" in _evaluate(version, data).output
    refused(_evaluate(version, data, "--list", "tset_list"), "tset_list.txt does not exist")
    refused(
        _evaluate(version, data / "nowhere"),
        f"{data}/nowhere holds no photo; expected .jpg, ",
    )
    refused(
        _evaluate(version, data, "--json", data / "none" / "scores.json"),
        "No such file or directory",
    )


def test_photos_may_be_named_by_an_index(version: Path, data: Path) -> None:
    (data / "test_list.txt").unlink()
    photos = sorted((data / "images").rglob("*.jpg"))[:4]
    rows = [f"{photo.name.partition('_')[0]}\t{photo.relative_to(data)}" for photo in photos]
    (data / "index.tsv").write_text("breed\tphoto\n" + "\n".join(rows) + "\n")
    assert f"on 4 photos of {data}" in _evaluate(version, data).output


def test_levels_and_what_dogs_of_other_breeds_are_taken_for_are_printed(
    tmp_path: Path, data: Path
) -> None:
    thresholds = {
        "dog_threshold": 0.1,
        "confident_threshold": 0.6,
        "group_threshold": 0.8,
        "set_threshold": 0.1,
        "unknown_threshold": 0.0,
    }
    members = [label["id"] for label in LABELS[:2]]
    group = {"id": "warm", "name": "warm dog", "name_zh": "暖色犬", "members": members}
    description = {**DESCRIPTION, "decision": thresholds, "groups": [group]}
    network = spotting.network()
    version = Stored(network, Calibration(1.0), description).export(tmp_path / "tiny").folder
    others = tmp_path / "others"
    (others / "shiba").mkdir(parents=True)
    red = spotting.photo([("red hound", (0, 0, 96, 96))], size=(96, 96))
    (others / "shiba" / "1.png").write_bytes(red)
    said = output_of(_evaluate(version, data, "--other-dogs", others))
    assert "called a dog                100.00%" in said
    assert re.search(r"^breed +\d+\.\d% of the photos, right \d+\.\d%$", said, re.MULTILINE)
    assert re.search(r"^unknown +0\.0% of the photos$", said, re.MULTILINE)
    assert re.search(r"sets hold the right breed in \d+\.\d%; mean size \d", said)
    assert "told of breeds it does not know: breed 100.0%\n" in said
    assert "surely taken: shiba for red hound (1)" in said


def test_lists_and_tables_are_read_as_windows_writes_them(version: Path, data: Path) -> None:
    file = data / "test_list.txt"
    photos = file.read_text(encoding="utf-8").splitlines()
    lines = "\r\n".join(photo.replace("/", "\\") for photo in photos)
    file.write_text(lines, encoding="utf-16")
    assert "no such file" not in output_of(_evaluate(version, data))
    table = data / "images" / "photos.csv"
    rows = [f"{photo};{photo.partition('/')[0]}" for photo in photos]
    table.write_text("\r\n".join(["image;label", *rows]), encoding="utf-8-sig")
    said = output_of(_evaluate(version, table))
    assert f"on {len(photos)} photos of {table}" in said


def test_no_command_ends_in_a_stack_trace_for_a_file_that_is_nested_too_deep(
    version: Path, tmp_path: Path
) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    refused(dogsnap("merge", version, "--description", tmp_path / "deep.json"), "recursion")
    refused(dogsnap("models", "apply", tmp_path / "deep.json"), "recursion")


def test_a_file_of_another_tool_is_called_so_in_place_of_a_version(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    said = "model.tflite is a model for TensorFlow Lite"
    refused(dogsnap("quantize", tmp_path / "1", "--photos", tmp_path), said)
