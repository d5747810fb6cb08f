"""`python -m lab train` and its bad days: wrong names, wrong folders, wrong weights, a full disk."""

import dataclasses
import re
import shutil
from pathlib import Path

import keras
import pytest
from click.testing import Result
from dogsnap.networks import architectures
from dogsnap.networks.architectures import STORED_WEIGHTS
from lab import recipes
from lab.recipes import Stage
from PIL import Image
from support.command_line import lab, output_of, refused
from support.photos import make_data_set
from support.tiny_network import tiny_recipe, tiny_with_box

pytestmark = pytest.mark.early

TINY = tiny_recipe(
    stages=(Stage("all", from_block=None, epochs=2, rate=0.05, warmup=2),),
    validation_per_breed=3,
    chunk=8,
)


@pytest.fixture(autouse=True)
def _tiny_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(architectures.ARCHITECTURES, "tiny", tiny_with_box)
    monkeypatch.setattr(recipes, "INCEPTION_V3", TINY)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data_set(tmp_path / "dogs", per_breed=8)


def _weights(folder: Path) -> str:
    path = folder / "start.weights.h5"
    tiny_with_box(3, TINY.size).save_weights(path)
    return str(path)


def _train(data: Path, *more: str) -> Result:
    folder = data.parent
    folders = ["--data", data, "--out", folder / "out", "--work", folder / "work"]
    result = lab("train", *folders, *more)
    keras.config.set_dtype_policy("float32")
    return result


def _failed_with_one_sentence(result: Result, words: str) -> None:
    refused(result, words)
    (error,) = re.findall(
        r"Error: (.*)", result.output
    )  # a progress bar may stand before it on the line
    assert words in error


def test_photos_become_artefacts_and_those_that_tensorflow_does_not_read_are_named_and_skipped(
    data: Path,
) -> None:
    bad, tiff = (
        data / "images" / "n00000001-red_hound" / f"n00000001_{number}.jpg" for number in (1, 4)
    )
    bad.write_bytes(bad.read_bytes()[:200])
    Image.open(tiff).save(tiff, "TIFF")
    said = output_of(_train(data, "--weights", _weights(data.parent)))
    for skipped in (bad, tiff):
        assert f"skipped {skipped}" in said
    made = {path.name for path in (data.parent / "out").iterdir()}
    assert made == {STORED_WEIGHTS, "labels.json", "recipe.json"}


@pytest.mark.parametrize(
    ("change", "flags", "words"),
    [
        (None, ["--weights", "wrong"], "weights file wrong does not fit"),
        (None, ["--weights", "none.h5"], "none.h5 does not exist"),
        (lambda data: shutil.rmtree(data / "images"), [], "expected the Stanford Dogs layout"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(
    data: Path, monkeypatch, change, flags, words
) -> None:
    monkeypatch.chdir(data.parent)
    Path("wrong").write_bytes(b'{"n00000001": 1}')  # neither weights nor ranks
    if change:
        change(data)
    _failed_with_one_sentence(_train(data, *flags), words)


def test_a_loss_that_is_no_number_ends_the_training_and_leaves_the_artefacts_of_before(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data.parent / "out").mkdir()
    (data.parent / "out" / STORED_WEIGHTS).write_bytes(b"of before")
    diverging = dataclasses.replace(
        TINY, stages=(dataclasses.replace(TINY.stages[0], rate=float("inf")),)
    )
    monkeypatch.setattr(recipes, "INCEPTION_V3", diverging)
    _failed_with_one_sentence(_train(data, "--weights", _weights(data.parent)), "NaN")
    assert not list((data.parent / "work").glob("*/all.weights.h5"))
    assert (data.parent / "out" / STORED_WEIGHTS).read_bytes() == b"of before"


def test_nothing_is_overwritten_by_default(data: Path) -> None:
    refused(lab("train", "--data", data), "Missing option '--data' or '--out'")
