"""Each line of the access log says how long an answer took, how large it was, and which version gave it."""

import json

import pytest
from support.colour_photos import RED, encode, plain
from support.grpc_client import connected

PHOTO = encode(plain(RED), "JPEG")


@pytest.fixture(scope="module")
def server(start_server, colour_models):
    return start_server(colour_models, "--access-log", "--log-format", "json")


def lines(server) -> list[dict]:
    events = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [event for event in events if "seconds" in event]


def test_a_line_names_seconds_bytes_and_the_version_that_answered(server) -> None:
    response = server.post("/api/classify?version=2", PHOTO, headers={"Content-Type": "image/jpeg"})
    server.get("/healthz")
    classified = [line for line in lines(server) if line["path"] == "/api/classify"][-1]
    assert classified["bytes"] == len(response.content)
    assert 0 < classified["seconds"] < 60
    assert (classified["model"], classified["version"]) == ("inception_v3", "2")
    assert (classified["status"], classified["label"]) == (200, "")
    probe = [line for line in lines(server) if line["path"] == "/healthz"][-1]
    assert (probe["model"], probe["version"]) == ("", "")


def test_a_line_of_grpc_has_the_same(server) -> None:
    with connected(server.grpc_port) as client:
        answer = client.predict("inception_v3", signature="image_bytes", image_bytes=[PHOTO])
    line = [line for line in lines(server) if line["method"] == "Predict"][-1]
    assert (line["model"], line["version"], line["status"]) == ("inception_v3", "2", "OK")
    assert line["bytes"] == answer.ByteSize()
