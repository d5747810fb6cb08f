"""Comparison: agreement, difference, accuracy and time of two versions on the same photos."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.training.dataset import DatasetError
from dogsnap.training.evaluation.agreement import compare
from dogsnap.training.evaluation.exported_version import ExportedVersion
from dogsnap.training.evaluation.labelled_photos import find_examples, spread
from support.command_line import dogsnap, output_of, refused
from support.exported import LABELS, export, network, photos


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Version 1, its merged form 2, and 3, which calls everything by what is least probable to the others."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    merge(export(folder), Options())
    other = network()
    other.get_layer("breeds").set_weights(
        [-weight for weight in other.get_layer("breeds").get_weights()]
    )
    export(folder, other)
    return folder


@pytest.fixture(scope="module")
def versions(model) -> list[ExportedVersion]:
    return [ExportedVersion.load(model / str(number)) for number in (1, 2, 3)]


@pytest.fixture
def data(tmp_path) -> Path:
    """Twelve photos, each in the folder of one of the three breeds in turn, and one in a folder that names none."""
    for number, photo in enumerate(photos(12)):
        folder = tmp_path / "images" / f"{LABELS[number % 3]['id']}-Some_Name"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(photo)
    (tmp_path / "images" / "others").mkdir()
    (tmp_path / "images" / "others" / "x.png").write_bytes(photos(1)[0])
    return tmp_path


def run(model: Path, data: Path, *arguments: object) -> Result:
    return dogsnap("compare", "--data", data, "--model", model, *arguments)


def measured(model: Path, data: Path, *arguments: object) -> tuple[str, dict]:
    """What the command said, and wrote as JSON."""
    said = output_of(run(model, data, *arguments, "--json", data / "measured.json"))
    return said, json.loads((data / "measured.json").read_text(encoding="utf-8"))


def examples_of(data: Path, list_name: str | None = None) -> list:
    return find_examples(data, list_name, LABELS, lambda _: None)


def test_the_merged_version_agrees_with_its_source_and_what_is_no_photo_is_named_and_left_out(
    model, data
) -> None:
    (data / "images" / "broken.jpg").write_bytes(b"no photo")
    said, result = measured(model, data, 1, 2)
    for words in (
        f"{data / 'images' / 'broken.jpg'} cannot be decoded and is left out",
        f"versions 1 and 2 of {model} on 13 photos of {data}",
        "same top class              100.00%",
        "mean absolute difference",
        "top-1 of",
        "median time a photo",
    ):
        assert words in said
    assert "with another top class" not in said
    assert (result["versions"], result["photos"], result["agreement"]) == ([1, 2], 13, 1.0)
    assert result["mean_difference"] <= result["largest_difference"] < 1e-5
    assert all(time > 0 for time in result["milliseconds"])
    assert measured(model, data / "images" / "others", 1, 2)[1]["accuracy"] is None


def test_versions_that_differ_are_compared_and_the_photos_that_differ_are_listed(
    model, versions, data
) -> None:
    said, result = measured(model, data, 1, 3, "--show", 2)
    files, differing = [each.path for each in examples_of(data)], result["differing"]
    pair = (versions[0], versions[2])
    answers = np.array(
        [[version.answer(file.read_bytes())["prediction"][0] for file in files] for version in pair]
    )
    best, ids = answers.argmax(-1), [label["id"] for label in LABELS]
    assert result["agreement"] == pytest.approx((best[0] == best[1]).mean())
    assert result["mean_difference"] == pytest.approx(np.abs(answers[0] - answers[1]).mean())
    assert len(differing) == (best[0] != best[1]).sum() > 2
    names = {label["id"]: label["name"] for label in LABELS}
    for each in differing:
        row = files.index(Path(each["photo"]))
        assert each["names"] == [LABELS[place]["name"] for place in best[:, row]]
        assert each["probabilities"] == pytest.approx(answers[:, row].max(-1), abs=1e-6)
        assert each["right"] == names.get(files[row].parent.name.split("-")[0], "")
    surest = [sum(each["probabilities"]) for each in differing]
    assert surest == sorted(surest, reverse=True)
    labelled = [row for row, file in enumerate(files) if file.parent.name != "others"]
    true = [ids.index(files[row].parent.name.split("-")[0]) for row in labelled]
    assert result["accuracy"] == pytest.approx((best[:, labelled] == true).mean(-1))
    assert result["labelled"] == 12
    assert f"{len(differing)} photos with another top class" in said
    lines = [line for line in said.splitlines() if " | " in line]
    assert len(lines) == 2
    for line, each in zip(lines, differing, strict=False):
        assert str(Path(each["photo"]).relative_to(data)) in line
        assert all(name in line for name in each["names"])
    assert f"and {len(differing) - 2} more; --show {len(differing)} lists all" in said


def test_photos_that_cannot_be_decoded_are_no_comparison(versions, tmp_path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    with pytest.raises(ValueError, match="none of 1 files can be decoded"):
        compare(versions[0], versions[1], examples_of(tmp_path))


def test_fewer_photos_are_spread_over_all_and_come_from_the_list_where_there_is_one(data) -> None:
    examples = examples_of(data)
    few = spread(examples, 5)
    assert (len(few), few[0], few[-1]) == (5, examples[0], examples[-1])
    named = [f"{LABELS[number % 3]['id']}-Some_Name/{number}.png" for number in (7, 2, 4)]
    (data / "test_list.txt").write_text("\n".join(named) + "\n")
    listed = examples_of(data, "test_list")
    assert [each.path for each in listed] == [data / "images" / name for name in named]
    assert [each.breed for each in listed] == [1, 2, 1]
    with pytest.raises(DatasetError, match=r"train_list.txt does not exist"):
        examples_of(data, "train_list")


def test_the_command_says_in_a_sentence_what_is_missing(model, data, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, first, said in (
        (data, 9, "it holds no saved_model.pb"),
        (tmp_path / "empty", 1, "holds no photo"),
    ):
        refused(run(model, folder, first, 2), said)


def test_of_two_versions_that_which_was_changed_is_named(model, tmp_path):
    changed = shutil.copytree(model / "1", tmp_path / "1")
    with (changed / "saved_model.pb").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ValueError, match=rf"{changed}: saved_model.pb was changed"):
        ExportedVersion.load(changed)
