"""TensorFlow Serving's REST contract, over HTTP, against a real server process with small real SavedModels."""

import json
import shutil
import subprocess
from typing import Any

import pytest
from support.contract_table import CASES, make_models
from support.rest_client import assert_contract, raw


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("contract_models")
    return start_server(models, "--model-config-file", str(make_models(models)), "--enable-cors")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_rest_api_answers_as_tensorflow_serving_does(server, case):
    assert_contract(server, case)


@pytest.mark.skipif(
    not shutil.which("curl"), reason="curl is missing: install Debian's package curl"
)
def test_the_curl_commands_of_tensorflow_servings_documentation_run_but_for_the_host(server):
    url = f"{server.url}/v1/models/half_plus_two"
    predicted = curl("-d", '{"instances": [1.0, 2.0, 5.0]}', "-X", "POST", f"{url}:predict")
    assert predicted == {"predictions": [2.5, 3.0, 4.5]}
    examples = '{"signature_name": "regress_x_to_y", "examples": [{"x": 1.0}, {"x": 2.0}]}'
    regressed = curl("-d", examples, "-X", "POST", f"{url}:regress")
    assert regressed == {"results": [2.5, 3.0]}
    (status,) = curl(url)["model_version_status"]
    assert (status["version"], status["state"]) == ("123", "AVAILABLE")
    assert (
        "serving_default" in curl(f"{url}/metadata")["metadata"]["signature_def"]["signature_def"]
    )


def curl(*arguments: str) -> Any:
    """curl itself, which sends a body as a form unless it is told otherwise, and is not told so there."""
    result = subprocess.run(
        ["curl", "-s", *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(result.stdout)


def test_the_path_is_read_without_regard_to_capitals_and_a_header_names_the_version(server):
    response = raw(
        server,
        "POST",
        "/V1/Models/half_plus_two/Labels/some_label:Predict",
        b'{"instances": [1.0]}',
    )
    assert response.json() == {"predictions": [2.5]}
    assert response.headers["X-Dogsnap-Model-Version"] == "123"


def test_metadata_has_the_signatures_as_tensorflow_serving_writes_them(server):
    answer = raw(server, "GET", "/v1/models/several/versions/1/metadata").json()
    assert answer["model_spec"] == {"name": "several", "signature_name": "", "version": "1"}
    definition = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert (definition["method_name"], definition["defaults"]) == ("tensorflow/serving/predict", {})
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert definition["inputs"]["a"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": shape,
        "name": "serving_default_a:0",
    }
    assert set(definition["outputs"]) == {"sum", "product"}


def test_a_body_that_does_not_inflate_counts_as_empty(server):
    response = raw(
        server, "POST", "/v1/models/half_plus_two:predict", b"no gzip", {"Content-Encoding": "gzip"}
    )
    assert (response.status_code, response.json()["error"]) == (
        400,
        "JSON Parse error: The document is empty",
    )


def test_a_long_reply_is_gzipped_for_clients_that_accept_it(server):
    body = json.dumps({"instances": [float(number) for number in range(1000)]}).encode()
    zipped = raw(
        server, "POST", "/v1/models/half_plus_two:predict", body, {"Accept-Encoding": "gzip"}
    )
    plain = raw(
        server, "POST", "/v1/models/half_plus_two:predict", body, {"Accept-Encoding": "identity"}
    )
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert int(zipped.headers["Content-Length"]) < int(plain.headers["Content-Length"])
    assert zipped.json() == plain.json()


def test_a_head_request_is_malformed_and_without_cors_options_are_too(server, colour_server):
    assert raw(server, "HEAD", "/v1/models/half_plus_two").status_code == 400
    headers = {"Origin": "http://example.com"}
    response = raw(colour_server, "OPTIONS", "/v1/models/inception_v3:predict", headers=headers)
    assert (response.status_code, "Access-Control-Allow-Origin" in response.headers) == (400, False)


def test_cors_adds_its_headers_to_every_reply(server):
    for body in (b'{"instances": [1.0]}', b"broken"):
        headers = raw(server, "POST", "/v1/models/half_plus_two:predict", body).headers
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert headers["Access-Control-Allow-Methods"] == "POST, GET"
        assert headers["Access-Control-Allow-Headers"] == "Content-Type"
        assert (
            headers["Access-Control-Expose-Headers"]
            == "X-Request-Id, Retry-After, X-Dogsnap-Model-Version, Inference-Header-Content-Length"
        )


def test_cors_answers_a_preflight_with_an_origin_and_says_which_headers_may_be_sent(server):
    asked = {
        "Origin": "https://example.com",
        "Access-Control-Request-Headers": "content-type,x-request-key",
    }
    for path in ("/v1/models/half_plus_two:predict", "/api/classify"):
        response = raw(server, "OPTIONS", path, headers=asked)
        allowed = response.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert (response.status_code, response.content) == (200, b"")
        assert {"content-type", "x-api-key", "authorization", "x-request-key"} <= set(allowed)
    without = raw(server, "OPTIONS", "/v1/models/half_plus_two:predict")
    assert (without.status_code, without.content) == (400, b"")
