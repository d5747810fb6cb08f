"""Each line of the access log says how long an answer took, how large it was, and which version gave it."""

import json
import socket

import grpc
import pytest
from support.colour_photos import RED, encode, plain
from support.grpc_client import connected, predict_request
from support.waiting import wait_until

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


@pytest.mark.parametrize("door", ["/api/classify", "/v1", "path", "grpc"])
def test_however_long_a_name_is_that_a_client_made_up_its_line_is_short(server, door) -> None:
    long, before = "x" * 100_000, len(lines(server))
    if door == "/api/classify":
        server.classify(PHOTO, label=long)
    elif door == "/v1":
        server.post(f"/v1/models/inception_v3/labels/{long[:8000]}:predict", json={"instances": []})
    elif door == "path":
        server.get(f"/{long[:8000]}")
    else:
        request = predict_request("inception_v3", image_bytes=[PHOTO])
        request.model_spec.version_label = long
        with connected(server.grpc_port) as client, pytest.raises(grpc.RpcError):
            client.prediction.Predict(request, timeout=60)
    wait_until(lambda: len(lines(server)) > before)
    last = [line for line in server.log().splitlines() if '"seconds"' in line][-1]
    assert len(last) < 1500


def test_a_head_that_is_no_http_tells_the_log_neither_address_nor_key(server) -> None:
    heads = ["X-Api-Key secret-key", "X-Api-Key : secret-key", "X-Api\x00Key: secret-key",
             "Transfer-Encoding: secret-key", "Content-Length: secret-key"]  # fmt: skip
    for head in [*heads, "a: " + "secret-key" * 2000]:
        with socket.create_connection(
            ("127.0.0.1", server.port), 10, source_address=("127.0.0.9", 0)
        ) as connection:
            connection.sendall(f"GET /v1/models HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n".encode())
            status = int(connection.recv(100).split(b" ")[1])
            assert 400 <= status < 502, head
    wait_until(lambda: "no valid HTTP" in server.log())
    assert "secret-key" not in server.log()
    assert "127.0.0.9" not in server.log()


def test_a_line_of_grpc_has_the_same(server) -> None:
    with connected(server.grpc_port) as client:
        answer = client.predict("inception_v3", signature="image_bytes", image_bytes=[PHOTO])
    line = [line for line in lines(server) if line["method"] == "Predict"][-1]
    assert (line["model"], line["version"], line["status"]) == ("inception_v3", "2", "OK")
    assert line["bytes"] == answer.ByteSize()
