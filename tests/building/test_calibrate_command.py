"""`dogsnap calibrate`: what follows a training, of a tiny network with a box, found on photos that the tests draw."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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


@dataclass
class Run:
    """A call of the command with further breeds, and what took part in it.

    `choices`: by their id the choices and the answers they were made on; `once`: what each choice answered; `lessons`: what was
    taught; `parts`: the photos that each version was asked.
    """

    folder: Path
    written: dict[str, bytes] = field(default_factory=dict)
    given: list[calibration.Photos] = field(default_factory=list)
    choices: dict[int, tuple[calibration.Choice, calibration.Answers]] = field(default_factory=dict)
    once: list[tuple[calibration.Choice, calibration.Answers]] = field(default_factory=list)
    lessons: list[teaching.Taught] = field(default_factory=list)
    parts: list[list[dataset.Example]] = field(default_factory=list)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        calibrated, on, once = calibration.calibrate, calibration.Choice.on, calibration.Choice.once
        answered, teach = calibration._answered, teaching.Teacher.teach

        def chosen(photos: calibration.Answers, log_prior: np.ndarray) -> calibration.Choice:
            choice = on(photos, log_prior)
            self.choices[id(choice)] = choice, photos
            return choice

        patch.setattr(calibration, "calibrate", lambda *args: self.given.append(args[1]) or calibrated(*args))
        patch.setattr(calibration.Choice, "on", chosen)
        patch.setattr(calibration.Choice, "once", lambda *args: self.once.append(args) or once(*args))
        patch.setattr(calibration, "_answered", lambda *args: self.parts.append(args[2]) or answered(*args))
        patch.setattr(teaching.Teacher, "teach", lambda *args: self.lessons.append(teach(*args)) or self.lessons[-1])


@pytest.fixture(scope="module", autouse=True)
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(architectures.ARCHITECTURES, "tiny", tiny_with_box)
        accelerated.patch(patch)
        for module in (dataset, class_statistics, teaching, calibration):
            patch.setattr(module, "FOLDS", 2)  # a part takes three versions
        yield patch


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = make_data_set(tmp_path_factory.mktemp("calibrate") / "dogs", per_breed=10)
    make_frames(data, data.parent / "frames")
    make_data_set(data.parent / "none", per_breed=4)
    return data


@pytest.fixture(scope="module")
def trained(data: Path) -> Path:
    """Weights, labels and recipe, as a training leaves them."""
    folder = data.parent / "trained" / "tiny"
    recipe = replace(RECIPES["inception_v3"], architecture="tiny", size=(32, 32), validation_per_breed=4)
    keras.utils.set_random_seed(3)
    labels = [{"id": name.partition("-")[0], "name": name, "name_zh": name} for name in BREEDS]
    artefacts.finish(tiny_with_box(3), recipe, labels, [], [], folder, print)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A copy of what the training left."""
    return shutil.copytree(trained, tmp_path / "models" / "tiny")


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def run(trained: Path, data: Path, further: Path) -> Run:
    run = Run(shutil.copytree(trained, data.parent / "models" / "tiny"))
    with pytest.MonkeyPatch.context() as patch:
        run.watch(patch)
        done = calibrate(run.folder, data, "--taught", further, "--taught", further.parent / "others")
    assert done.exit_code == 0, done.output
    run.written |= {name: (run.folder / name).read_bytes() for name in WRITTEN}
    return run


def calibrate(folder: Path, data: Path, *more: object) -> Result:
    photos = ["--data", data, "--frames", data.parent / "frames", "--not-dogs", data.parent / "none"]
    work = folder.parent / "work"
    return CliRunner().invoke(main, ["calibrate", *map(str, (folder, *photos, "--work", work, *more))])


def test_the_files_say_what_they_are_made_from_and_nothing_else_is_left(run: Run) -> None:
    assert list((run.folder.parent / "work").iterdir()) == []
    weights = checksums.digest(run.folder / STORED_WEIGHTS)
    with np.load(run.folder / STATISTICS_FILE) as statistics:
        origins = [{name: str(statistics[name]) for name in ("weights", "made_by")}]
    origins += [json.loads(run.written[name]) for name in (RANGES, "scores.json")]
    assert {(each["weights"], each["made_by"]) for each in origins} == {(weights, calibration.MADE_BY)}


def test_an_interrupted_command_goes_on_with_the_answers_that_it_has_and_writes_the_same_files(
    run: Run, folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(calibration, "_fitted", interrupted)
        assert "the disk is full" in calibrate(folder, data).output
    assert not [name for name in WRITTEN if (folder / name).exists()]
    monkeypatch.setattr(calibration, "answers", interrupted)
    done = calibrate(folder, data)
    assert done.exit_code == 0, done.output
    assert {name: (folder / name).read_bytes() for name in WRITTEN} == run.written


def test_the_thresholds_are_found_on_the_answers_that_the_built_versions_give(run: Run) -> None:
    files = [example.path for example in with_whole_pictures(run.given[0].validation)]
    assert len(files) == 24
    # The choice on all photos, before further breeds were taught.
    choice, photos = next(each for each in run.choices.values() if len(each[1].breeds) == len(files))
    one = export_stored("tiny", run.folder, run.folder.parent / "built")
    versions = [one.folder.parent / "1", *merge_all(one)]
    scores = json.loads(run.written["scores.json"])
    for version, expected, stated in (
        (versions[1], choice.once(photos), scores["calibration"]),
        (versions[2], choice.twice(photos), scores["second_pass"]["decision"]),
    ):
        loaded = ExportedVersion.load(version)
        for name, value in zip(("prediction", "dog"), expected, strict=True):
            np.testing.assert_allclose(answers(loaded, files)[name], value, atol=2e-3)
        assert loaded.description["decision"].items() <= stated.items()


def test_no_photo_takes_part_in_the_choice_by_which_it_is_answered(run: Run) -> None:
    rows = [(choice, row.tobytes()) for choice, photos in run.once for row in photos.exact[photos.breeds >= 0]]
    assert len(rows) == sum(map(len, run.parts))
    chosen_on = {place: {row.tobytes() for row in photos.exact} for place, (_, photos) in run.choices.items()}
    assert not [row for choice, row in rows if row in chosen_on[id(choice)]]


def test_further_breeds_are_taught_and_their_photos_answered_by_versions_taught_without_them(run: Run) -> None:
    (lesson,), (_, *parts) = run.lessons, run.parts
    assert len(parts) == 2
    assert 15 < len(lesson.photos) <= 20
    for fold, shown in enumerate(parts):
        inside = [photo for photo, own in zip(lesson.photos, lesson.folds, strict=True) if own == fold]
        assert [photo for photo in shown if photo.breed > 2] == inside
    photos = sum(map(len, parts))
    assert photos == 24 + len(lesson.photos)
    kept = json.loads((run.folder / TAUGHT).read_text(encoding="utf-8"))
    assert [each["id"] for each in kept["taught"]] == ["violet_dog", "yellow_dog"]
    assert (kept["made_by"], kept["scores"]["validation"]["photos"]) == (calibration.MADE_BY, photos)
    right = kept["scores"]["second_pass"]["validation"]["taught"]
    assert (right["photos"], set(right["recall"])) == (photos - 24, {"violet_dog", "yellow_dog"})


def test_further_photos_by_an_index_are_fitted_on_too_and_unknown_breeds_refused(
    folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo = sorted((data / "images" / BREEDS[0]).iterdir())[-1]
    (tmp_path / "index.tsv").write_text(f"breed\tphoto\tsource\nn00000001\t{photo}\tsomewhere\n")
    given = []
    monkeypatch.setattr(calibration, "calibrate", lambda *args: given.append(args[1]) or {"validation": {"top1": 1.0}})
    done = calibrate(folder, data, "--more", tmp_path)
    assert done.exit_code == 0, done.output
    assert photo in [example.path for example in given[0].validation]
    (tmp_path / "index.tsv").write_text(f"breed\tphoto\nn00000009\t{photo}\n")
    done = calibrate(folder, data, "--more-training", tmp_path)
    assert done.exit_code == 1
    assert "index.tsv:2 does not name a photo of a breed that the model knows" in done.output


def test_breeds_that_were_taught_are_not_lost(folder: Path, data: Path, further: Path) -> None:
    (folder / TAUGHT).write_text('{"taught": [{"id": "white_dog", "name": "White dog"}]}')
    done = calibrate(folder, data, "--taught", further)
    assert done.exit_code == 1
    assert f"{folder / TAUGHT} holds White dog, of which --taught gives no photos" in done.output
    assert not (folder / "scores.json").exists()


def test_what_is_missing_is_named_before_anything_is_computed(folder: Path, data: Path) -> None:
    (folder / "labels.json").unlink()
    done = calibrate(folder, data)
    assert done.exit_code == 1
    assert "labels.json does not exist" in done.output
    done = calibrate(folder.parent / "none", data)
    assert done.exit_code == 1
    assert "cannot be written to" in done.output
