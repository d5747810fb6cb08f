"""`dogsnap calibrate`: what follows a training, of a tiny network with a box, found on photos that the tests draw."""

import dataclasses
import json
from pathlib import Path

import accelerated
import keras
import numpy as np
import pytest
from click.testing import CliRunner, Result
from photos import make_data_set, make_frames, striped
from tiny_network import tiny_with_box

from backend.building import TAUGHT, teaching
from backend.building.export import export_stored
from backend.building.merging.merge import merge_all
from backend.building.quantization import RANGES
from backend.cli import main
from backend.evaluation import calibration
from backend.evaluation.exported_version import ExportedVersion, answers
from backend.fitting import artefacts, class_statistics, dataset
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


@pytest.fixture
def further(data: Path) -> Path:
    """Photos of two breeds more and of one that is not taught, by an index with sources."""
    folder, lines = data.parent / "further", ["breed\tphoto\tsource"]
    for breed, colour in (("yellow_dog", (220, 210, 50)), ("violet_dog", (150, 50, 200)), ("grey_dog", (90, 90, 90))):
        (folder / breed).mkdir(parents=True)
        for number in range(10):
            striped(colour, 50 + sum(colour) + number).save(folder / breed / f"{number}.jpg")
            lines.append(f"{breed}\t{breed}/{number}.jpg\tplace {number // 2}")
    (folder / "index.tsv").write_text("\n".join(lines[:21]) + "\n", encoding="utf-8")
    (data.parent / "others").mkdir()
    others = [f"{name}\t{folder / photo}\t{place}" for name, photo, place in (line.split("\t") for line in lines[21:])]
    (data.parent / "others" / "index.tsv").write_text("\n".join([lines[0], *others]) + "\n", encoding="utf-8")
    return folder


def test_further_breeds_are_taught_and_their_photos_answered_by_versions_taught_without_them(
    folder: Path, further: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (dataset, class_statistics, teaching, calibration):
        monkeypatch.setattr(module, "FOLDS", 2)  # a part takes three versions
    taught, answered = [], []
    teach, answer = teaching.Teacher.teach, calibration._answered
    monkeypatch.setattr(teaching.Teacher, "teach", lambda *args: taught.append(teach(*args)) or taught[-1])
    monkeypatch.setattr(calibration, "_answered", lambda *args: answered.append(args[2]) or answer(*args))
    done = calibrate(folder, "--taught", further, "--taught", further.parent / "others")
    assert done.exit_code == 0, done.output
    (lesson,), (_, *parts) = taught, answered
    assert len(parts) == 2
    assert 15 < len(lesson.photos) <= 20
    for fold, shown in enumerate(parts):
        inside = [photo for photo, own in zip(lesson.photos, lesson.folds, strict=True) if own == fold]
        assert [photo for photo in shown if photo.breed > 2] == inside
    photos = sum(map(len, parts))
    assert photos == 24 + len(lesson.photos)
    kept = json.loads((folder / TAUGHT).read_text(encoding="utf-8"))
    assert [each["id"] for each in kept["taught"]] == ["violet_dog", "yellow_dog"]
    assert (kept["made_by"], kept["scores"]["validation"]["photos"]) == (calibration.MADE_BY, photos)
    right = kept["scores"]["second_pass"]["validation"]["taught"]
    assert (right["photos"], set(right["recall"])) == (photos - 24, {"violet_dog", "yellow_dog"})


def test_breeds_that_were_taught_are_not_lost(folder: Path, further: Path) -> None:
    (folder / TAUGHT).write_text('{"taught": [{"id": "white_dog", "name": "White dog"}]}')
    done = calibrate(folder, "--taught", further)
    assert done.exit_code == 1
    assert f"{folder / TAUGHT} holds White dog, of which --taught gives no photos" in done.output
    assert not (folder / "scores.json").exists()


def test_what_is_missing_is_named_before_anything_is_computed(folder: Path) -> None:
    (folder / "labels.json").unlink()
    done = calibrate(folder)
    assert done.exit_code == 1
    assert "labels.json does not exist" in done.output
    done = calibrate(folder.parent / "none")
    assert done.exit_code == 1
    assert "cannot be written to" in done.output
