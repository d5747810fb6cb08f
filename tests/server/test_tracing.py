"""Traces: a real server sends its spans to a collector that the test plays."""

import base64
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from support.colour_photos import encode, plain
from support.grpc_client import connected, predict_request
from support.ports import LOST_PROXY
from support.stub_service import StubService

pytest.importorskip(
    "opentelemetry.instrumentation.grpc",
    reason="the extra dogsnap[otel], which sends traces, is not installed",
)

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
SECRET = "a-word-of-the-client"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
PHOTO = encode(plain(), "JPEG")


@pytest.fixture(scope="module")
def collected(start_server, colour_models) -> list:
    """The spans of requests by HTTP and gRPC, all below the same span of their client."""
    with StubService() as collector:
        endpoint = f"{collector.url}/v1/traces"
        server = start_server(colour_models, "--otlp-endpoint", endpoint, environ=LOST_PROXY)
        assert server.classify(PHOTO, HEADERS).status_code == 200
        assert server.get("/healthz", headers=HEADERS).status_code == 200
        assert server.get(f"/no/such/{SECRET}?q={SECRET}", headers=HEADERS).status_code == 404
        twice = {**HEADERS, "Content-Encoding": "gzip, gzip"}  # refused before the route is asked
        assert server.post("/", b"", headers=twice).status_code == 415
        request = predict_request("inception_v3", image=[base64.b64encode(PHOTO)])
        with connected(server.grpc_port) as client:
            client.prediction.Predict(request, 60, metadata=list(HEADERS.items()))
            request.model_spec.name = SECRET
            with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
                client.prediction.Predict(request, 60, metadata=list(HEADERS.items()))
        assert server.stop() == 0  # which sends what is left
    assert "Traceback" not in server.log()
    assert "OpenTelemetry" not in server.log()
    sent = [ExportTraceServiceRequest.FromString(body) for _, _, body in collector.received]
    resources = [resource for each in sent for resource in each.resource_spans]
    return [
        span for resource in resources for scope in resource.scope_spans for span in scope.spans
    ]


@pytest.mark.parametrize(
    ("name", "steps"),
    [("POST /api/classify", {"check", "queue", "run", "name"}), (PREDICT, {"queue", "run"})],
)
def test_a_request_has_a_span_below_its_clients_and_one_for_each_step_and_nothing_of_the_photo(
    collected, name, steps
):
    span = next(span for span in collected if span.name == name)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    children = {each.name: each for each in collected if each.parent_span_id == span.span_id}
    assert set(children) == steps
    assert all(
        span.start_time_unix_nano <= each.start_time_unix_nano + 1_000_000
        for each in children.values()
    )
    assert {each.key: each.value.int_value for each in children["run"].attributes}[
        "dogsnap.version"
    ] == 2
    about = {each.key: each.value.int_value for each in span.attributes}
    ours = {"dogsnap.request_id", "dogsnap.model", "dogsnap.version", "dogsnap.label"}
    if "classify" in name:
        http = {"http.request.method", "http.route"}
        http |= {"http.response.status_code", "http.response.body.size"}
        assert set(about) == ours | http
        assert about["http.response.status_code"] == 200
        assert about["http.response.body.size"] > 100
    else:
        rpc = {"rpc.system", "rpc.service", "rpc.method", "rpc.grpc.status_code"}
        assert set(about) == ours | rpc
    assert about["dogsnap.version"] == 2


def test_a_refused_request_has_a_span_too(collected):
    below_client = [span for span in collected if span.parent_span_id.hex() == PARENT]
    names = [span.name for span in below_client]
    expected = ["GET unknown path", "POST /", "POST /api/classify", PREDICT, PREDICT]
    assert sorted(names) == sorted(expected)
    codes = [
        attribute.value.int_value
        for span in below_client
        for attribute in span.attributes
        if attribute.key == "rpc.grpc.status_code"
    ]
    assert sorted(codes) == [0, grpc.StatusCode.NOT_FOUND.value[0]]


def test_a_probe_has_no_span_and_no_span_has_a_clients_words_or_address(collected):
    for span in collected:
        assert "healthz" not in span.name
        assert SECRET not in str(span)
        assert "127.0.0.1" not in str(span)


def test_without_the_extra_an_endpoint_ends_the_start_with_a_sentence(tmp_path):
    (tmp_path / "opentelemetry").mkdir()  # hides the installed package
    (tmp_path / "opentelemetry" / "__init__.py").touch()
    command = [
        Path(sys.executable).with_name("dogsnap"),
        "serve",
        "--otlp-endpoint",
        "http://127.0.0.1:9",
    ]
    environ = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert (
        "--otlp-endpoint needs OpenTelemetry: install it with `make setup EXTRAS=otel`"
        in done.stderr
    )
