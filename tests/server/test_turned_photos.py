"""A dog that lies on its side in the photo: a photo of which little is said is turned."""

import io
import time
from dataclasses import replace

import numpy as np
import pytest
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.serving.answers.classification import turn_back
from dogsnap.serving.answers.levels import Level
from dogsnap.serving.inference.executor import within
from dogsnap.serving.inference.request_kinds import Breeds
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.photos.photo import turn
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import Servable
from dogsnap.settings import Settings
from PIL import Image
from support import spotting, upright_dogs
from support.exported import png
from support.feedback_ids import answer as answer_of

DECISION = {"dog_threshold": 0.4, "confident_threshold": 0.99}
DEGREES = {"top": 0, "left": 90, "bottom": 180, "right": 270}  # that turn a half to the top


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models by how the network says little of a dog that is not upright, or nothing of the thresholds."""
    folder = tmp_path_factory.mktemp("models")
    for name, decision in {
        "no_dog": DECISION,
        "unsure": {**DECISION, "dog_threshold": 0.01},
        "without_thresholds": {},
    }.items():
        merge(upright_dogs.export(folder / name, decision), Options())
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models, "--default-model", "no_dog")


@pytest.mark.parametrize("model", ["no_dog", "unsure"])
@pytest.mark.parametrize("half", DEGREES)
def test_a_photo_is_turned_until_its_dog_is_upright_and_the_answer_says_by_how_much(
    server, model, half
):
    answer = server.classify(upright_dogs.photo(half, "blue spaniel"), model=model).json()
    assert (answer["level"], answer["breeds"][0]["name"]) == ("breed", "blue spaniel")
    assert answer.get("turned", 0) == DEGREES[half]


def test_the_first_answer_stays_where_no_turn_gives_a_sure_one(server):
    answer = server.classify(png(np.zeros((80, 120, 3), np.uint8))).json()
    assert answer["level"] == "no_dog"
    assert "turned" not in answer


def test_a_version_without_thresholds_answers_at_once(server):
    answer = server.classify(upright_dogs.photo("left"), model="without_thresholds").json()
    assert answer["note"]
    assert "turned" not in answer


@pytest.mark.parametrize(("seconds", "level"), [(60, Level.BREED), (0, Level.NO_DOG)])
def test_a_photo_is_turned_only_while_time_is_left(models, seconds, level):
    folder = models / "no_dog" / "2"  # merged
    servable = Servable.load(ServableId("no_dog", int(folder.name)), folder)
    settings, metrics = Settings(), Metrics()
    work = Breeds(upright_dogs.photo("left"), None)
    signature = work.prepare(servable, settings, metrics)
    with within(time.monotonic() + seconds):
        outputs, answering = work.run(servable, signature)
    assert work.answer(answering, outputs, metrics).level is level


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_box_is_that_in_the_photo_as_it_was_sent(degrees):
    box = (10, 20, 40, 30)
    sent = spotting.photo([("red hound", box)], (100, 50))
    (turned,) = turn(sent, [degrees])
    pixels = np.asarray(Image.open(io.BytesIO(turned)))
    rows, columns = np.nonzero(np.ptp(pixels, axis=2))
    height, width = pixels.shape[:2]
    seen = (
        columns.min() / width,
        rows.min() / height,
        (columns.max() + 1) / width,
        (rows.max() + 1) / height,
    )
    dog = replace(answer_of(1), box=seen)
    answer = turn_back(replace(dog, dogs=(dog,)), degrees)
    assert answer.box == pytest.approx((0.1, 0.4, 0.4, 0.6))
    assert answer.dogs[0].box == answer.box
