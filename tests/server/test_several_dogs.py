"""Photos with several dogs as clients get the answer: of the app's API, TensorFlow Serving's REST, the command, and feedback."""

import base64
import json

import pytest
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.serving.feedback.signed_ids import Signer
from support import coloured_dogs
from support.coloured_dogs import NONE, ONE, TWO
from support.command_line import dogsnap
from support.feedback_ids import SECRET


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    merge(coloured_dogs.export(folder / "inception_v3"), Options(second_pass=True))
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models, "--feedback", models / "feedback.db", "--feedback-secret", SECRET)


def names(answer: dict) -> list[str]:
    return [dog["breeds"][0]["name"] for dog in answer["dogs"]]


def test_the_answer_lists_each_dog_is_that_of_the_first_and_takes_feedback_on_each(server):
    answer = server.classify(TWO).json()
    assert names(answer) == ["red hound", "blue spaniel"]
    assert answer["more_dogs"] is False
    assert {name: answer[name] for name in answer["dogs"][0]} == answer["dogs"][0]
    assert len(server.classify(ONE).json()["dogs"]) == 1
    ids = [dog["feedback_id"] for dog in answer["dogs"]]
    assert len(set(ids)) == 2
    assert [Signer(SECRET.encode()).verify(each)[1]["asked"] for each in ids] == [True, False]
    for number in ids:
        said = {"request_id": number, "verdict": "right"}
        assert [server.post("/api/feedback", json=said).status_code for _ in range(2)] == [200, 409]


def test_tensorflow_servings_rest_gives_the_tensors(server):
    photos = [{"b64": base64.b64encode(photo).decode()} for photo in (TWO, NONE)]
    body = {"signature_name": "scores", "instances": photos}
    answer = server.post("/v1/models/inception_v3:predict", json=body).json()
    two, none = answer["predictions"]
    assert (two["dogs_number"], none["dogs_number"], two["dogs_more"]) == (2, 1, False)
    assert two["dogs_box"][0] == pytest.approx(two["box"])
    assert [len(two[name]) for name in ("dogs_box", "dogs_prediction", "dogs_score")] == [4, 4, 4]


def test_the_command_prints_the_same_list(server, models, tmp_path):
    photo = tmp_path / "two.png"
    photo.write_bytes(TWO)
    for where in (("--url", server.url), ("--models", models)):
        result = dogsnap("predict", photo, *where)
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert names(answer) == ["red hound", "blue spaniel"]
        assert "feedback_id" not in answer["dogs"][1]
