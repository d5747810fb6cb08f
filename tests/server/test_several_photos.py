"""Several photos of one dog, one answer: POST /api/classify with `images`, as JSON and as a form."""

import base64
import json
from contextlib import ExitStack

import numpy as np
import pytest
import tensorflow as tf
from dogsnap import local_model
from dogsnap.serving.inference.request_kinds import Breeds
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.photos.photo import LARGE, LARGE_AT_ONCE, place_to_decode
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.settings import MAX_PHOTO_PIXELS
from support.colour_photos import BLUE, GREEN, RED, encode, plain
from support.refusals import assert_refused
from support.tiny_models import colours, save, signature, spec, with_levels

VIOLET = (200, 0, 200)  # as probably a red dog as a blue one
BLACK = (2, 2, 2)  # no dog
BROKEN = b"\xff\xd8\xff a photo that was cut off"


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    with_levels(colours(models / "inception_v3") / "2", 3)
    return start_server(models, "--feedback", models / "feedback.db", lasting=True)


def photo(colour) -> bytes:
    return encode(plain(colour), "PNG")


def as_json(*photos: bytes) -> dict:
    return {"json": {"images": [base64.b64encode(each).decode() for each in photos]}}


def as_form(*photos: bytes, name: str = "images") -> dict:
    return {"files": [(name, (f"{number}.png", each)) for number, each in enumerate(photos)]}


@pytest.mark.parametrize("send", [as_json, as_form])
def test_photos_of_one_dog_get_one_answer_and_each_its_own(server, send):
    answer = server.post("/api/classify", **send(photo(VIOLET), photo(RED), photo(VIOLET))).json()
    assert answer["same_dog"] is True
    assert (answer["breeds"][0]["id"], answer["box"]) == ("c1", None)
    assert answer["dogs"][0]["breeds"] == answer["breeds"]
    assert [each["level"] for each in answer["photos"]] == ["set", "breed", "set"]
    logarithms = []
    for each in answer["photos"]:
        of_ids = {breed["id"]: breed["probability"] for breed in each["breeds"]}
        logarithms.append(np.log([of_ids[number] for number in ("c1", "c2", "c3")]))
    shares = np.exp(np.mean(logarithms, axis=0))
    found = {breed["id"]: breed["probability"] for breed in answer["breeds"]}
    expected = shares / shares.sum()
    assert [found[number] for number in ("c1", "c2", "c3")] == pytest.approx(expected, abs=1e-4)


def test_photos_of_different_dogs_are_answered_alone(server):
    answer = server.post("/api/classify", **as_json(photo(BLUE), photo(RED))).json()
    assert answer["same_dog"] is False
    assert [each["breeds"][0]["id"] for each in answer["photos"]] == ["c3", "c1"]
    assert answer["breeds"] == answer["photos"][0]["breeds"]


def test_a_photo_without_a_dog_says_nothing_of_its_breed(server):
    black, red = photo(BLACK), photo(RED)
    answer = server.post("/api/classify", **as_json(black, red, red)).json()
    assert (answer["same_dog"], answer["level"]) == (True, "breed")
    assert [each["level"] for each in answer["photos"]] == ["no_dog", "breed", "breed"]
    answer = server.post("/api/classify", **as_json(black, red)).json()
    assert (answer["same_dog"], answer["level"]) == (False, "breed")
    answer = server.post("/api/classify", **as_json(black, black)).json()
    assert (answer["same_dog"], answer["level"], answer["dogs"]) == (False, "no_dog", [])


@pytest.mark.parametrize("send", [as_json, as_form])
def test_one_photo_among_images_is_answered_as_one(server, send):
    answer = server.post("/api/classify", **send(photo(GREEN))).json()
    assert "photos" not in answer
    assert answer["breeds"][0]["id"] == "c2"


def test_one_feedback_is_taken_on_what_all_photos_say(server):
    answer = server.post("/api/classify", **as_json(photo(RED), photo(RED))).json()
    assert answer["feedback_id"] == answer["dogs"][0]["feedback_id"]
    said = {"request_id": answer["feedback_id"], "verdict": "right"}
    assert server.post("/api/feedback", json=said).status_code == 200


RED_TEXT = base64.b64encode(photo(RED)).decode()
REFUSED = {
    "none": (as_json(), 400, "expected one to 5 photos of one dog, received none"),
    "six": (as_json(*[photo(RED)] * 6), 400, "expected one to 5 photos of one dog, received 6"),
    "six in a form": (as_form(*[photo(RED)] * 6), 400, "received 6"),
    "a broken one": (as_json(photo(RED), BROKEN, photo(BLUE)), 415, "photo 2 of 3: "),
    "a broken one in a form": (as_form(photo(RED), photo(BLUE), BROKEN), 415, "photo 3 of 3: "),
    "no base64": ({"json": {"images": [RED_TEXT, "!!"]}}, 400, "photo 2 of 2: "),
    "an empty one": ({"json": {"images": [RED_TEXT, ""]}}, 400, "photo 2 of 2: the photo is empty"),
    "a number": ({"json": {"images": [RED_TEXT, 5]}}, 400, '"images" is no list of photos'),
    "text": ({"json": {"images": RED_TEXT}}, 400, '"images" is no list of photos'),
    "both": ({"json": {"image": RED_TEXT, "images": [RED_TEXT]}}, 400, "both image and images"),
    "top_k of 4": (
        {"json": {"images": [RED_TEXT, RED_TEXT], "top_k": 4}},
        400,
        "top_k is 4; expected 1 to 3",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_photos_are_refused_and_the_wrong_one_is_named(server, case):
    sent, status, sentence = REFUSED[case]
    assert_refused(server.post("/api/classify", **sent), status, sentence)


def test_a_small_copy_is_made_of_one_photo_alone(server):
    sent = as_form(photo(RED), photo(RED))
    assert_refused(server.post("/api/upright", **sent), 400, "expected one photo, received 2")


def test_photos_that_are_large_together_alone_are_answered_while_others_decode_large_ones(tmp_path):
    servable = LocalServable(ServableId("colours", 2), colours(tmp_path / "colours") / "2")
    large_together = [encode(plain(RED, (2000, 1600)), "WEBP")] * 4
    metrics = Metrics()
    work = Breeds(large_together, None)
    with ExitStack() as others:
        for _ in range(LARGE_AT_ONCE):
            others.enter_context(place_to_decode(LARGE))
        run = work.run(servable, work.prepare(servable, MAX_PHOTO_PIXELS, metrics), metrics)
    assert [named.breeds[0].id for named in run.named] == ["c1"] * 4


def test_a_photo_is_answered_by_a_version_with_an_output_without_rows(tmp_path):
    def answer(image_bytes):
        probabilities = tf.tile([[0.1, 0.9]], [tf.size(image_bytes), 1])
        return {"prediction": probabilities, "build": tf.constant(7)}

    save(
        tmp_path / "1", serving_default=signature(answer, spec(tf.string, None, name="image_bytes"))
    )
    (tmp_path / "1" / "assets.extra").mkdir()
    labels = [{"id": name, "name": name} for name in ("cat", "dog")]
    (tmp_path / "1" / "assets.extra" / "dogsnap.json").write_text(json.dumps({"labels": labels}))
    with local_model.load(tmp_path / "1") as model:
        assert model.classify(photo(RED)).breeds[0].name == "dog"
