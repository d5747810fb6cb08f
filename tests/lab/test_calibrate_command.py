"""`python -m lab calibrate`: what follows a training, of a tiny network with a box, found on photos that the tests draw."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from click.testing import Result
from dogsnap.exporting import SECOND_OPINION, TAUGHT, phone
from dogsnap.exporting.export import (
    STATISTICS_FILE,
    export_stored,
    read_answering,
)
from dogsnap.exporting.merging.merge import merge_all, merge_answering
from dogsnap.exporting.quantization import RANGES
from dogsnap.networks import architectures, second_opinion
from dogsnap.networks.architectures import STORED_WEIGHTS
from dogsnap.networks.halves import read_halves
from dogsnap.networks.temperature import softmax
from dogsnap.serving.versions import checksums
from dogsnap.training import class_statistics, dataset, teaching
from dogsnap.training.evaluation.exported_version import ExportedVersion, answers
from lab import artefacts, calibration, passes, photo_lists
from lab import second_opinion as lab_second_opinion
from lab.phone import PhoneNetwork
from support import accelerated
from support.command_line import lab, output_of, refused
from support.photos import make_data_set, make_frames, striped
from support.tiny_network import beside, store_beside, tiny_recipe, tiny_with_box

pytestmark = pytest.mark.early

WRITTEN = ("scores.json", RANGES, STATISTICS_FILE)
BREEDS = ("n00000001-red_hound", "n00000002-green_terrier", "n00000003-blue_spaniel")


def spied(patch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[tuple, Any]]:
    """The calls of a function from now on: the arguments, and what it gave."""
    calls, function = [], getattr(owner, name)

    def spy(*arguments: Any) -> Any:
        calls.append((arguments, function(*arguments)))
        return calls[-1][1]

    patch.setattr(owner, name, spy)
    return calls


@pytest.fixture(scope="module", autouse=True)
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(architectures.ARCHITECTURES, "tiny", tiny_with_box)
        accelerated.patch(patch)
        for module in (dataset, class_statistics, teaching, calibration, photo_lists):
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
    keras.utils.set_random_seed(3)
    labels = [{"id": name.partition("-")[0], "name": name, "name_zh": name} for name in BREEDS]
    artefacts.finish(tiny_with_box(3), tiny_recipe((32, 32)), labels, [], folder)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A copy of what the training left."""
    return shutil.copytree(trained, tmp_path / "models" / "tiny")


def indexed(folder: Path, **breeds: tuple[int, int, int]) -> Path:
    """Photos of further breeds in a folder each, by an index with sources."""
    lines = ["breed\tphoto\tsource"]
    for breed, colour in breeds.items():
        (folder / breed).mkdir(parents=True)
        for number in range(10):
            striped(colour, 50 + sum(colour) + number).save(folder / breed / f"{number}.jpg")
            lines.append(f"{breed}\t{breed}/{number}.jpg\tplace {number // 2}")
    (folder / "index.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def further(data: Path) -> Path:
    """Photos of two breeds, and those of one that is not taught in the folder `others` beside them."""
    indexed(data.parent / "others", grey_dog=(90, 90, 90))
    return indexed(data.parent / "further", yellow_dog=(220, 210, 50), violet_dog=(150, 50, 200))


@pytest.fixture(scope="module")
def run(trained: Path, data: Path, further: Path) -> SimpleNamespace:
    """Two calls of the command with further breeds, the first of which is interrupted: their `folder`, what was asked before and
    after, and what took part in the second.
    """
    run = SimpleNamespace(folder=shutil.copytree(trained, data.parent / "models" / "tiny"))
    taught = ("--taught", further, "--taught", further.parent / "others")

    def interrupted(*_: object) -> None:
        raise OSError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        before = spied(patch, passes.Passes, "_compute")
        patch.setattr(teaching, "known_photos", interrupted)
        assert "the disk is full" in calibrate(run.folder, data, *taught).output
    assert not [name for name in WRITTEN if (run.folder / name).exists()]
    with pytest.MonkeyPatch.context() as patch:
        after, said = (
            spied(patch, passes.Passes, "_compute"),
            spied(patch, calibration, "answers_of"),
        )
        run.choices, run.once = (spied(patch, calibration.Choice, name) for name in ("on", "once"))
        run.calibrated, lessons = (
            spied(patch, calibration, "calibrate"),
            spied(patch, teaching.Teacher, "teach"),
        )
        output_of(calibrate(run.folder, data, *taught))
    run.asked = [[photos for (_, photos, _), _ in calls] for calls in (before, after)]
    run.said = [answered for _, answered in said]
    run.lessons = [lesson for _, lesson in lessons]
    return run


def calibrate(folder: Path, data: Path, *more: object) -> Result:
    photos = [
        "--data",
        data,
        "--frames",
        data.parent / "frames",
        "--not-dogs",
        data.parent / "none",
    ]
    work = folder.parent / "work"
    return lab("calibrate", folder, *photos, "--work", work, *more)


def test_the_files_say_what_they_are_made_from_and_nothing_else_is_left(
    run: SimpleNamespace,
) -> None:
    assert list((run.folder.parent / "work").iterdir()) == []
    weights = checksums.digest(run.folder / STORED_WEIGHTS)
    with np.load(run.folder / STATISTICS_FILE) as statistics:
        origins = [{name: str(statistics[name]) for name in ("weights", "made_by")}]
    origins += [
        json.loads((run.folder / name).read_text(encoding="utf-8"))
        for name in (RANGES, "scores.json")
    ]
    assert {(each["weights"], each["made_by"]) for each in origins} == {
        (weights, calibration.MADE_BY)
    }


def test_an_interrupted_command_goes_on_with_the_features_that_it_has(run: SimpleNamespace) -> None:
    before, after = run.asked
    assert len(before) == 2  # of photos with and without a dog
    assert len(after) == 1  # of those of further breeds
    assert not [photos for photos in after if photos in before]


def test_features_that_are_kept_are_those_of_these_photos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = spied(monkeypatch, passes.Passes, "_compute")
    monkeypatch.setattr(
        passes.Passes,
        "_run_batch",
        lambda self, photos, near: {"fast": np.array([*map(len, photos)])},
    )
    looking = passes.Passes(None, [], tmp_path)
    for _ in range(2):
        for photos in ([b"a", b"bc"], [b"abc"]):
            assert looking.features("taught", photos)["fast"].tolist() == [*map(len, photos)]
    assert len(calls) == 2


def test_the_thresholds_are_found_on_the_answers_that_the_built_versions_give(
    run: SimpleNamespace,
) -> None:
    (_, photos, *_), _ = run.calibrated[0]
    files = [example.path for example in photos.validation]
    assert len(files) == 24
    # The choice on all photos, before further breeds were taught.
    (photos, *_), choice = next(
        each for each in run.choices if (each[0][0].breeds >= 0).sum() == len(files)
    )
    one = export_stored("tiny", run.folder, run.folder.parent / "built")
    photos = photos.where(photos.breeds >= 0)
    versions = [one.folder.parent / "1", *merge_all(one)]
    scores = json.loads((run.folder / "scores.json").read_text(encoding="utf-8"))
    for version, expected, stated in (
        (versions[1], choice.once(photos), scores["calibration"]),
        (versions[2], choice.twice(photos), scores["second_pass"]["decision"]),
    ):
        loaded = ExportedVersion.load(version)
        for name, value in zip(("prediction", "dog"), expected, strict=True):
            np.testing.assert_allclose(answers(loaded, files)[name], value, atol=2e-3)
        assert loaded.description["decision"].items() <= stated.items()


def test_no_photo_takes_part_in_the_choice_by_which_it_is_answered(run: SimpleNamespace) -> None:
    chosen_on = {
        id(choice): {row.tobytes() for row in said.exact.features[said.breeds >= 0]}
        for (said, *_), choice in run.choices
    }
    rows = [
        (id(choice), row.tobytes())
        for (choice, said), _ in run.once
        for row in said.exact.features[said.breeds >= 0]
    ]
    assert len(rows) == sum((said.breeds >= 0).sum() for said in run.said)
    assert not [row for choice, row in rows if row in chosen_on[choice]]


def test_further_breeds_are_taught(run: SimpleNamespace) -> None:
    (lesson,) = run.lessons
    assert 15 < len(lesson.photos) <= 20
    kept = json.loads((run.folder / TAUGHT).read_text(encoding="utf-8"))
    assert [each["id"] for each in kept["taught"]] == ["violet_dog", "yellow_dog"]
    assert kept["made_by"] == calibration.MADE_BY
    assert "scores" not in kept  # those are of the version that asks the network beside, too


def test_what_is_missing_or_would_be_lost_is_named_before_anything_is_computed(
    folder: Path, data: Path, further: Path, tmp_path: Path
) -> None:
    def is_named(words: str, *more: object, of: Path = folder) -> None:
        refused(calibrate(of, data, *more), words)
        assert not (of / "scores.json").exists()

    (folder / TAUGHT).write_text('{"taught": [{"id": "white_dog", "name": "White dog"}]}')
    is_named(
        f"{folder / TAUGHT} holds White dog, of which --taught gives no photos", "--taught", further
    )
    (folder / TAUGHT).unlink()
    (folder / "labels.json").unlink()
    is_named("labels.json does not exist")
    is_named("cannot be written to", of=folder.parent / "none")


@pytest.fixture
def with_beside(run: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was calibrated, and a network beside."""
    monkeypatch.setitem(second_opinion.NETWORKS, "beside", beside)
    folder = shutil.copytree(run.folder, tmp_path / "models" / "tiny")
    keras.utils.set_random_seed(4)
    store_beside(beside(5), folder)
    return folder


def test_the_second_opinion_is_fitted_on_the_answers_that_the_built_version_gives(
    run: SimpleNamespace, with_beside: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (with_beside / TAUGHT).unlink()
    choices = spied(monkeypatch, calibration.Choice, "on")
    output_of(calibrate(with_beside, data, "--opinion"))
    (photos, *_), choice = choices[0]  # on all photos
    exported = read_answering("tiny", with_beside).export(with_beside.parent / "built" / "tiny")
    (answering,) = merge_answering(exported, required=True)
    (_, asked, *_), _ = run.calibrated[0]
    files = [example.path for example in asked.validation]
    probabilities, dogs = choice.twice(photos.where(photos.breeds >= 0))
    given = answers(ExportedVersion.load(answering), files)
    np.testing.assert_allclose(given["prediction"], probabilities, atol=2e-3)
    np.testing.assert_allclose(given["dog"], dogs, atol=2e-3)


def test_further_breeds_are_fitted_with_the_second_opinion_and_other_files_stay(
    with_beside: Path, data: Path, further: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: (with_beside / name).read_bytes() for name in WRITTEN}
    known = json.loads((with_beside / SECOND_OPINION).read_text(encoding="utf-8"))
    taught = ("--taught", further, "--taught", further.parent / "others")
    rows = json.loads((with_beside / TAUGHT).read_text(encoding="utf-8"))["taught"]
    answered = spied(monkeypatch, lab_second_opinion, "answers_of")
    output_of(calibrate(with_beside, data, "--opinion", *taught))
    assert {name: (with_beside / name).read_bytes() for name in WRITTEN} == before
    kept = json.loads((with_beside / TAUGHT).read_text(encoding="utf-8"))
    said = refused(calibrate(with_beside, data, "--phone"))
    assert "no photo of violet_dog, yellow_dog trains; see --data and --taught" in said
    assert kept["second_opinion"] == known["network"]["sha256"]
    assert all(len(read_halves(each.pop("opinion")["weights"])) == 6 for each in kept["taught"])
    assert kept["taught"] == rows
    both = json.loads((with_beside / SECOND_OPINION).read_text(encoding="utf-8"))
    assert known.items() <= both.items()
    assert both["weights"] == checksums.digest(with_beside / STORED_WEIGHTS)
    assert len(kept["scores"]["dog_head"]["weights"]) == len(both["scores"]["dog_head"]["weights"])
    right = kept["scores"]["second_pass"]["validation"]["taught"]
    assert (right["photos"], set(right["recall"])) == (20, {"violet_dog", "yellow_dog"})
    answered_by_heads_without_them(*answered[-1])


def answered_by_heads_without_them(arguments: tuple, said: calibration.Answers) -> None:
    """The photos that taught breeds, by the heads of both networks of their fold."""
    (_, new, *_), heads, _, opinions, weight = arguments
    assert set(new["folds"]) == {0, 1}
    assert not np.allclose(heads[0][0][:, 3:], heads[1][0][:, 3:])
    logits = said.fast.logits[said.breeds > 2]
    for row, fold in enumerate(new["folds"]):
        (kernel, bias), (further_kernel, further_bias) = heads[fold], opinions[fold]
        told = new["opinion_fast"][row, :-1] @ further_kernel + further_bias
        opinion = weight * np.log(softmax(told))
        expected = new["fast"][row] @ kernel + bias + opinion
        np.testing.assert_allclose(logits[row], expected, atol=1e-3)


def test_the_network_beside_gets_thresholds_of_its_own_for_phones(
    run: SimpleNamespace, with_beside: Path, data: Path, tmp_path: Path
) -> None:
    (with_beside / TAUGHT).unlink()
    output_of(calibrate(with_beside, data, "--opinion"))
    before = {file.name: file.read_bytes() for file in with_beside.iterdir()}
    output_of(calibrate(with_beside, data, "--phone"))
    after = {file.name: file.read_bytes() for file in with_beside.iterdir()}
    fitted = json.loads(after.pop(phone.FITTED))
    assert after == before  # the second opinion stays as it is
    kernel, _ = read_answering("tiny", with_beside).opinion.breed_weights(())
    assert not np.allclose(read_halves(fitted["kernel"]).reshape(kernel.shape), kernel, atol=1e-3)
    version = tmp_path / "3"
    (version / "assets.extra").mkdir(parents=True)
    phone.write(version, read_answering("tiny", with_beside), with_beside)
    network = PhoneNetwork(version)
    assert network.levels.decision.to_json().items() <= fitted["calibration"].items()
    (_, asked, *_), _ = run.calibrated[0]
    examples = asked.validation
    probabilities, dogs = network.answers([example.path for example in examples])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert 0 < fitted["calibration"]["dog_threshold"] < 1
    assert network.levels.decision.sees_dog(dogs).mean() >= 0.9
    for name in ("web_dogs", "not_dogs"):
        make_data_set(tmp_path / name, per_breed=1, test_per_breed=1)
    said = output_of(lab("phone", version, "--data", tmp_path))
    measured = json.loads(said[said.index("{") :])
    photos = sorted((tmp_path / "web_dogs" / "images").glob("*/*.jpg"))
    ids = [label["id"] for label in network.description["labels"]]
    answered, _ = network.answers(photos)
    told = [ids[row.argmax()] for row in answered]
    right = [photo.parent.name.startswith(id) for photo, id in zip(photos, told, strict=True)]
    assert (measured["photos"], measured["top1"]) == (len(photos), round(np.mean(right), 4))
