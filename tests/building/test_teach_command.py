"""`dogsnap teach`: a breed more from a few photos, served beside the version before, and every reason to refuse it."""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import click
import keras
import numpy as np
import pytest
import requests
import tensorflow as tf
from dogsnap.commands.helpers.own_process import beside
from dogsnap.commands.teach import _write_first
from dogsnap.exporting.export import STATISTICS_FILE
from dogsnap.exporting.merging import merge as merging
from dogsnap.exporting.merging.options import MergeError
from dogsnap.networks import architectures
from dogsnap.serving.answers.levels import Levels
from dogsnap.serving.versions.description import DESCRIPTION_FILE
from dogsnap.training import class_statistics, dataset, own_classes, teaching
from dogsnap.training.teaching import TeachingError, breeds_in
from lab import artefacts, calibration, photo_lists
from PIL import Image
from support.command_line import dogsnap, lab, output_of, refused
from support.photos import BREEDS, make_data_set
from support.tiny_network import tiny, tiny_recipe

pytestmark = pytest.mark.early

YELLOW, VIOLET = (220, 210, 50), (150, 50, 200)
TINY = tiny_recipe(chunk=12)


@pytest.fixture(scope="module", autouse=True)
def _tiny_recipe() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(architectures.ARCHITECTURES, "tiny", tiny)
        # Another process would not know the tiny architecture; the tutorial's test has one.
        for command in ("export", "teach"):
            patch.setattr(f"dogsnap.commands.{command}.beside", in_this_process)
        for module in (dataset, class_statistics, teaching, calibration, photo_lists):
            patch.setattr(module, "FOLDS", 2)  # a head is fitted for each part
        yield
    keras.config.set_dtype_policy("float32")


def in_this_process(work: Callable, *given: object, **named: object) -> nullcontext:
    return nullcontext(SimpleNamespace(result=lambda: work(*given, **named)))


def dogs(folder: Path, colour: tuple[int, int, int], count: int, seed: int = 0) -> Path:
    """A folder of `count` photos of a dog of one colour: blocks of it on a grey ground, no two photos alike."""
    folder.mkdir(parents=True)
    for number in range(count):
        generator = np.random.default_rng(1000 * sum(colour) + seed + number)
        blocks = (
            generator.permutation(np.arange(64) % 2)
            .reshape(8, 8, 1)
            .repeat(10, axis=0)
            .repeat(12, axis=1)
        )
        pixels = np.where(blocks, np.array(colour), 128) + generator.normal(0, 12, (80, 96, 3))
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(
            folder / f"{number:02}.jpg", quality=90
        )
    return folder


def others(folder: Path) -> Path:
    """Photos of the known breeds of the same kind as those of `dogs`, with an index: else a new breed is this kind of photos."""
    lines = ["breed\tphoto"]
    for breed, colour in BREEDS.items():
        photos = dogs(folder / breed, colour, 12, seed=300)
        lines += [f"{breed}\t{breed}/{path.name}" for path in photos.iterdir()]
    (folder / "index.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def fit_head(
    model: keras.Model, examples: list[dataset.Example], steps: int = 4000, rate: float = 1e-3
) -> None:
    """Fit the breed head on the random features: softmax regression by Adam."""
    features, _ = own_classes.features_and_logits(model, examples)
    breeds = dataset.breeds_of(examples)
    inputs, wanted = np.pad(features, ((0, 0), (0, 1)), constant_values=1.0), np.eye(3)[breeds]
    values, first, second = np.random.default_rng(4).normal(0, 0.3, (inputs.shape[1], 3)), 0.0, 0.0
    for step in range(1, steps + 1):
        exponentials = np.exp(inputs @ values - (inputs @ values).max(1, keepdims=True))
        slope = (
            inputs.T @ (exponentials / exponentials.sum(1, keepdims=True) - wanted) / len(inputs)
        )
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        values -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-7)
    model.get_layer("breeds").set_weights([values[:-1], values[-1]])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """models/colours with what a training leaves, its version 1, and version 2, merged from it."""
    keras.utils.set_random_seed(4)
    folder = tmp_path_factory.mktemp("taught")
    data, out, network = make_data_set(folder / "dogs"), folder / "models" / "colours", tiny(3)
    fit_head(network, dataset.read_list(data, "train_list"))
    artefacts.finish(
        network, TINY, photo_lists.labels_of(dataset.breed_folders(data), None), [], out
    )
    (folder / "popularity.json").write_text('{"ranks": {"n00000001": 1, "n00000002": 30}}')
    fitting = [
        "--data",
        data,
        "--popularity",
        folder / "popularity.json",
        "--work",
        folder / "work",
    ]
    output_of(lab("calibrate", out, *fitting))
    output_of(dogsnap("export", "colours", "--out", folder / "models"))
    output_of(dogsnap("merge", out / "1"))
    return out


def copied(model: Path, folder: Path) -> Path:
    return Path(shutil.copytree(model, folder / "models" / "colours"))


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    """A copy of `trained` for one test."""
    return copied(trained, tmp_path)


def description(version: Path) -> dict:
    return json.loads((version / DESCRIPTION_FILE).read_text(encoding="utf-8"))


def breeds_of(version: Path, photos: Path) -> list[str]:
    """The id that a version answers first for each photo of a folder."""
    loaded = tf.saved_model.load(str(version))
    contents = tf.constant([path.read_bytes() for path in sorted(photos.glob("??.jpg"))])
    best = loaded.signatures["image_bytes"](image_bytes=contents)["prediction"].numpy().argmax(1)
    return [description(version)["labels"][each]["id"] for each in best]


def versions(model: Path) -> list[str]:
    return sorted(path.name for path in model.iterdir() if path.is_dir())


def newest(model: Path) -> Path:
    return model / max(versions(model), key=int)


@pytest.fixture(scope="module")
def taught(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A copy of `trained` that was taught a yellow dog, the photos that it was taught with, and what the command said."""
    folder = tmp_path_factory.mktemp("yellow")
    model, photos, known = (
        copied(trained, folder),
        dogs(folder / "yellow", YELLOW, 12),
        others(folder / "known"),
    )
    (photos / "broken.jpg").write_bytes((photos / "00.jpg").read_bytes()[:150])
    with Image.open(photos / "01.jpg") as again:
        again.resize((48, 40)).save(photos / "same.png")
    result = dogsnap(
        "teach", model / "2", photos, "--name", "Yellow dog", "--name-zh", "黄犬", "--known", known
    )
    return model, photos, output_of(result)


def test_what_does_not_teach_the_breed_is_named_with_its_reason(
    trained: Path, model: Path, tmp_path: Path
) -> None:
    scores = json.loads((model / "scores.json").read_text(encoding="utf-8"))
    scores["calibration"]["confident_threshold"] = 0.4  # which this small network reaches
    (model / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    photos = dogs(tmp_path / "yellow", YELLOW, 12)
    for red in sorted((trained.parents[1] / "dogs").rglob("n00000001_*.jpg"))[:4]:
        shutil.copy(red, photos / f"red_{red.name}")
    whole = (photos / "00.jpg").read_bytes()
    (photos / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    with Image.open(photos / "01.jpg") as first:
        first.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(photos / "mirrored.png")
    dogs(photos / "more", YELLOW, 2)
    for name in ("a.tif", "b.MOV", "notes.txt"):
        (photos / name).write_bytes(b"no photo")
    said = output_of(dogsnap("teach", model / "2", photos, "--name", "Yellow dog", "--dry-run"))
    assert "Graph execution error" not in said
    for words in (
        f"skipped {photos}/cut.jpg: ",
        f"skipped {photos}/mirrored.png: the same photo as {photos}/01.jpg, mirrored",
        f"skipped {photos}/more: a folder within; its photos are read if it is given",
        f"skipped {photos}/a.tif: expected a photo (.jpg, ",
        f"skipped {photos}/b.MOV: expected a photo (.jpg, ",
    ):
        assert words in said
    assert "notes.txt" not in said
    assert re.search(rf"{photos}/red_\S+ surely shows the red hound \(\d+%\), by what", said)


def test_a_breed_is_taught_from_photos_and_the_other_breeds_stay(taught, tmp_path: Path) -> None:
    model, photos, said = taught
    first, *_, last = said.splitlines()
    assert "answers as before until one of them is chosen" in first
    assert f"skipped {photos / 'broken.jpg'}" in said
    assert f"skipped {photos / 'same.png'}: the same photo as" in said
    assert "of 12 photos" in said
    assert "The other breeds lose 0.00 points" in said
    number = newest(model).name
    assert last.startswith(f"colours version {number} knows what was taught")
    assert (
        f"`dogsnap models default {number} --model colours`; to go back: `dogsnap models default 2 --model"
        in last
    )
    labels = description(model / "4")["labels"]
    yellow = {"id": "yellow_dog", "name": "Yellow dog", "name_zh": "黄犬"}
    assert labels == [*description(model / "2")["labels"], yellow]
    assert description(model / "4")["taught"][0]["photos"] <= 12
    assert (
        breeds_of(model / "4", dogs(tmp_path / "others", YELLOW, 10, seed=50)).count("yellow_dog")
        >= 6
    )
    blue = breeds_of(model / "4", dogs(tmp_path / "blue", (60, 80, 210), 10, seed=90))
    assert blue == breeds_of(model / "2", tmp_path / "blue")


def test_how_sure_a_taught_breed_is_depends_on_looks_and_an_export_without_their_file_is_refused(
    model: Path, tmp_path: Path
) -> None:
    file = model / "scores.json"
    scores = json.loads(file.read_text(encoding="utf-8"))
    # No photo looks like its first breed: that is never surer than the second one.
    scores["calibration"]["sureness"] = {"odds": 1.0, "look": 0.0, "offset": -50.0}
    file.write_text(json.dumps(scores), encoding="utf-8")
    photos = dogs(tmp_path / "yellow", YELLOW, 12)
    output_of(dogsnap("teach", model / "2", photos, "--name", "Yellow dog"))
    assert description(model / "4")["taught"][0]["mean"]
    loaded = tf.saved_model.load(str(model / "4"))
    contents = tf.constant([path.read_bytes() for path in photos.iterdir()])
    found = loaded.signatures["image_bytes"](image_bytes=contents)["prediction"].numpy()
    assert found.shape == (12, 4)
    assert found.max() < 0.51
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    (model / STATISTICS_FILE).unlink()
    export = dogsnap("export", "colours", "--out", model.parent)
    assert f"{STATISTICS_FILE} does not exist; run `python -m lab calibrate`" in refused(export)


def test_known_breeds_get_the_logits_that_they_had_and_the_same_answer_whether_there_is_a_dog(
    taught, tmp_path
) -> None:
    contents = tf.constant(
        [path.read_bytes() for path in dogs(tmp_path / "blue", (60, 80, 210), 4).iterdir()]
    )
    loaded = [tf.saved_model.load(str(taught[0] / number)) for number in "24"]
    for signature in ("scores", "image_bytes"):
        before, after = (each.signatures[signature](image_bytes=contents) for each in loaded)
        known = np.diff(np.log(after["prediction"])[:, :3])
        np.testing.assert_allclose(known, np.diff(np.log(before["prediction"])), atol=1e-3)
        if signature == "scores":
            np.testing.assert_allclose(after["dog"], before["dog"], atol=1e-3)
    assert np.ptp(description(taught[0] / "4")["scores"]["calibration"]["log_prior"]) > 0.1


def test_a_taught_version_is_taught_a_breed_for_each_folder_with_facts_by_name_and_keeps_the_first(
    taught, tmp_path: Path
) -> None:
    model = copied(taught[0], tmp_path)
    for name, colour in {
        "Violet_dog": VIOLET,
        "Cyan_dog": (40, 200, 200),
        "Pink_dog": (250, 90, 190),
    }.items():
        dogs(tmp_path / "new" / name, colour, 8)
    facts = tmp_path / "facts.json"
    facts.write_text(
        json.dumps([{"name": "Violet dog", "name_zh": "紫犬", "size": "small"}]), encoding="utf-8"
    )
    said = output_of(dogsnap("teach", model / "4", tmp_path / "new", "--facts", facts))
    assert said.count("are recognised by a head taught without them") == 3
    last = newest(model)
    labels = description(last)["labels"][3:]
    assert [label["id"] for label in labels] == ["yellow_dog", "cyan_dog", "pink_dog", "violet_dog"]
    assert [label["name_zh"] for label in labels] == ["黄犬", "Cyan dog", "Pink dog", "紫犬"]
    assert [each["facts"] for each in description(last)["taught"]] == [
        {},
        {},
        {},
        {"size": "small"},
    ]
    assert breeds_of(last, taught[1]).count("yellow_dog") >= 9
    assert breeds_of(last, tmp_path / "new" / "Violet_dog").count("violet_dog") >= 6


@pytest.fixture(scope="module")
def grouped(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A copy of `trained` that was taught a dog that looks like the red hound, its photos, and what the command said."""
    folder = tmp_path_factory.mktemp("copper")
    model = copied(trained, folder)
    copper, known = dogs(folder / "copper", (200, 60, 50), 8), others(folder / "known")
    result = dogsnap(
        "teach", model / "2", copper, "--name", "Copper dog", "--name-zh", "铜犬", "--known", known
    )
    return model, copper, output_of(result)


def test_a_breed_joins_the_breeds_that_it_is_confused_with_and_answers_tell_the_group(
    grouped, start_server
) -> None:
    model, copper, said = grouped
    red = description(model / "2")["labels"][0]
    groups = description(model / "2")["groups"]
    known = next(
        (group["members"] for group in groups if red["id"] in group["members"]), [red["id"]]
    )
    assert f"in one group of look-alikes with {red['name']}" in said
    server = start_server(model.parent, environ={"DOGSNAP_DEFAULT_MODEL": "colours"})
    headers = {"Content-Type": "image/jpeg"}
    photo = (copper / "00.jpg").read_bytes()
    answer = requests.post(
        f"{server.url}/api/classify?version=4", data=photo, headers=headers, timeout=60
    ).json()
    assert answer["group"]["members"] == [*known, "copper_dog"]
    assert answer["group"]["name"].endswith("or Copper dog")


def test_a_breed_is_taught_anew_with_replace_alone_and_leaves_its_group_before_it_joins_another(
    grouped, tmp_path: Path
) -> None:
    model = copied(grouped[0], tmp_path)
    violet = dogs(tmp_path / "violet", VIOLET, 8)
    refused(
        dogsnap("teach", model / "4", violet, "--name", "Copper dog"), "--replace teaches it anew"
    )
    output_of(dogsnap("teach", model / "4", violet, "--name", "Copper dog", "--replace"))
    last = newest(model)
    assert len(description(last)["labels"]) == 4
    assert breeds_of(last, violet).count("copper_dog") >= 6
    assert Levels.read(description(last))  # which refuses a breed in two groups
    kept = [
        [each for each in group["members"] if each != "copper_dog"]
        for group in description(last)["groups"]
    ]
    assert all(group["members"] in kept for group in description(model / "2")["groups"])


YELLOW_PHOTOS = ["yellow", "--name", "Yellow"]


@pytest.mark.parametrize(
    ("arguments", "missing", "words"),
    [
        (["nothing.jpg", "--name", "Yellow"], None, "nothing.jpg does not exist"),
        (
            ["few", "--name", "Yellow"],
            None,
            "expected at least 8 different photos that show the dog, received 7",
        ),
        (
            ["yellow", "--name", "Red Hound"],
            None,
            "knows the breed red hound already; give another name",
        ),
        (
            ["yellow", "--name", "rufus"],
            None,
            "knows the breed red hound already (rufus is another name of it)",
        ),
        (["yellow"], None, "Missing option '--name'"),
        ([*YELLOW_PHOTOS, "--replace"], None, "was not taught Yellow"),
        (
            [*YELLOW_PHOTOS, "--facts", "facts.json"],
            None,
            "'colour' was unexpected) (facts.schema.json has the format)",
        ),
        (YELLOW_PHOTOS, "class_statistics.npz", "class_statistics.npz does not exist"),
        (YELLOW_PHOTOS, f"2/{DESCRIPTION_FILE}", "is no version that names breeds"),
    ],
)
def test_what_cannot_be_taught_is_refused_in_a_sentence_and_writes_nothing(
    model, tmp_path, monkeypatch, arguments, missing, words
) -> None:
    monkeypatch.chdir(tmp_path)
    dogs(tmp_path / "few", YELLOW, 7)
    dogs(tmp_path / "yellow", YELLOW, 8)
    (tmp_path / "facts.json").write_text('{"colour": "yellow"}')
    hound = {"id": "n00000001", "name": "red hound", "name_zh": "红犬"}
    names = {"other_names": ["Rufus"], "other_names_zh": ["小红"]}
    (model.parent / "breeds.json").write_text(json.dumps([hound | names]), encoding="utf-8")
    if missing:
        (model / missing).unlink()
    refused(dogsnap("teach", model / "2", *arguments), words)
    assert versions(model) == ["1", "2"]


def test_teaching_runs_in_a_process_of_its_own_whose_refusals_come_back(tmp_path: Path) -> None:
    given = {
        "photos": (tmp_path / "nothing.jpg",),
        "name": "Yellow",
        "name_zh": "",
        "facts_file": None,
    }
    given |= {"temporary": None, "source": tmp_path, "replace": False, "artefacts": None}
    given |= {"known": (), "keep": False}
    with (
        pytest.raises(TeachingError, match=r"nothing\.jpg does not exist"),
        beside(_write_first, **given) as writing,
    ):
        writing.result()
    with (
        pytest.raises(click.ClickException, match="was killed, perhaps for want of memory"),
        beside(os.abort) as ended,
    ):
        ended.result()


def test_a_folder_that_cannot_be_written_to_is_a_sentence_before_any_work() -> None:
    result = dogsnap("teach", "/proc/self/2", "nothing.jpg", "--name", "Yellow")
    refused(result, "cannot be written to")
    assert result.output.strip().endswith("nothing is done")
    assert "nothing.jpg" not in result.output


def test_a_version_that_was_taught_with_other_weights_is_refused(taught, tmp_path: Path) -> None:
    model = copied(taught[0], tmp_path)
    scores = json.loads((model / "scores.json").read_text(encoding="utf-8"))
    assert description(model / "4")["scores"]["weights"] == scores["weights"]
    said = {**description(model / "4"), "scores": {**scores, "weights": "a" * 64}}
    (model / "4" / DESCRIPTION_FILE).write_text(json.dumps(said), encoding="utf-8")
    result = dogsnap(
        "teach", model / "4", dogs(tmp_path / "violet", VIOLET, 8), "--name", "Violet dog"
    )
    refused(result, "was taught with other weights")


def test_while_it_merges_and_if_that_fails_no_part_of_a_taught_version_is_there(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = sorted(model.iterdir()), []

    def failing(*_: object) -> list[Path]:
        seen.extend(versions(model))
        raise MergeError("no memory is left")

    monkeypatch.setattr(merging, "merge_all", failing)
    result = dogsnap("teach", model / "2", dogs(tmp_path / "y", YELLOW, 8), "--name", "Yellow")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        1,
        "Error: no memory is left; nothing is written",
    )
    assert [name for name in seen if not name.startswith(".")] == [
        path.name for path in before if path.is_dir()
    ]
    assert sorted(model.iterdir()) == before


@pytest.fixture(scope="module")
def kept(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `trained` that keeps two breeds, whose photos lay in two folders, beside the weights."""
    folder = tmp_path_factory.mktemp("kept")
    model = copied(trained, folder)
    for part, photos in (("some", 6), ("more", 4)):
        for name, colour in (("Yellow_dog", YELLOW), ("Violet_dog", VIOLET)):
            dogs(folder / part / name, colour, photos, seed=100 * photos)
    dogs(folder / "more" / "Copper_dog", (205, 60, 50), 3)
    output_of(dogsnap("teach", model / "2", folder / "some", folder / "more", "--keep"))
    assert versions(model) == versions(trained)
    return model


def test_breeds_that_are_kept_are_known_to_the_version_that_answers_the_app_alone(
    kept: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    output_of(dogsnap("export", "colours", "--from", kept, "--out", tmp_path / "out", "--merged"))
    built = tmp_path / "out" / "colours"
    assert [len(description(built / number)["labels"]) for number in versions(built)] == [3, 3, 5]
    assert [each["photos"] for each in description(built / "3")["taught"]] == [10, 10]
    assert (
        breeds_of(built / "3", dogs(tmp_path / "others", YELLOW, 10, seed=50)).count("yellow_dog")
        >= 6
    )


def test_breeds_that_were_kept_with_other_weights_are_refused_with_what_to_run(
    kept: Path, tmp_path: Path
) -> None:
    model = copied(kept, tmp_path)
    taught = json.loads((model / "taught.json").read_text(encoding="utf-8"))
    (model / "taught.json").write_text(
        json.dumps({**taught, "weights": "a" * 64}), encoding="utf-8"
    )
    result = dogsnap("export", "colours", "--from", model, "--out", tmp_path / "out", "--merged")
    refused(
        result,
        "received aaaaaaaaaaaa; run `python -m lab calibrate --taught` or `dogsnap teach --keep`",
    )
    assert not (tmp_path / "out" / "colours").exists()


def test_a_hidden_folder_is_no_breed(tmp_path: Path) -> None:
    dogs(tmp_path / "Yellow_dog", YELLOW, 2)
    dogs(tmp_path / ".ipynb_checkpoints", YELLOW, 1)
    assert [breed.name for breed in breeds_in([tmp_path], {})] == ["Yellow dog"]


def test_photos_of_one_source_are_in_one_part_and_a_dry_run_writes_nothing(
    model: Path, tmp_path: Path
) -> None:
    photos = dogs(tmp_path / "photos", YELLOW, 30)
    lines = [
        f"yellow_dog\t{photos / f'{number:02}.jpg'}\tsource {number // 5}" for number in range(30)
    ]
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "index.tsv").write_text(
        "\n".join(["breed\tphoto\tsource", *lines]) + "\n", encoding="utf-8"
    )
    (breed,) = breeds_in([tmp_path / "new"], {})
    folds = breed.folds(breed.photos).reshape(6, 5)
    assert (folds == folds[:, :1]).all()
    assert len(set(folds[:, 0])) > 1
    same = dataclasses.replace(breed, sources=dict.fromkeys(breed.photos, "one place"))
    assert set(same.folds(breed.photos)) == set(
        range(teaching.FOLDS)
    )  # else nothing would be left to teach with
    before = model.stat().st_mtime_ns
    result = dogsnap("teach", model / "2", tmp_path / "new", "--dry-run")
    assert "of 30 photos" in result.output
    assert versions(model) == ["1", "2"]
    assert (
        model.stat().st_mtime_ns == before
    )  # nothing was made there for a while: it may be read-only
