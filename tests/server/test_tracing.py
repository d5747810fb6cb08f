"""Traces: a real server sends its spans to a collector that the test plays."""

import base64
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from colour_photos import encode, plain
from grpc_client import connected, predict_request

pytest.importorskip("opentelemetry.sdk", reason="the extra dogsnap[otel], which sends traces, is not installed")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
PHOTO = encode(plain(), "JPEG")


@pytest.fixture(scope="module")
def collected(start_server, colour_models) -> list:
    """The spans of one request by HTTP and one by gRPC, both below the same span of their client."""
    spans: list = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    spans.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
        server = start_server(colour_models, "--otlp-endpoint", endpoint)
        assert server.classify(PHOTO, HEADERS).status_code == 200
        request = predict_request("inception_v3", image=[base64.b64encode(PHOTO)])
        with connected(server.grpc_port) as client:
            client.prediction.Predict(request, 60, metadata=list(HEADERS.items()))
        assert server.stop() == 0  # which sends what is left
        collector.shutdown()
    assert "Traceback" not in server.log()
    return spans


@pytest.mark.parametrize(
    ("name", "steps"), [("POST /api/classify", {"check", "queue", "run", "name"}), ("grpc Predict", {"queue", "run"})]
)
def test_a_request_has_a_span_below_its_clients_and_one_for_each_step_and_nothing_of_the_photo(collected, name, steps):
    (span,) = (each for each in collected if each.name == name)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    children = {each.name: each for each in collected if each.parent_span_id == span.span_id}
    assert set(children) == steps
    assert all(span.start_time_unix_nano <= each.start_time_unix_nano + 1_000_000 for each in children.values())
    assert {each.key: each.value.int_value for each in children["run"].attributes}["dogsnap.version"] == 2
    if "classify" in name:
        about = {each.key: each.value.int_value for each in span.attributes}
        assert set(about) == {"http.route", "dogsnap.request_id", "http.response.status_code"}
        assert about["http.response.status_code"] == 200


def test_without_the_extra_an_endpoint_ends_the_start_with_a_sentence(tmp_path):
    """A folder before all others hides the installed package."""
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").touch()
    command = [Path(sys.executable).with_name("dogsnap"), "serve", "--otlp-endpoint", "http://127.0.0.1:9"]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "--otlp-endpoint needs OpenTelemetry: install it with `make setup EXTRAS=otel`" in done.stderr
