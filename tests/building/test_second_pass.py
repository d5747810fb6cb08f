"""The second pass: a dog that is small in the photo is cut out and classified again, in TensorFlow and in OpenVINO."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.export import Stored
from dogsnap.exporting.merging.merge import MergeError, Options, merge
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.answers.levels import Decision
from dogsnap.serving.photos.base64_text import to_web_safe_base64
from dogsnap.serving.photos.preprocessing import windows_to_images
from dogsnap.serving.versions.servable import LocalServable
from lab import second_pass_choice
from lab.second_pass_choice import choose
from PIL import Image
from support import spotting
from support.exported import SIZE, network, png
from support.spotting import PASS, RUNTIMES, load, photo, place, scores

pytestmark = pytest.mark.early

FAR = photo([("blue spaniel", (200, 150, 240, 180))])
NEAR = photo([("red hound", (10, 10, 315, 235))])


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return spotting.versions(spotting.export(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def plain(made) -> LocalServable:
    return load(made / "1")


@pytest.fixture(scope="module", params=RUNTIMES)
def twice(made, request) -> LocalServable:
    servable = load(made / str(RUNTIMES[request.param]))
    assert servable.runtime["name"] == request.param
    return servable


def test_a_small_dog_gets_a_second_pass_and_both_answers_count(plain, twice):
    once, both = scores(plain, FAR), scores(twice, FAR)
    assert once["prediction"][0].max() < 0.5
    assert both["prediction"][0].argmax() == place("blue spaniel")
    assert both["prediction"][0].max() > 0.9
    np.testing.assert_allclose(both["prediction"].sum(), 1, atol=1e-5)
    np.testing.assert_allclose(both["box"], once["box"], atol=0.05)
    np.testing.assert_allclose(
        both["box"][0], [200 / 320, 150 / 240, 240 / 320, 180 / 240], atol=1 / SIZE[0]
    )


def test_a_dog_that_the_second_pass_alone_sees_is_seen(plain, twice):
    """The dog head of this network wants light: the spot is bright, and the photo is dark."""
    pixels = np.full((240, 320, 3), 5, np.uint8)
    pixels[150:180, 200:240] = (60, 255, 60)
    assert scores(plain, png(pixels))["dog"] < 0.55
    assert scores(twice, png(pixels))["dog"] > 0.7


def test_the_combination_is_the_weighted_mean_of_logarithms_in_fitting_as_in_the_version(
    plain, twice
):
    first = scores(plain, FAR)
    boxes = tf.constant(first["box"])
    window = tf.reverse(windows_to_images(tf.constant([FAR]), PASS.windows(boxes), SIZE), axis=[2])
    second = plain.run(plain.signature("scores"), {"image": window.numpy()})
    before, after = (np.log(each["prediction"].astype(float)) for each in (first, second))
    mean = 0.25 * before + 0.75 * after
    mixed, _ = second_pass_choice.mix_passes(PASS, before, after)
    for expected in (np.exp(mean) / np.exp(mean).sum(), np.exp(mixed)):
        np.testing.assert_allclose(scores(twice, FAR)["prediction"], expected, atol=0.01)


def test_a_photo_that_the_first_pass_is_sure_of_gets_one_pass(tmp_path):
    # A second pass would make any answer unsure.
    eager = replace(PASS, largest=1.0, surest=0.9, weight=1.0, sharpness=0.1)
    merge(spotting.export(tmp_path / "tiny", eager), Options(second_pass=True))
    for dog, is_sure in (((10, 10, 315, 235), True), ((10, 10, 100, 235), False)):
        seen = photo([("red hound", dog)])
        once, both = (
            scores(load(tmp_path / "tiny" / number), seen)["prediction"].max() for number in "12"
        )
        assert (once > 0.9) == is_sure
        assert (both < 0.5) != is_sure


def test_a_dog_that_fills_the_photo_gets_one_pass(plain, twice):
    once, both = scores(plain, NEAR), scores(twice, NEAR)
    for name, value in once.items():
        np.testing.assert_allclose(both[name], value, atol=1e-3)


@pytest.mark.parametrize("photos", [[], [NEAR], [FAR, NEAR, FAR], [NEAR, FAR, NEAR, NEAR]])
def test_each_photo_of_a_request_has_the_answer_that_it_has_alone(twice, photos):
    together = scores(twice, *photos)
    assert together["prediction"].shape == (len(photos), 3)
    for row, alone in enumerate(photos):
        np.testing.assert_allclose(
            together["prediction"][row], scores(twice, alone)["prediction"][0], atol=1e-4
        )


def test_every_signature_has_the_second_pass_which_the_version_describes_with_its_own_thresholds(
    plain, twice
):
    expected = scores(twice, FAR)["prediction"]
    text = [to_web_safe_base64(FAR)]
    for name, value in (("serving_default", text), ("image_bytes", [FAR])):
        signature = twice.signature(name)
        answer = twice.run(signature, {next(iter(signature.inputs)): value})
        assert list(answer) == ["prediction"]
        np.testing.assert_allclose(answer["prediction"], expected, atol=1e-5)
    assert twice.run(twice.signature("labels"), {"image": text})["labels"][0, 0] == b"blue spaniel"
    assert twice.description.raw["second_pass"] == PASS.to_json()
    assert twice.description.levels.decision == Decision(dog=0.1, confident=0.9)
    assert "second_pass" not in plain.description.raw


def test_plain_tensorflow_runs_both_passes_of_a_version_with_a_copy_for_openvino(made):
    loaded = tf.saved_model.load(str(made / "3"))
    answer = loaded.signatures["scores"](image_bytes=tf.constant([FAR]))
    np.testing.assert_allclose(
        answer["prediction"], scores(load(made / "2"), FAR)["prediction"], atol=1e-4
    )


@pytest.mark.parametrize(
    "odd",
    [
        png(np.full((1, 1, 3), 200, np.uint8)),
        photo([("green terrier", (4000, 20, 4300, 80))], size=(10_000, 100)),
        photo([("green terrier", (0, 0, 20, 20))]),
        photo([("red hound", (300, 220, 320, 240))]),
    ],
    ids=["one pixel", "panorama", "cut off by a corner", "cut off by the other corner"],
)
def test_odd_photos_get_an_ordinary_answer(twice, odd):
    answer = scores(twice, odd)
    np.testing.assert_allclose(answer["prediction"].sum(), 1, atol=1e-4)
    assert np.isfinite(answer["dog"]).all()
    left, top, right, bottom = answer["box"][0]
    assert 0 <= left <= right <= 1
    assert 0 <= top <= bottom <= 1


def test_a_window_is_cut_out_in_the_photos_own_resolution():
    pixels = np.zeros((1200, 1600, 3), np.uint8)
    pixels[600:616, 800:816:2] = 255
    kept = windows_to_images(
        tf.constant([png(pixels)]), tf.constant([[0.5, 0.5, 0.51, 616 / 1200]]), (16, 16)
    ).numpy()
    np.testing.assert_allclose(kept[0, :, ::2], 1)
    np.testing.assert_allclose(kept[0, :, 1::2], 0)


def test_a_jpeg_is_scaled_down_only_as_far_as_the_window_allows():
    file = io.BytesIO()
    pixels = np.kron(
        np.random.default_rng(3).integers(0, 255, (150, 200, 3), np.uint8),
        np.ones((8, 8, 1), np.uint8),
    )
    Image.fromarray(pixels).save(file, "JPEG", quality=98, subsampling=0)
    windows = tf.constant([[0.25, 0.25, 0.265625, 0.265625], [0.0, 0.0, 1.0, 1.0]])
    small, whole = windows_to_images(tf.constant([file.getvalue()] * 2), windows, SIZE).numpy()
    expected = tf.image.resize(pixels[300:319, 400:425], SIZE, antialias=True) / 255
    np.testing.assert_allclose(small, expected, atol=0.04)
    np.testing.assert_allclose(whole, tf.image.resize(pixels, SIZE, antialias=True) / 255, atol=0.1)


def test_the_parameters_that_are_chosen_put_right_what_one_pass_gets_wrong_unless_too_many_would_get_two(
    monkeypatch,
):
    """Of twelve photos, four, all of them whole pictures, are wrong and unsure in the first pass and right in the second."""
    breeds, whole = np.arange(12) % 3, np.arange(12) < 4
    first = np.where(whole[:, np.newaxis], [0.5, 0.3, 0.2], [0.98, 0.01, 0.01])
    before = np.log(
        [np.roll(row, breed + far) for row, breed, far in zip(first, breeds, whole, strict=True)]
    )
    after = np.log([np.roll([0.9, 0.05, 0.05], breed) for breed in breeds])
    chosen = choose(before, after, breeds, whole, np.ones(len(breeds)))
    assert chosen.surest == 0.85
    mixed, twice = second_pass_choice.mix_passes(chosen, before, after)
    assert (mixed.argmax(-1) == breeds).all()
    assert twice.tolist() == whole.tolist()
    monkeypatch.setattr(second_pass_choice, "MOST_PASSES", -1.0)
    assert not second_pass_choice.mix_passes(
        choose(before, after, breeds, whole, np.ones(len(breeds))), before, before
    )[1].any()


def test_parameters_of_an_earlier_release_are_refused_in_a_sentence(tmp_path):
    source = spotting.export(tmp_path / "tiny")
    file = source / "assets.extra" / "dogsnap.json"
    description = json.loads(file.read_text())
    del description["scores"]["second_pass"]["surest"]
    file.write_text(json.dumps(description))
    with pytest.raises(MergeError, match="lacks 'surest'; export it again"):
        merge(source, Options(second_pass=True))


def test_a_second_pass_needs_a_network_that_gives_a_box_and_its_parameters(tmp_path):
    with pytest.raises(
        MergeError, match="needs a network that gives prediction, dog, box; missing: box"
    ):
        merge(
            Stored(network(), Calibration(1.0), {}).export(tmp_path / "tiny").folder,
            Options(second_pass=True),
        )
    with pytest.raises(MergeError, match="needs its parameters in the source's description"):
        merge(spotting.export(tmp_path / "boxes", second_pass=None), Options(second_pass=True))
