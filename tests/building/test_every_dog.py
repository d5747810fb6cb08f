"""Every dog in a photo: found, given a second pass each, judged and answered; in TensorFlow and in OpenVINO."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.exporting.merging.merge import MergeError, Options, merge
from dogsnap.networks.every_dog import CELLS
from dogsnap.serving.answers.classification import name_breeds
from dogsnap.serving.versions.servable import LocalServable
from support import spotting
from support.coloured_dogs import BLUE, EVERY, GREEN, NONE, ONE, RED, TWO, export
from support.exported import SIZE, png
from support.spotting import COLOURS, RUNTIMES, load, photo, place, scores

pytestmark = pytest.mark.early


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = spotting.versions(export(tmp_path_factory.mktemp("models") / "tiny"))
    merge(folder / "1", Options())
    merge(spotting.export(folder.parent / "plain"), Options(second_pass=True))
    return folder


@pytest.fixture(scope="module", params=RUNTIMES)
def servable(made, request) -> LocalServable:
    loaded = load(made / str(RUNTIMES[request.param]))
    assert loaded.runtime["name"] == request.param
    return loaded


def named(servable: LocalServable, contents: bytes) -> dict:
    return json.loads(json.dumps(name_breeds(servable, scores(servable, contents), 0, 3).to_json()))


def test_two_dogs_are_two_answers_from_the_largest_to_the_smallest(servable):
    answer = named(servable, TWO)
    assert [dog["breeds"][0]["name"] for dog in answer["dogs"]] == ["red hound", "blue spaniel"]
    assert [dog["level"] for dog in answer["dogs"]] == ["breed", "breed"]
    for dog, sides in zip(answer["dogs"], (RED, BLUE), strict=True):
        np.testing.assert_allclose(
            dog["box"], np.array(sides) / (320, 240, 320, 240), atol=2 / SIZE[0]
        )
    assert answer["more_dogs"] is False
    assert {name: answer[name] for name in answer["dogs"][0]} == answer["dogs"][0]


def test_one_dog_is_answered_as_without_a_list_and_one_pixel_like_any_photo(servable, made):
    answer, outputs = named(servable, ONE), scores(servable, ONE)
    assert len(answer["dogs"]) == 1
    assert answer["dogs"][0]["breeds"] == answer["breeds"]
    assert named(servable, png(np.full((1, 1, 3), 200, np.uint8)))["level"] in (
        "breed",
        "unsure",
        "no_dog",
    )
    for name, value in scores(load(made.parent / "plain" / "2"), ONE).items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-3)


@pytest.mark.parametrize("contents", [NONE, ONE, TWO])
def test_which_way_is_up_is_told_by_the_first_pass_whatever_is_found(tmp_path, contents):
    model = export(tmp_path / "models" / "tiny", tells_orientation=True).parent
    merge(model / "1", Options())
    merge(model / "1", Options(second_pass=True))
    one, every = (scores(load(model / number), contents) for number in ("2", "3"))
    assert one["orientation"].shape == (1, 4)
    np.testing.assert_allclose(every["orientation"], one["orientation"], atol=1e-5)
    assert "dogs_box" in every


def test_a_box_that_the_dog_head_refuses_is_thrown_out(servable):
    """The dog head of this network wants light: a dark spot has a box, and is no dog."""
    pixels = np.full((240, 320, 3), 20, np.uint8)
    pixels[10:230, 10:150] = COLOURS["red hound"]
    pixels[100:130, 200:230] = (20, 20, 110)
    outputs = scores(servable, png(pixels))
    assert outputs["dogs_number"].tolist() == [1]
    assert outputs["prediction"][0].argmax() == place("red hound")
    np.testing.assert_allclose(outputs["dogs_score"][0, 1:], 0)


def test_three_dogs_in_a_batch_with_one_and_none_have_the_answers_that_they_have_alone(servable):
    three = photo([("red hound", RED), ("blue spaniel", BLUE), ("green terrier", GREEN)])
    together = scores(servable, ONE, three, NONE, TWO)
    assert together["dogs_number"].tolist() == [1, 3, 1, 2]
    for row, alone in enumerate((ONE, three, NONE, TWO)):
        for name, value in scores(servable, alone).items():
            np.testing.assert_allclose(together[name][row], value[0], atol=1e-3)
    assert scores(servable)["dogs_box"].shape == (0, 4, 4)


def test_a_crowd_gets_the_four_largest_and_says_that_there_are_more():
    corners = np.array([(x / 5, y / 4) for x in range(5) for y in range(4)], np.float32)
    sides = np.concatenate(
        [corners, corners + np.linspace(0.1, 0.18, 20, dtype=np.float32)[:, None]], axis=1
    )
    cells = np.concatenate([np.full((20, 1), 0.8, np.float32), 0.8 * sides], axis=1)
    boxes, counts = EVERY.find_dogs(tf.constant(cells[None]))
    assert counts.numpy().tolist() == [20]
    np.testing.assert_allclose(boxes[0], sides[:-5:-1], atol=1e-5)


def test_a_box_is_the_mean_of_both_passes_where_the_second_finds_the_dog_again():
    def cells(*found: tuple) -> tf.Tensor:
        return tf.constant([[score, *(score * side for side in sides)] for score, *sides in found])

    answers = {
        "prediction": tf.constant([[0.5, 0.5]]),
        "dog": tf.constant([0.9]),
        "box": tf.constant([[0.0, 0, 1, 1]]),
    }
    first = answers | {CELLS: cells((0.9, 0, 0, 0.4, 1), (0.8, 0.6, 0, 1, 1))[None]}
    # The windows are mirrored. The first dog fills half of its own, beside a part of another one; the second is not found again.
    part = (0.95, 0, 0, 0.2, 1)
    again = tf.stack([cells((0.9, 0.5, 0, 1, 1), part), cells((0.2, 0.5, 0, 1, 1), part)])
    second = {name: tf.repeat(value, 2, axis=0) for name, value in answers.items()} | {CELLS: again}
    planned = EVERY.plan(first)
    np.testing.assert_allclose(planned["windows"], [[0, 0, 0.44, 1], [0.56, 0, 1, 1]], atol=1e-6)
    boxes = EVERY.combine(first, second, planned)["dogs_box"][0, :2]
    np.testing.assert_allclose(boxes, [[0.6, 0, 1, 1], [0, 0, (0.4 + 0.22) / 2, 1]], atol=1e-6)


def test_the_other_versions_say_nothing_of_several_dogs_and_the_description_tells_the_parameters(
    made,
):
    assert set(scores(load(made / "4"), TWO)) == {"prediction", "dog", "box"}
    assert load(made / "2").description.raw["every_dog"] == EVERY.to_json()
    assert len(named(load(made / "4"), TWO)["dogs"]) == 1


def test_missing_parameters_are_named(tmp_path):
    lacking = {name: value for name, value in EVERY.to_json().items() if name != "overlap"}
    with pytest.raises(MergeError, match="lacks 'overlap'; export it again"):
        merge(export(tmp_path / "tiny", lacking), Options(second_pass=True))


def test_a_photo_shows_a_dog_where_the_second_pass_of_one_of_several_sees_one(servable):
    """The dog head of this network wants light: in the dark photo only the bright spots have it."""
    pixels = np.full((240, 320, 3), 5, np.uint8)
    pixels[20:60, 20:60], pixels[150:200, 200:260] = (250, 60, 60), (60, 60, 250)
    outputs = scores(servable, png(pixels))
    assert outputs["dogs_number"].tolist() == [2]
    np.testing.assert_allclose(outputs["dog"], outputs["dogs_score"].max(axis=1), atol=1e-6)
    assert outputs["dog"] > 0.7
