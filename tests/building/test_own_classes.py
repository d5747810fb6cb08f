"""`dogsnap train`: from a folder of photos to versions of own classes."""

import json
import os
import re
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from click.testing import Result
from dogsnap.exporting.export import STATISTICS_FILE
from dogsnap.networks import architectures
from dogsnap.networks.architectures import STORED_WEIGHTS, save_stored_weights
from dogsnap.serving.versions.description import Description
from dogsnap.training import own_classes
from dogsnap.training.evaluation.exported_version import ExportedVersion
from dogsnap.training.teaching import known_photos
from dogsnap.training.thresholds import find_threshold
from PIL import Image
from support.command_line import dogsnap, output_of, refused
from support.photos import make_data_set
from support.tiny_network import tiny

pytestmark = pytest.mark.early


@pytest.fixture(autouse=True)
def _tiny_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny)
    monkeypatch.setattr(own_classes, "UPPER_RATE", 0.02)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """What another training has stored: a network of two breeds."""
    folder = tmp_path / "start"
    folder.mkdir()
    keras.utils.set_random_seed(1)
    save_stored_weights(tiny(2), folder / STORED_WEIGHTS)
    (folder / "labels.json").write_text('[{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]')
    (folder / "recipe.json").write_text('{"architecture": "tiny", "size": [16, 16]}')
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder for each of three colours, with twenty photos."""
    data = make_data_set(tmp_path / "data", per_breed=20, test_per_breed=0)
    folder = tmp_path / "photos"
    for child in (data / "images").iterdir():
        shutil.move(child, folder / child.name.partition("-")[2])
    return folder


def train(photos: Path, start: Path, *more: object) -> Result:
    out, work = photos.parent / "models" / "mine", photos.parent / "work"
    return dogsnap("train", photos, "--from", start, "--out", out, "--work", work, *more)


def test_a_folder_of_photos_becomes_two_versions_that_know_their_classes(
    photos: Path, start: Path
) -> None:
    said = output_of(train(photos, start, "--precision", 0.6))
    model = photos.parent / "models" / "mine"
    held_out = own_classes.read_classes(photos, print).held_out
    assert f"of {len(held_out)} photos held out" in said
    # There is no terminal; what is left is known after a second.
    lines = re.findall(r"upper blocks: \d+ of \d+ steps.*", said)
    assert lines
    assert all(re.fullmatch(r"[^,]+ (\d+) of \d+ steps(, [\d:]+ left)?", line) for line in lines)
    assert re.search(r"upper blocks: (\d+) of \1 steps", said)
    assert {"1", "2", STORED_WEIGHTS, STATISTICS_FILE, "scores.json"} <= {
        path.name for path in model.iterdir()
    }
    version = ExportedVersion.load(model / "2")
    names = sorted(path.name for path in photos.iterdir())
    assert [label["id"] for label in version.labels] == names
    assert not version.finds_dogs()
    asked = dogsnap("predict", held_out[0].path, "--models", model.parent, "--model", "mine")
    answered = json.loads(asked.stdout)
    assert answered["breeds"][0]["id"] == names[held_out[0].breed]
    assert "threshold" in said


def test_a_model_whose_folder_is_a_link_gets_its_versions_under_its_own_name(
    photos: Path, start: Path
) -> None:
    store, out = photos.parent / "store" / "abc", photos.parent / "models" / "mine"
    for folder in (store, out.parent):
        folder.mkdir(parents=True)
    out.symlink_to(store)
    said = output_of(train(photos, start))
    assert f"ask it: dogsnap predict PHOTO --model mine --models {out.parent}" in said
    for version in (store / "1", store / "2"):
        assert Description.read(version).raw["model"] == "mine"


def test_a_training_that_was_ended_goes_on_and_one_of_other_photos_is_not_continued(
    photos: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = RuntimeError("the power went")

    def fail(*_: object) -> None:
        raise ended

    with monkeypatch.context() as patch:
        patch.setattr(own_classes, "_train_upper_blocks", fail)
        assert train(photos, start).exception is ended
        patch.setattr(own_classes, "_fit_head", fail)
        patch.undo()
    monkeypatch.setattr(own_classes, "_fit_head", fail)  # which is done
    output_of(train(photos, start))
    # The same photos lie elsewhere.
    out, work = photos.parent / "models" / "mine", photos.parent / "work"
    moved = photos.rename(photos.parent / "moved")
    output_of(dogsnap("train", moved, "--from", start, "--out", out, "--work", work))
    moved.rename(photos)
    keras.utils.set_random_seed(2)
    kept = shutil.copy(start / STORED_WEIGHTS, photos.parent)
    save_stored_weights(tiny(2), start / STORED_WEIGHTS)
    refused(train(photos, start), "holds the training of other photos, from another network")
    shutil.copy(kept, start / STORED_WEIGHTS)
    output_of(train(photos, start))
    trains = own_classes.read_classes(photos, print).training[0].path
    with trains.open("ab") as file:  # under the same name
        file.write(b"\0" * trains.stat().st_size)
    refused(train(photos, start), "holds the training of other photos")


def test_what_cannot_train_is_named_and_what_contradicts_itself_is_left_out(
    photos: Path, start: Path
) -> None:
    first, second = sorted(photos.iterdir())[:2]
    shutil.copy(min(first.iterdir()), second / "same.jpg")
    cut = max(second.glob("n*.jpg"))
    cut.write_bytes(cut.read_bytes()[:100])
    others = [first / "scan.tif", second / "within" / "IMG_1.MOV"]
    others[1].parent.mkdir()
    for other in others:
        other.write_bytes(b"no photo")
    beside = Path(shutil.copy(cut, photos / "beside.jpg"))
    empty = photos / "empty"
    empty.mkdir()
    said: list[str] = []
    found = own_classes.read_classes(photos, said.append)
    assert any(f"skipped {cut}" in line for line in said)
    assert any("one photo of two classes: left out" in line for line in said)
    for other in others:
        assert any(f"skipped {other}: expected a photo (.jpg, " in line for line in said)
    assert f"skipped {beside}: it is in no folder of a class" in said
    assert f"skipped {empty}: it holds no photo, and is no class" in said
    assert [label["id"] for label in found.labels] == [
        path.name for path in sorted(photos.iterdir()) if path not in (beside, empty)
    ]
    used = {example.path for example in (*found.training, *found.held_out)}
    assert not used & {cut, second / "same.jpg", min(first.iterdir())}


def test_copies_of_a_photo_lie_on_one_side_and_each_class_has_photos_on_both(
    tmp_path: Path,
) -> None:
    generator = np.random.default_rng(0)
    for name in ("few", "many"):
        (tmp_path / name).mkdir()
        for number in range(2 if name == "few" else 30):
            pixels = generator.integers(0, 255, (20, 20, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
            shutil.copy(tmp_path / name / f"{number}.png", tmp_path / name / f"copy {number}.png")
    found = own_classes.read_classes(tmp_path, print)
    contents = [
        {each.path.read_bytes() for each in side} for side in (found.training, found.held_out)
    ]
    assert not contents[0] & contents[1]
    for side in (found.training, found.held_out):
        assert {example.breed for example in side} == {0, 1}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (shutil.rmtree, "is no folder"),
        (
            lambda folder: (
                [
                    shutil.copytree(folder, folder.parent / "whole" / name)
                    for name in ("train", "val")
                ]
                and (shutil.rmtree(folder), (folder.parent / "whole").rename(folder))
            ),
            "are train and val, which hold folders of classes; name one of these",
        ),
        (
            lambda folder: [shutil.rmtree(each) for each in sorted(folder.iterdir())[1:]],
            "holds 1 folders",
        ),
        (
            lambda folder: [path.unlink() for path in sorted(min(folder.iterdir()).iterdir())[1:]],
            "has 1 photos that can be read and are of no other class; expected at least 2",
        ),
    ],
)
def test_a_folder_that_cannot_train_is_refused_before_the_work(
    photos: Path, start: Path, make, words: str
) -> None:
    make(photos)
    refused(train(photos, start), words)
    assert not (photos.parent / "models").exists()


def test_names_that_are_no_utf8_links_and_what_archives_hide_keep_no_folder_from_training(
    photos: Path, start: Path
) -> None:
    first, second = sorted(photos.iterdir())[:2]
    os.rename(os.fsencode(min(first.iterdir())), os.fsencode(first) + b"/\xff.jpg")
    Path(os.fsdecode(os.fsencode(first) + b"/\xfe.jpg")).write_bytes(b"no photo")
    moved = second.rename(photos.parent / second.name)
    second.symlink_to(moved)
    hidden = photos / "__MACOSX" / first.name
    hidden.mkdir(parents=True)
    for folder in (hidden, first):
        (folder / "._1.jpg").write_bytes(b"of macOS")
    said = output_of(train(photos, start))
    assert "skipped" in said
    assert r"\udcfe.jpg" in said
    assert "._1" not in said
    assert "3 classes: " in said
    assert f"ask it: dogsnap predict PHOTO --model mine --models {photos.parent}/models" in said


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda out: out.write_text("x"), "is a file"),
        (lambda out: (out.mkdir(), (out / "saved_model.pb").touch()), "is a version"),
        (lambda out: None, "is among the photos"),
    ],
)
def test_what_can_be_no_folder_of_a_model_is_refused_before_the_work(
    photos: Path, start: Path, make, words: str
) -> None:
    out = (photos if "photos" in words else photos.parent) / "mine"
    make(out)
    before = sorted(photos.parent.rglob("*"))
    refused(dogsnap("train", photos, "--from", start, "--out", out), words)
    assert sorted(photos.parent.rglob("*")) == before


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(
    photos: Path, start: Path
) -> None:
    said = refused(dogsnap("train", photos, "--from", start, "--out", "/proc/self/models/mine"))
    assert said.startswith("Error: /proc/self cannot be written to: ")
    said = refused(dogsnap("evaluate", "/proc/self/2", "--data", photos, "--precision", "0.9"))
    assert said.startswith("Error: /proc/self cannot be written to: ")


@pytest.mark.parametrize("scores", ["{}", "[0.9]"])
def test_the_folder_of_another_network_is_not_written_to(
    photos: Path, start: Path, scores: str
) -> None:
    (start / "scores.json").write_text(scores)
    before = {path.name: path.read_bytes() for path in start.iterdir()}
    refused(dogsnap("train", photos, "--from", start, "--out", start), "holds another network")
    assert {path.name: path.read_bytes() for path in start.iterdir()} == before


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ('{"size": [16, 16]}', "asks for the architecture 'start'; available: inception_v3, tiny"),
        ('{"architecture": "tiny"}', "recipe.json has no size; expected what `dogsnap train`"),
        ("[]", "recipe.json has no size"),
    ],
)
def test_a_network_to_begin_with_that_cannot_be_built_is_refused(
    photos: Path, start: Path, recipe: str, words: str
) -> None:
    (start / "recipe.json").write_text(recipe)
    refused(train(photos, start), words)


def test_all_photos_of_known_breeds_keep_them_beside_own_classes_which_none_validated(
    tmp_path: Path,
) -> None:
    data = make_data_set(tmp_path / "data", per_breed=8, test_per_breed=0)
    assert len(known_photos([data], [], {"seed": own_classes.SEED})) == 3 * 8 / 4


def test_a_threshold_holds_with_confidence_or_it_is_said_how_many_photos_it_takes() -> None:
    generator = np.random.default_rng(3)
    first = generator.uniform(0.5, 1, 2000)
    is_right = generator.uniform(0, 1, 2000) < first
    probabilities = np.stack([first, 1 - first], axis=-1)
    classes = np.where(is_right, 0, 1)
    found = find_threshold(probabilities, classes, 0.9)
    assert found.threshold is not None
    named = first >= found.threshold
    assert is_right[named].mean() >= 0.9
    assert (found.named, found.right) == (named.sum(), is_right[named].sum())
    few = find_threshold(probabilities[:20], classes[:20], 0.97)
    assert few.threshold is None
    assert "takes at least 99 sure and right answers" in str(few)


def test_evaluate_writes_a_version_with_the_threshold_for_a_precision(
    photos: Path, start: Path
) -> None:
    output_of(train(photos, start))
    model = photos.parent / "models" / "mine"
    few = dogsnap("evaluate", model / "2", "--data", photos, "--precision", 0.99)
    refused(few, "takes at least 299 sure and right answers")
    assert not (model / "3").exists()
    said = output_of(dogsnap("evaluate", model / "2", "--data", photos, "--precision", 0.6))
    assert f"wrote {model / '3'}" in said
    before, after = (ExportedVersion.load(model / number) for number in "23")
    threshold = after.description["decision"]["confident_threshold"]
    assert f"threshold {threshold:g}: " in said
    assert {**after.description, "decision": {}} == {**before.description, "decision": {}}
