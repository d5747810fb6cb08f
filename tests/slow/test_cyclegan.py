"""CycleGAN: the two sets, the networks, and the way from `dogsnap train cyclegan` to a served picture, whole and small."""

import base64
import dataclasses
import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import requests
import tensorflow as tf
from click.testing import Result
from command_line import dogsnap, output_of, refused
from dogsnap.networks.architectures import cyclegan_discriminator, cyclegan_generator
from dogsnap.training import cyclegan
from dogsnap.training.cyclegan import Recipe, gaussian_noise, sinusoid_share
from PIL import Image

RECIPE = Recipe()
TINY = dataclasses.replace(RECIPE, width=4, size=(16, 16), steps=4, checkpoint_every=2)


def test_gaussian_noise_has_no_frequency_of_its_own_and_sinusoidal_noise_has_one() -> None:
    noise, wave = gaussian_noise(20, RECIPE, 1), gaussian_noise(20, RECIPE, 2, RECIPE.amplitude)
    for images in (noise, wave):
        assert images.shape == (20, 64, 64, 3)
        assert images.dtype == np.float32
        assert np.abs(images).max() <= 1
        assert abs(images.mean()) < 0.01
    assert sinusoid_share(noise, RECIPE.period).mean() < 0.002
    power = RECIPE.amplitude**2 / 2
    expected = power / (power + RECIPE.deviation**2)
    np.testing.assert_allclose(sinusoid_share(wave, RECIPE.period), expected, atol=0.05)


def test_the_share_is_1_for_a_pure_sinusoid_whatever_its_phase_and_0_for_another_frequency() -> (
    None
):
    across = np.arange(64)
    for phase in (0, 1, 2):
        wave = np.broadcast_to(
            np.sin(2 * np.pi * across / 8 + phase).reshape(1, 1, 64, 1), (1, 64, 64, 3)
        )
        np.testing.assert_allclose(sinusoid_share(wave, 8), 1, atol=1e-9)
        np.testing.assert_allclose(sinusoid_share(wave, 16), 0, atol=1e-9)


def test_the_networks_have_the_layers_of_the_paper_and_the_discriminator_judges_patches() -> None:
    generator = cyclegan_generator(64, (64, 64))
    kernels = [tuple(weight.shape) for weight in generator.weights if weight.name == "kernel"]
    assert kernels == [
        (7, 7, 3, 64), (3, 3, 64, 128), (3, 3, 128, 256),
        *[(3, 3, 256, 256)] * 12,
        (3, 3, 128, 256), (3, 3, 64, 128), (7, 7, 64, 3),
    ]  # fmt: skip
    assert generator.output_shape == (None, 64, 64, 3)
    large = cyclegan_generator(4, (256, 256)).layers
    assert len([layer for layer in large if isinstance(layer, keras.layers.Add)]) == 9
    assert cyclegan_discriminator(8, (64, 64)).output_shape == (None, 8, 8, 1)


def test_the_generator_answers_in_minus_1_to_1_and_normalises_each_picture_by_itself() -> None:
    keras.utils.set_random_seed(1)
    generator = cyclegan_generator(4, (16, 16))
    noise = gaussian_noise(3, TINY, 1)
    together, alone = generator(noise), generator(noise[1:2])
    assert np.abs(together).max() <= 1
    np.testing.assert_allclose(together[1:2], alone, atol=1e-5)


def run(*arguments: object) -> Result:
    done = dogsnap(*arguments)
    keras.config.set_dtype_policy("float32")
    return done


def ok(*arguments: object) -> str:
    return output_of(run(*arguments))


def train(folder: Path, *more: object) -> Result:
    folders = ("--out", folder / "models" / "cyclegan", "--work", folder / "work")
    return run("train", "cyclegan", *folders, "--ngf", 4, "--size", 16, "--steps", 4, *more)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, Result]:
    """A folder in which the command trained a tiny CycleGAN, in two goes, and what the second said."""
    folder, keep = tmp_path_factory.mktemp("cyclegan"), cyclegan._keep

    def keep_and_stop(*given: object) -> None:
        keep(*given)
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cyclegan, "Recipe", lambda **chosen: dataclasses.replace(TINY, **chosen))
        with patch.context() as first:
            first.setattr(cyclegan, "_keep", keep_and_stop)
            # For two steps faster than tracing the graph, as the second training does.
            tf.config.run_functions_eagerly(True)
            train(folder)
            tf.config.run_functions_eagerly(False)
        return folder, train(folder)


def test_an_interrupted_training_goes_on_from_its_checkpoint_and_says_how_far_it_is(
    trained,
) -> None:
    said = output_of(trained[1])
    assert "going on behind step 2, from " in said
    assert re.search(r"generators: \d\.\d+ - discriminators: \d\.\d+ - cycle: \d\.\d+", said)
    assert re.search(r"share of the spectrum: \d+\.\d% before, \d+\.\d% after", said)


def test_what_is_left_behind_describes_itself(trained) -> None:
    artefacts = trained[0] / "models" / "cyclegan"
    recipe = json.loads((artefacts / "recipe.json").read_text())
    assert (recipe["architecture"], recipe["width"], recipe["size"]) == (
        "cyclegan_generator",
        4,
        [16, 16],
    )
    share = json.loads((artefacts / "scores.json").read_text())["sinusoid_share"]
    assert share["before"] < 0.05
    assert share["wanted"] > 0.6
    examples = sorted((artefacts / "examples").iterdir())
    assert [file.name for file in examples] == [f"gaussian_{number}.png" for number in (1, 2, 3, 4)]
    assert np.asarray(Image.open(examples[0])).shape == (16, 16, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("cyclegan --size 16 --steps 9 --work work --out out", "holds another training"),
        ("cyclegan --size 20", "--size is 20; expected a multiple of 8"),
        ("", "Missing option '--data'"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_sentence(
    trained, monkeypatch, arguments, words
) -> None:
    monkeypatch.chdir(trained[0])
    refused(run("train", *arguments.split()), words)


def test_train_export_merge_serve_and_predict_are_one_chain(
    trained, start_server, tmp_path
) -> None:
    models = trained[0] / "models"
    assert (
        ok("export", "cyclegan", "--out", models).splitlines()[-1]
        == f"wrote {models / 'cyclegan' / '1'}"
    )
    said = ok("merge", models / "cyclegan" / "1", "--decode", "bytes", "--encode", "png")
    assert "numbers from -1 (black) to 1 (white), as the source says" in said
    assert said.splitlines()[-1] == f"wrote {models / 'cyclegan' / '2'}"
    picture = models / "cyclegan" / "examples" / "gaussian_1.png"
    ok(
        "predict",
        "--model",
        "cyclegan",
        "--models",
        models,
        picture,
        "--out",
        tmp_path / "here.png",
    )
    server = start_server(models)
    ok(
        "predict",
        "--model",
        "cyclegan",
        "--url",
        server.url,
        picture,
        "--out",
        tmp_path / "served.png",
    )
    ok(
        "predict",
        "--model",
        "cyclegan",
        "--url",
        server.url,
        picture.parent,
        "--out",
        tmp_path / "all",
    )
    assert len(list((tmp_path / "all").iterdir())) == 4
    pictures = [
        {"b64": base64.b64encode(file.read_bytes()).decode()}
        for file in sorted(picture.parent.iterdir())[:3]
    ]
    reply = requests.post(
        f"{server.url}/v1/models/cyclegan:predict", json={"instances": pictures}, timeout=60
    )
    assert [list(row) for row in reply.json()["predictions"]] == [["b64"]] * 3
    version = tf.saved_model.load(str(models / "cyclegan" / "1"))
    image = tf.constant(np.asarray(Image.open(picture), np.float32)[np.newaxis] / 127.5 - 1)
    expected = cyclegan.as_pixels(version.signatures["serving_default"](image)["generated"][0])
    for file in ("here.png", "served.png", "all/gaussian_1.png"):
        np.testing.assert_allclose(np.asarray(Image.open(tmp_path / file)), expected, atol=1)


@pytest.mark.long
def test_the_demonstration_turns_gaussian_noise_into_sinusoidal_noise(tmp_path) -> None:
    models = tmp_path / "models"
    ok("train", "cyclegan", "--out", models / "cyclegan", "--work", tmp_path / "work")
    ok("export", "cyclegan", "--out", models)
    ok("merge", models / "cyclegan" / "1", "--decode", "bytes", "--encode", "png")
    examples = models / "cyclegan" / "examples"
    ok("predict", "--model", "cyclegan", "--models", models, examples, "--out", tmp_path / "out")

    def shares(folder: Path) -> np.ndarray:
        pictures = [np.asarray(Image.open(file), float) for file in sorted(folder.glob("*.png"))]
        return sinusoid_share(np.stack(pictures), RECIPE.period)

    assert shares(examples).max() < 0.005
    assert shares(tmp_path / "out").min() > 0.5
