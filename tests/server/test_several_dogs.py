"""Photos with several dogs as clients get the answer: of the app's API, TensorFlow Serving's REST, the command, and feedback."""

import base64
import json

import coloured_dogs
import pytest
import requests
from click.testing import CliRunner
from coloured_dogs import NONE, ONE, TWO
from feedback_ids import SECRET

from backend.building.merging.merge import Options, merge
from backend.cli import main
from backend.serving.feedback.signed_ids import Signer


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    merge(coloured_dogs.export(folder / "inception_v3"), Options(second_pass=True))
    return folder


@pytest.fixture(scope="module")
def server(start_server, models, tmp_path_factory):
    file = tmp_path_factory.mktemp("feedback") / "feedback.db"
    return start_server(models, "--feedback", str(file), "--feedback-secret", SECRET)


def classify(server, photo: bytes) -> dict:
    answer = requests.post(f"{server.url}/api/classify", data=photo, headers={"Content-Type": "image/png"}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(answer: dict) -> list[str]:
    return [dog["breeds"][0]["name"] for dog in answer["dogs"]]


def test_the_answer_lists_each_dog_and_is_that_of_the_first(server):
    answer = classify(server, TWO)
    assert names(answer) == ["red hound", "blue spaniel"]
    assert answer["more_dogs"] is False
    assert {name: answer[name] for name in answer["dogs"][0]} == answer["dogs"][0]
    assert len(classify(server, ONE)["dogs"]) == 1


def test_each_dog_takes_feedback_of_its_own_and_the_app_is_to_ask_about_the_first(server):
    ids = [dog["feedback_id"] for dog in classify(server, TWO)["dogs"]]
    assert len(set(ids)) == 2
    assert [Signer(SECRET.encode()).opened(each)[1]["asked"] for each in ids] == [True, False]
    for number in ids:
        body = {"request_id": number, "verdict": "right"}
        for status in (200, 409):
            assert requests.post(f"{server.url}/api/feedback", json=body, timeout=60).status_code == status


def test_tensorflow_servings_rest_gives_the_tensors(server):
    body = {
        "signature_name": "scores",
        "instances": [{"b64": base64.b64encode(photo).decode()} for photo in (TWO, NONE)],
    }
    answer = requests.post(f"{server.url}/v1/models/inception_v3:predict", json=body, timeout=60).json()
    two, none = answer["predictions"]
    assert (two["dogs_number"], none["dogs_number"], two["dogs_more"]) == (2, 1, False)
    assert two["dogs_box"][0] == pytest.approx(two["box"])
    assert [len(two[name]) for name in ("dogs_box", "dogs_prediction", "dogs_score")] == [4, 4, 4]


def test_the_command_prints_the_same_list(server, models, tmp_path):
    photo = tmp_path / "two.png"
    photo.write_bytes(TWO)
    for where in (("--url", server.url), ("--models", str(models))):
        result = CliRunner().invoke(main, ["predict", str(photo), *where])
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert names(answer) == ["red hound", "blue spaniel"]
        assert "feedback_id" not in answer["dogs"][1]
