"""`python -m lab train dogs`: a head for every dog, trained on composed pictures, stored, and exported."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import keras
import numpy as np
import pytest
from click.testing import Result
from dogsnap.exporting.export import ExportError, read_stored
from dogsnap.files import write_json
from dogsnap.networks import architectures
from dogsnap.networks import dogs_head as dogs
from dogsnap.training import dataset
from lab.boxes import with_boxes
from lab.dogs_training import MOST_DOGS, Judged, shares
from lab.losses import dogs_loss
from lab.recipes import INCEPTION_V3
from lab.scenes import Scene, Scenes, cut_out, join_scenes
from PIL import Image
from support.command_line import lab, output_of, refused
from support.exported import LABELS
from support.photos import make_data_set, make_frames
from support.tiny_network import tiny_with_box

SIZE = (32, 32)


@pytest.fixture(scope="module", autouse=True)
def _tiny_architecture() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(architectures.ARCHITECTURES, "tiny", tiny_with_box)
        yield


@pytest.fixture(scope="module")
def trained(sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What training leaves of a tiny network that tells boxes, to which the command added a head. Not to be changed."""
    keras.utils.set_random_seed(3)
    folder = tmp_path_factory.mktemp("trained") / "stored"
    folder.mkdir()
    network = tiny_with_box(3, SIZE)
    architectures.save_stored_weights(network, folder / architectures.STORED_WEIGHTS)
    passing = {"margin": 0.1, "largest": 0.5, "surest": 0.9, "weight": 0.5, "sharpness": 1.0}
    calibration = {
        "temperature": 1.0,
        "log_prior": [0, 0, 0],
        "dog_threshold": 0.4,
        "confident_threshold": 0.6,
    }
    scores = {
        "calibration": calibration,
        "second_pass": {**passing, "decision": {"dog_threshold": 0.4}},
    }
    recipe = asdict(replace(INCEPTION_V3, architecture="tiny", size=SIZE))
    for name, content in (("recipe", recipe), ("labels", LABELS), ("scores", scores)):
        write_json(content, folder / f"{name}.json")
    output_of(run(folder, sources))
    return folder


@pytest.fixture
def stored(trained: Path, tmp_path: Path) -> Path:
    """A copy of `trained`, with its work folder, for one test."""
    return Path(shutil.copytree(trained.parent, tmp_path / "copy")) / "stored"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("photos")
    data = make_data_set(folder / "dogs", per_breed=4)
    frames = make_frames(data, folder / "frames")
    judged = folder / "judged"
    judged.mkdir()
    rows = ["photo\tdogs\tboxes\tdifficult"]
    for number, boxes in enumerate(
        ("0.1,0.1,0.4,0.9;0.6,0.1,0.9,0.9", "0.2,0.2,0.8,0.8", "", "0,0,0.5,1;0.5,0,1,1")
    ):
        Image.new("RGB", (60, 40), (20 * number, 90, 30)).save(judged / f"{number}.png")
        dogs_there = boxes.count(";") + 1 if boxes else 0
        rows.append(f"{number}.png\t{dogs_there}\t{boxes}\t{';'.join('0' * dogs_there)}")
    (judged / "boxes.tsv").write_text("\n".join(rows) + "\n")
    return {
        "data": data,
        "frames": frames,
        "not-dogs": data / "images" / "n00000003-blue_spaniel",
        "judged": judged,
    }


def run(stored: Path, sources: dict[str, Path], *more: object) -> Result:
    named = [each for name, path in sources.items() for each in (f"--{name}", path)]
    amounts = ["--pictures", "40", "--epochs", "2", *more]
    return lab("train", "dogs", *named, *amounts, "--out", stored, "--work", stored.parent / "work")


def test_the_head_is_stored_with_its_digest_and_parameters_and_read_again(trained) -> None:
    stated = json.loads((trained / dogs.DESCRIPTION).read_text())
    assert set(stated["every_dog"]) == {"score", "overlap", "dog", "margin", "weight", "sharpness"}
    assert set(stated["chosen_on"]) == {
        "photos",
        "several_told",
        "one_told",
        "none_told",
        "recall",
        "precision",
    }
    model = read_stored("tiny", trained)
    image = np.random.default_rng(1).uniform(size=(2, *SIZE, 3)).astype(np.float32)
    joined_model = dogs.with_dogs(model.model, model.dogs)
    answers, plain = joined_model.predict_on_batch(image), model.model.predict_on_batch(image)
    assert answers[dogs.CELLS].shape == (2, 16 * 16, 5)
    np.testing.assert_allclose(answers["box"], plain["box"], atol=1e-5)


@pytest.mark.long
def test_the_same_seed_trains_the_same_head_and_an_interrupted_training_goes_on(
    stored, sources
) -> None:
    first = read_stored("tiny", stored).dogs.get_weights()
    kept = sorted(path.stat().st_mtime_ns for path in (stored.parent / "work").iterdir())
    assert run(stored, sources).exit_code == 0
    for weight, before in zip(read_stored("tiny", stored).dogs.get_weights(), first, strict=True):
        np.testing.assert_allclose(weight, before, atol=1e-3)
    assert kept == sorted(path.stat().st_mtime_ns for path in (stored.parent / "work").iterdir())


def test_a_head_of_other_maps_is_refused(stored) -> None:
    stated = json.loads((stored / dogs.DESCRIPTION).read_text())
    (stored / dogs.DESCRIPTION).write_text(json.dumps({**stated, "maps": "0" * 64}))
    with pytest.raises(
        ExportError,
        match=r"made with other maps than float16.weights.h5: .*`python -m lab train dogs`",
    ):
        read_stored("tiny", stored)


def test_judged_photos_without_boxes_are_one_sentence(stored, sources, tmp_path) -> None:
    (tmp_path / "boxes.tsv").write_text("photo\tdogs\n0.png\t1\n")
    done = run(stored, {**sources, "judged": tmp_path})
    refused(done, "boxes.tsv: expected lines `photo dogs boxes difficult`")


def test_every_composed_picture_has_its_boxes_within_and_comes_again(sources) -> None:
    listed = dataset.read_list(sources["data"], "train_list")
    examples = with_boxes(listed, sources["frames"])
    none = dataset.photos_below(sources["not-dogs"])
    scenes = Scenes(examples, none, SIZE, seed=1)
    counts = set()
    for number in range(60):
        image, boxes = scenes.draw(number)
        assert (image.shape, image.dtype) == ((*SIZE, 3), np.float32)
        assert ((boxes >= -1e-6) & (boxes <= 1 + 1e-6)).all()
        assert (boxes[:, 2:] > boxes[:, :2]).all()
        counts.add(len(boxes))
    assert {0, 1, 2} < counts
    np.testing.assert_array_equal(
        scenes.draw(7)[0], Scenes(examples, none, SIZE, seed=1).draw(7)[0]
    )


def test_pictures_beside_each_other_keep_their_dogs() -> None:
    one = Scene(Image.new("RGB", (100, 50)), np.array([[0.5, 0, 1, 1]], np.float32))
    across, above = join_scenes([one, one], across=True), join_scenes([one, one], across=False)
    np.testing.assert_allclose(across.boxes, [[0.25, 0, 0.5, 1], [0.75, 0, 1, 1]], atol=0.01)
    np.testing.assert_allclose(above.boxes, [[0.5, 0, 1, 0.5], [0.5, 0.5, 1, 1]], atol=0.01)


def test_a_part_of_a_picture_has_its_dogs_at_their_places() -> None:
    scene = Scene(Image.new("RGB", (100, 100)), np.array([[0.1, 0, 0.5, 1]], np.float32))
    part = cut_out(scene, np.array([0.1, 0, 0.6, 1]))
    assert part.image.size == (50, 100)
    np.testing.assert_allclose(part.boxes, [[0, 0, 0.8, 1]], atol=1e-6)


def test_a_dog_found_twice_counts_once_and_one_that_is_hard_to_see_not_at_all() -> None:
    boxes = np.array([[0, 0, 0.4, 1], [0.5, 0, 1, 1], [0.4, 0.4, 0.5, 0.5]], np.float32)
    photo = Judged(Path("a"), boxes, np.array([False, False, True]))
    found = np.array([boxes[0], boxes[0], boxes[2]])
    measured = shares([photo], [found])
    assert (measured["recall"], measured["precision"], measured["several_told"]) == (0.5, 0.5, 1.0)


def test_the_loss_falls_where_the_cells_tell_the_dogs() -> None:
    places = dogs.centres((4, 4), (64, 64))
    assert places[0] == (0.125, 0.375, 0.625, 0.875)
    target = np.zeros((1, MOST_DOGS, 5), np.float32)
    target[0, 0] = [0, 0, 0.5, 0.5, 1]
    wrong = np.full((1, 4, 4, 5), -2, np.float32)
    right = wrong.copy()
    for row, y in enumerate(places[0][:2]):
        for column, x in enumerate(places[1][:2]):
            right[0, row, column] = [6, *np.log(np.array([x, y, 0.5 - x, 0.5 - y]) / 0.25)]
    assert float(dogs_loss(target, right, places)) < 0.1 < float(dogs_loss(target, wrong, places))
