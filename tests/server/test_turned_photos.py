"""A dog that lies on its side in the photo: a photo of which little is said is turned."""

import io
import json
import time

import numpy as np
import pytest
from dogsnap import local_model
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.serving.answers.classification import name_breeds
from dogsnap.serving.answers.levels import Level
from dogsnap.serving.execution.executor import within
from dogsnap.serving.inference import request_kinds
from dogsnap.serving.inference.request_kinds import Breeds, turned_back
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.photos.photo import turn
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.settings import MAX_PHOTO_PIXELS
from PIL import Image
from support import spotting, upright_dogs
from support.command_line import dogsnap, output_of
from support.exported import png
from support.waiting import wait_until

DECISION = {"dog_threshold": 0.4, "confident_threshold": 0.99}
SURE_ALONE = {"confident_threshold": 0.99}
# Descriptions by model: own classes, whose names may tell which way is up, and what says they do not.
OWN = {
    "arrows": (SURE_ALONE, {}),
    "digits": (SURE_ALONE, {"subject": "other"}),
    "x_rays": ({**DECISION, "dog_threshold": 0.01}, {"subject": "other"}),
    "told_upright": ({**DECISION, "dog_threshold": 0.01}, {"orientation": "upright"}),
    "flowers": (SURE_ALONE, {"subject": "other", "orientation": "any"}),
    "breeds": (SURE_ALONE, {"subject": "dogs"}),
}
FAINT_GREEN = (0, 40, 0)  # of which the networks think that it may be a green terrier
TURNED = ("flowers", "breeds")
# Thresholds of versions that tell which way is up: by these all answers are sure, or none.
TOLD = {"told": {"confident_threshold": 0.1}, "told_unsure": {"confident_threshold": 1.0}}
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
    for name in ("told", "told_unsure"):
        decision = {**DECISION, "dog_threshold": 0.01, **TOLD[name]}
        merge(upright_dogs.export(folder / name, decision, True), Options())
    for name, (decision, fields) in OWN.items():
        merge(upright_dogs.export(folder / name, decision, **fields), Options())
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


@pytest.mark.parametrize("half", DEGREES)
def test_a_version_that_tells_which_way_is_up_turns_what_it_is_wrongly_sure_of(server, half):
    sent = upright_dogs.photo(half, "blue spaniel", FAINT_GREEN)
    answer = server.classify(sent, model="told").json()
    assert (answer["level"], answer["breeds"][0]["name"]) == ("breed", "blue spaniel")
    assert answer.get("turned", 0) == DEGREES[half]


def test_a_version_that_tells_which_way_is_up_answers_an_upright_photo_at_once(models, monkeypatch):
    turned = []
    monkeypatch.setattr(request_kinds.photo, "turn", lambda *stated: turned.append(stated))
    with local_model.load(models / "told_unsure" / "2") as model:
        answer = model.classify(upright_dogs.photo("top"))
    assert answer.level is Level.UNSURE
    assert not turned


def test_a_turned_photo_that_is_told_to_lie_on_its_side_again_keeps_the_first_answer(
    models, monkeypatch
):
    flat = upright_dogs.photo("bottom", "blue spaniel", FAINT_GREEN)
    monkeypatch.setattr(request_kinds.photo, "turn", lambda *_: [flat])
    with local_model.load(models / "told" / "2") as model:
        answer = model.classify(flat)
    assert (answer.turned, answer.breeds[0].name) == (0, "green terrier")


def test_an_output_of_that_name_and_another_shape_tells_nothing(models, monkeypatch):
    run = LocalServable.run

    def run_and_tell(*stated):
        return {**run(*stated), "orientation": np.ones((1, 2), np.float32)}

    monkeypatch.setattr(LocalServable, "run", run_and_tell)
    with local_model.load(models / "unsure" / "2") as model:
        assert model.classify(upright_dogs.photo("left")).turned == 90


def test_the_first_answer_stays_where_no_turn_gives_a_sure_one(server):
    answer = server.classify(png(np.zeros((80, 120, 3), np.uint8))).json()
    assert answer["level"] == "no_dog"
    assert "turned" not in answer


@pytest.mark.parametrize("model", OWN)
def test_own_classes_are_turned_only_where_their_description_says_that_it_means_nothing(
    server, model
):
    answer = server.classify(upright_dogs.photo("left"), model=model).json()
    assert answer.get("turned", 0) == (90 if model in TURNED else 0)
    assert answer["confident"] == (model in TURNED)


def test_a_shadow_is_judged_by_what_it_would_answer_itself(start_server, tmp_path):
    """Version 2 turns no photo, version 1 in its shadow does, and finds the same breed at last."""
    model = tmp_path / "models" / "dogs"
    upright_dogs.export(model, {**DECISION, "dog_threshold": 0.01})
    upright_dogs.export(model, SURE_ALONE, subject="other")
    server = start_server(tmp_path / "models", "--default-model", "dogs")
    server.post("/api/admin/models/dogs/shadow", json={"version": 1}).raise_for_status()
    answer = server.classify(
        upright_dogs.photo("bottom", "blue spaniel", FAINT_GREEN), version=2
    ).json()
    assert answer["breeds"][0]["name"] == "green terrier"
    counted = lambda: server.get("/api/admin/models/dogs").json()["model"]["shadow"]  # noqa: E731
    wait_until(lambda: counted()["agree"] or counted()["differ"])
    assert counted()["differ"] == 1


@pytest.mark.parametrize(("model", "right"), [("unsure", 1.0), ("no_dog", 1.0), ("digits", 0.75)])
def test_what_is_evaluated_and_compared_is_what_a_server_answers(models, tmp_path, model, right):
    for half in DEGREES:
        for name in ("red hound", "blue spaniel"):
            folder = tmp_path / "photos" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{half}.png").write_bytes(upright_dogs.photo(half, name, FAINT_GREEN))
    command = ("--data", tmp_path / "photos", "--json", tmp_path / "scores.json")
    output_of(dogsnap("evaluate", models / model / "2", *command))
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["top1"] == right
    output_of(dogsnap("compare", models / model / "1", models / "unsure" / "2", *command))
    result = json.loads((tmp_path / "scores.json").read_text())
    assert result["accuracy"] == [right, 1.0]


def test_a_version_without_thresholds_answers_at_once(server):
    answer = server.classify(upright_dogs.photo("left"), model="without_thresholds").json()
    assert answer["note"]
    assert "turned" not in answer


@pytest.mark.parametrize(("seconds", "level"), [(60, Level.BREED), (0, Level.NO_DOG)])
def test_a_photo_is_turned_only_while_time_is_left(models, seconds, level):
    folder = models / "no_dog" / "2"  # merged
    servable = LocalServable(ServableId("no_dog", int(folder.name)), folder)
    metrics = Metrics()
    work = Breeds([upright_dogs.photo("left")], None)
    signature = work.prepare(servable, MAX_PHOTO_PIXELS, metrics)
    with within(time.monotonic() + seconds):
        run = work.run(servable, signature, metrics)
    assert work.answer(run).answer.level is level


@pytest.mark.parametrize(("half", "times"), [("top", 1), ("left", 4)])
def test_a_photo_is_named_once_and_so_is_each_of_its_turns(models, monkeypatch, half, times):
    named = []

    def count(servable, outputs, row, top_k):
        named.append(row)
        return name_breeds(servable, outputs, row, top_k)

    monkeypatch.setattr(request_kinds, "name_breeds", count)
    with local_model.load(models / "unsure" / "2") as model:
        assert model.classify(upright_dogs.photo(half)).level is Level.BREED
    assert len(named) == times


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
    outputs = {"box": np.array([seen]), "dogs_box": np.array([[seen, seen]])}
    answer = turned_back(outputs, degrees)
    assert answer["box"][0] == pytest.approx((0.1, 0.4, 0.4, 0.6))
    assert answer["dogs_box"][0] == pytest.approx(np.tile(answer["box"], (2, 1)))
