"""TensorFlow Serving's REST contract, over HTTP, against a real server process with small real SavedModels."""

import gzip
import json
import shutil
import socket
import subprocess
from typing import Any

import pytest
import requests
from contract_table import CASES, make_models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_client import ask, raw


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("contract_models")
    return start_server(models, "--model-config-file", str(make_models(models)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_rest_api_answers_as_tensorflow_serving_does(server, case):
    response = ask(server, case)
    assert response.headers["Content-Type"] == "application/json"
    assert response.status_code == case.status, response.text
    if case.status == 200:
        assert json.loads(response.text, parse_constant=pytest.fail) == case.answer
    else:
        assert case.error in response.json()["error"]
        assert response.json()["request_id"] == response.headers["X-Request-Id"]


@pytest.mark.skipif(
    not shutil.which("curl"), reason="curl is missing, by which TensorFlow Serving's documentation asks"
)
def test_the_curl_commands_of_tensorflow_servings_documentation_run_but_for_the_host(server):
    url = f"{server.url}/v1/models/half_plus_two"
    predicted = curl("-d", '{"instances": [1.0, 2.0, 5.0]}', "-X", "POST", f"{url}:predict")
    assert predicted == {"predictions": [2.5, 3.0, 4.5]}
    regressed = curl(
        "-d",
        '{"signature_name": "regress_x_to_y", "examples": [{"x": 1.0}, {"x": 2.0}]}',
        "-X",
        "POST",
        f"{url}:regress",
    )
    assert regressed == {"results": [2.5, 3.0]}
    (status,) = curl(url)["model_version_status"]
    assert (status["version"], status["state"]) == ("123", "AVAILABLE")
    assert "serving_default" in curl(f"{url}/metadata")["metadata"]["signature_def"]["signature_def"]


def curl(*arguments: str) -> Any:
    """curl itself, which sends a body as a form unless it is told otherwise, and is not told so there."""
    result = subprocess.run(["curl", "-s", *arguments], capture_output=True, text=True, timeout=120, check=True)
    return json.loads(result.stdout)


def test_the_path_is_read_without_regard_to_capitals(server):
    response = raw(server, "POST", "/V1/Models/half_plus_two/Versions/123:Predict", b'{"instances": [1.0]}')
    assert response.json() == {"predictions": [2.5]}


def test_a_header_names_the_version_that_answered(server):
    for path in ("half_plus_two:predict", "half_plus_two/labels/some_label:predict"):
        response = raw(server, "POST", f"/v1/models/{path}", b'{"instances": [1.0]}')
        assert response.headers["X-Dogsnap-Model-Version"] == "123"


def test_metadata_has_the_signatures_as_tensorflow_serving_writes_them(server):
    answer = raw(server, "GET", "/v1/models/several/versions/1/metadata").json()
    assert answer["model_spec"] == {"name": "several", "signature_name": "", "version": "1"}
    definition = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert definition["method_name"] == "tensorflow/serving/predict"
    assert definition["defaults"] == {}
    assert definition["inputs"]["a"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
        "name": "serving_default_a:0",
    }
    assert set(definition["outputs"]) == {"sum", "product"}


def test_a_gzipped_request_is_inflated(server):
    body = gzip.compress(b'{"instances": [1.0, 2.0]}')
    response = raw(server, "POST", "/v1/models/half_plus_two:predict", body, {"Content-Encoding": "gzip"})
    assert response.json() == {"predictions": [2.5, 3.0]}


def test_a_body_that_does_not_inflate_counts_as_empty(server):
    response = raw(server, "POST", "/v1/models/half_plus_two:predict", b"no gzip", {"Content-Encoding": "gzip"})
    assert (response.status_code, response.json()["error"]) == (400, "JSON Parse error: The document is empty")


def test_a_long_reply_is_gzipped_for_clients_that_accept_it(server):
    body = json.dumps({"instances": [float(number) for number in range(1000)]}).encode()
    zipped = raw(server, "POST", "/v1/models/half_plus_two:predict", body, {"Accept-Encoding": "gzip"})
    plain = raw(server, "POST", "/v1/models/half_plus_two:predict", body, {"Accept-Encoding": "identity"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert int(zipped.headers["Content-Length"]) < int(plain.headers["Content-Length"])
    assert zipped.json() == plain.json()


def test_a_chunked_request_is_read_whole(server):
    response = requests.post(
        f"{server.url}/v1/models/half_plus_two:predict", data=iter([b'{"instances"', b": [1.0]}"]), timeout=60
    )
    assert response.json() == {"predictions": [2.5]}


def test_without_cors_no_other_host_is_allowed_and_options_is_malformed(server):
    response = raw(server, "OPTIONS", "/v1/models/half_plus_two:predict", headers={"Origin": "http://example.com"})
    assert response.status_code == 400
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.fixture(scope="module")
def cors_server(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("cors_models")
    import tiny_models

    tiny_models.half_plus(2, models / "half_plus_two" / "1")
    tiny_models.constant(models / "constant" / "1")
    return start_server(models, "--enable-cors")


def test_cors_adds_its_headers_to_every_reply(cors_server):
    for body in (b'{"instances": [1.0]}', b"broken"):
        response = raw(cors_server, "POST", "/v1/models/half_plus_two:predict", body)
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert response.headers["Access-Control-Allow-Methods"] == "POST, GET"
        assert response.headers["Access-Control-Allow-Headers"] == "Content-Type"


def test_a_preflight_that_asks_for_more_headers_is_told_which_may_be_sent(cors_server):
    asked = {"Origin": "https://example.com", "Access-Control-Request-Headers": "content-type,x-request-key"}
    for path in ("/v1/models/half_plus_two:predict", "/api/classify"):
        response = raw(cors_server, "OPTIONS", path, headers=asked)
        allowed = response.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert response.status_code == 200
        assert {"content-type", "x-api-key", "authorization", "x-request-key"} <= set(allowed)


def test_cors_lets_a_page_read_the_headers_that_answers_speak_by(cors_server):
    response = raw(cors_server, "POST", "/v1/models/half_plus_two:predict", b'{"instances": [1.0]}')
    read = response.headers["Access-Control-Expose-Headers"].split(", ")
    assert read == ["X-Request-Id", "Retry-After", "X-Dogsnap-Model-Version"]
    assert response.headers["X-Dogsnap-Model-Version"] == "1"


@pytest.mark.parametrize("body", [b'{"instances": [1]}', b'{"instances": [{"b64": "AA=="}]}', b'{"inputs": 5}'])
def test_a_value_for_a_signature_without_inputs_is_refused(cors_server, body):
    response = raw(cors_server, "POST", "/v1/models/constant:predict", body)
    assert response.status_code == 400, response.text
    assert "Failed to get input map for signature: serving_default" in response.json()["error"]
    nothing = raw(cors_server, "POST", "/v1/models/constant:predict", b'{"inputs": {}}')
    assert nothing.json() == {"outputs": 42.0}


def test_cors_answers_a_preflight_with_an_origin_and_refuses_one_without(cors_server):
    with_origin = raw(
        cors_server, "OPTIONS", "/v1/models/half_plus_two:predict", headers={"Origin": "https://example.com"}
    )
    without = raw(cors_server, "OPTIONS", "/v1/models/half_plus_two:predict")
    assert (with_origin.status_code, with_origin.content) == (200, b"")
    assert (without.status_code, without.content) == (400, b"")


def test_a_head_request_is_malformed(server):
    assert raw(server, "HEAD", "/v1/models/half_plus_two").status_code == 400


def test_a_client_that_stops_while_sending_is_told_so_and_one_that_says_nothing_delays_nobody(server):
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, timeout=60), socket.create_connection(address, timeout=60) as slow:
        slow.sendall(b"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert requests.get(f"{server.url}/healthz", timeout=30).status_code == 200
        answer = b"".join(iter(lambda: slow.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the request paused for 15 seconds" in answer


@pytest.mark.parametrize(
    "framing", [b"Transfer-Encoding: chunked\r\n\r\n100\r\n", b"Content-Length: 1000\r\n\r\n"], ids=["chunks", "length"]
)
def test_a_body_that_ends_early_is_refused_and_no_piece_of_it_is_logged(server, framing):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(
            b"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nHost: x\r\n" + framing + b'{"secret-photo": "'
        )
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert "secret-photo" not in server.log()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just({"b64": "YQ=="}),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "x", "b64"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["half_plus_two", "several", "texts", "all_types", "odd_outputs"]),
    method=st.sampled_from(["predict", "predict", "classify", "regress"]),
    fields=st.dictionaries(st.sampled_from(["instances", "inputs", "signature_name", "examples", "context"]), VALUES),
    signature=st.sampled_from([None, "int32", "string", "shape", "not_finite", "regress_x_to_y", "classify_x_to_y"]),
)
def test_no_json_makes_the_rest_api_fail(server, path, method, fields, signature):
    body = json.dumps({**fields, "signature_name": signature} if signature else fields).encode()
    response = raw(server, "POST", f"/v1/models/{path}:{method}", body)
    assert response.status_code in (200, 400, 501), (body, response.text)
    json.loads(response.text, parse_constant=pytest.fail)
