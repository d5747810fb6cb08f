"""`dogsnap calibrate`: what follows a training, of a tiny network with a box, found on photos that the tests draw."""

import dataclasses
import json
from pathlib import Path

import accelerated
import keras
import numpy as np
import pytest
from click.testing import CliRunner, Result
from photos import make_data_set, make_frames
from tiny_network import tiny_with_box

from backend.building.export import export_stored
from backend.building.merging.merge import merge_all
from backend.building.quantization import RANGES
from backend.cli import main
from backend.evaluation import calibration
from backend.evaluation.exported_version import ExportedVersion, answers
from backend.fitting import artefacts
from backend.fitting.class_statistics import STATISTICS_FILE
from backend.fitting.recipes import RECIPES
from backend.fitting.trainer import with_whole_pictures
from backend.networks import architectures
from backend.networks.architectures import STORED_WEIGHTS
from backend.serving.versions import checksums

WRITTEN = ("scores.json", RANGES, STATISTICS_FILE)
BREEDS = ("n00000001-red_hound", "n00000002-green_terrier", "n00000003-blue_spaniel")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny_with_box)
    accelerated.patch(monkeypatch)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = make_data_set(tmp_path / "dogs", per_breed=10)
    make_frames(data, tmp_path / "frames")
    make_data_set(tmp_path / "none", per_breed=4)
    return data


@pytest.fixture
def folder(data: Path) -> Path:
    """Weights, labels and recipe, as a training leaves them."""
    folder = data.parent / "models" / "tiny"
    recipe = dataclasses.replace(RECIPES["inception_v3"], architecture="tiny", size=(32, 32), validation_per_breed=4)
    keras.utils.set_random_seed(3)
    labels = [{"id": name.partition("-")[0], "name": name, "name_zh": name} for name in BREEDS]
    artefacts.finish(tiny_with_box(3), recipe, labels, [], [], folder, print)
    return folder


def calibrate(folder: Path, *more: object) -> Result:
    root = folder.parents[1]
    photos = [
        "--data",
        root / "dogs",
        "--frames",
        root / "frames",
        "--not-dogs",
        root / "none",
        "--work",
        root / "work",
    ]
    return CliRunner().invoke(main, ["calibrate", *map(str, (folder, *photos, *more))])


def test_the_same_photos_give_the_same_files_which_say_what_they_are_made_from(folder: Path) -> None:
    done = calibrate(folder)
    assert done.exit_code == 0, done.output
    first = {name: (folder / name).read_bytes() for name in WRITTEN}
    assert calibrate(folder).exit_code == 0
    assert {name: (folder / name).read_bytes() for name in WRITTEN} == first
    assert list((folder.parents[1] / "work").iterdir()) == []
    weights = checksums.digest(folder / STORED_WEIGHTS)
    with np.load(folder / STATISTICS_FILE) as statistics:
        origins = [{name: str(statistics[name]) for name in ("weights", "made_by")}]
    origins += [json.loads(first[name]) for name in (RANGES, "scores.json")]
    assert {(each["weights"], each["made_by"]) for each in origins} == {(weights, calibration.MADE_BY)}


def test_the_thresholds_are_found_on_the_answers_that_the_built_versions_give(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, on, given = [], calibration.Choice.on, []
    calibrated = calibration.calibrate
    monkeypatch.setattr(calibration, "calibrate", lambda *args: given.append(args[1]) or calibrated(*args))
    monkeypatch.setattr(calibration.Choice, "on", lambda *args: made.append((on(*args), args[0])) or made[-1][0])
    assert calibrate(folder).exit_code == 0
    choice, photos = max(made, key=lambda each: len(each[1].breeds))
    files = [example.path for example in with_whole_pictures(given[0].validation)]
    assert len(files) == len(photos.breeds) == 24
    one = export_stored("tiny", folder, folder.parents[1] / "built")
    versions = [one.folder.parent / "1", *merge_all(one)]
    scores = json.loads((folder / "scores.json").read_text())
    for version, expected, stated in (
        (versions[1], choice.once(photos), scores["calibration"]),
        (versions[2], choice.twice(photos), scores["second_pass"]["decision"]),
    ):
        loaded = ExportedVersion.load(version)
        for name, value in zip(("prediction", "dog"), expected, strict=True):
            np.testing.assert_allclose(answers(loaded, files)[name], value, atol=2e-3)
        assert loaded.description["decision"].items() <= stated.items()


def test_an_interrupted_command_goes_on_with_the_answers_that_it_has(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(calibration, "_fitted", interrupted)
        assert "the disk is full" in calibrate(folder).output
    assert not [name for name in WRITTEN if (folder / name).exists()]
    monkeypatch.setattr(calibration, "answers", interrupted)
    done = calibrate(folder)
    assert done.exit_code == 0, done.output


def test_no_photo_takes_part_in_the_choice_by_which_it_is_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen_on, once = {}, calibration.Choice.once
    on = calibration.Choice.on

    def remembered(photos, log_prior):
        choice = on(photos, log_prior)
        chosen_on[id(choice)] = (choice, {row.tobytes() for row in photos.exact})
        return choice

    answered = []
    monkeypatch.setattr(calibration.Choice, "on", remembered)
    monkeypatch.setattr(
        calibration.Choice, "once", lambda self, photos: answered.append((id(self), photos)) or once(self, photos)
    )
    assert calibrate(folder).exit_code == 0
    rows = [(choice, row.tobytes()) for choice, photos in answered for row in photos.exact[photos.breeds >= 0]]
    assert len(rows) == 24
    assert not [row for choice, row in rows if row in chosen_on[choice][1]]


def test_further_photos_by_an_index_are_fitted_on_too_and_unknown_breeds_refused(folder: Path, data: Path) -> None:
    photo = sorted((data / "images" / BREEDS[0]).iterdir())[-1]
    more = data.parent / "more"
    more.mkdir()
    (more / "index.tsv").write_text(f"breed\tphoto\tsource\nn00000001\t{photo}\tsomewhere\n")
    done = calibrate(folder, "--more", more)
    assert done.exit_code == 0, done.output
    assert json.loads((folder / "scores.json").read_text())["validation"]["photos"] == 25
    (more / "index.tsv").write_text(f"breed\tphoto\nn00000009\t{photo}\n")
    done = calibrate(folder, "--more-training", more)
    assert done.exit_code == 1
    assert "index.tsv:2 does not name a photo of a breed that the model knows" in done.output


def test_what_is_missing_is_named_before_anything_is_computed(folder: Path) -> None:
    (folder / "labels.json").unlink()
    done = calibrate(folder)
    assert done.exit_code == 1
    assert "labels.json does not exist" in done.output
    done = calibrate(folder.parent / "none")
    assert done.exit_code == 1
    assert "cannot be written to" in done.output
