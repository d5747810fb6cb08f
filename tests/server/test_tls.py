"""What the network sees: TLS for HTTP and gRPC, security headers, no way to a file, and logs that tell nothing of anybody."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import grpc
import pytest
import requests
from dogsnap.server.app import create_app
from dogsnap.server.health import is_alive
from dogsnap.serving.assembly import create_predictor
from dogsnap.settings import Settings
from grpc_health.v1 import health_pb2, health_pb2_grpc
from PIL import Image
from support.colour_photos import encode, plain
from support.command_line import dogsnap, refused
from support.grpc_client import predict_request, values
from support.process_readings import children, worker_of
from support.waiting import wait_until
from tensorflow_serving.apis import prediction_service_pb2_grpc

OPENSSL = shutil.which("openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    if OPENSSL is None:
        pytest.skip("openssl, which makes a certificate for the test, is missing")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        OPENSSL,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return cert, key


@pytest.fixture(scope="module")
def secure(start_server, half_models, certificate):
    cert, key = certificate
    server = start_server(half_models, "--tls-cert", str(cert), "--tls-key", str(key), wait=False)
    trusted = grpc.ssl_channel_credentials(cert.read_bytes())
    with grpc.secure_channel(f"localhost:{server.grpc_port}", trusted) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), 120, wait_for_ready=True
        )
        next(each for each in watch if each.status == health_pb2.HealthCheckResponse.SERVING)
        watch.cancel()
    return server


def test_https_answers_clients_that_trust_the_certificate_and_tells_browsers_to_keep_to_it(
    secure, certificate
):
    url = f"https://localhost:{secure.port}/v1/models/half:predict"
    with (
        requests.Session() as session,
        socket.create_connection(("127.0.0.1", secure.port), timeout=60),
    ):
        time.sleep(0.5)  # the client that begins no handshake delays no other
        for _ in range(3):
            response = session.post(
                url, json={"instances": [2.0]}, timeout=10, verify=str(certificate[0])
            )
            assert response.json() == {"predictions": [2.0]}
    assert response.headers["Strict-Transport-Security"] == "max-age=31536000"
    with pytest.raises(requests.exceptions.SSLError):
        requests.post(url, json={"instances": [2.0]}, timeout=60)
    assert f"ready: open https://localhost:{secure.port}/" in secure.log()


def test_a_server_goes_on_with_its_certificate_while_that_is_renewed_or_may_not_be_read(
    start_server, half_models, certificate, tmp_path
):
    """Also a worker that is started meanwhile, and at SIGHUP."""
    cert, key = (shutil.copy(file, tmp_path) for file in certificate)
    server = start_server(half_models, "--tls-cert", str(cert), "--tls-key", str(key), wait=False)
    settings = Settings(port=server.port, tls_cert=str(cert))
    wait_until(lambda: is_alive(settings), 60)
    Path(key).write_text("half a k")
    Path(cert).unlink()
    assert is_alive(settings)
    os.kill(worker_of(server), signal.SIGKILL)
    wait_until(lambda: is_alive(settings), 60)
    worker = worker_of(server)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: worker not in children(server.process.pid), 60)
    wait_until(lambda: is_alive(settings), 60)
    trusted = grpc.ssl_channel_credentials(certificate[0].read_bytes())
    with grpc.secure_channel(f"localhost:{server.grpc_port}", trusted) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        health.Check(health_pb2.HealthCheckRequest(), timeout=60, wait_for_ready=True)


def test_grpc_takes_calls_by_the_same_certificate_and_without_tls_every_connection_is_refused(
    secure, certificate
):
    trusted = grpc.ssl_channel_credentials(certificate[0].read_bytes())
    with grpc.secure_channel(f"localhost:{secure.grpc_port}", trusted) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert values(stub.Predict(predict_request("half", x=[2.0]), 60).outputs) == {"y": [2.0]}
    with pytest.raises(requests.RequestException):
        requests.get(f"http://localhost:{secure.port}/healthz", timeout=10)
    with (
        grpc.insecure_channel(f"127.0.0.1:{secure.grpc_port}") as channel,
        pytest.raises(grpc.RpcError),
    ):
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), 10)


def test_a_certificate_that_cannot_be_used_ends_the_start_with_a_sentence(certificate):
    cert, key = map(str, certificate)
    for tls_cert, tls_key, sentence in (
        (cert, "", "--tls-cert and --tls-key need each other"),
        (cert, cert, "cannot be used"),
        (cert + ".missing", key, "cannot be used: No such file or directory"),
    ):
        assert sentence in refused(dogsnap("serve", "--tls-cert", tls_cert, "--tls-key", tls_key))


@pytest.mark.parametrize(
    "path", ["healthz", "api/models", "v1/models/inception_v3", "nowhere", "console", "docs", ""]
)
def test_every_answer_carries_the_security_headers(colour_server, path):
    headers = colour_server.get(f"/{path}").headers
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == (
        "nosniff",
        "no-referrer",
    )
    policy = headers["Content-Security-Policy"]
    assert ("default-src 'none'" in policy, "unsafe" in policy) == (True, False)
    assert "Access-Control-Allow-Origin" not in headers


TOKEN = "a long random text"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Host": "localhost:8501", "Origin": "http://localhost:8501"}, 401),
        ({"Authorization": "Bearer guess"}, 401),
        ({"Host": "example.com", "Authorization": f"Bearer {TOKEN}"}, 200),
        ({"X-Forwarded-For": "10.0.0.7", "Authorization": f"Bearer {TOKEN}"}, 200),
    ],
)
def test_the_metrics_take_the_token_whoever_asks(tmp_path, headers, status):
    settings = Settings(models=tmp_path, enable_cors=True, admin_token=TOKEN)
    client = create_app(settings, create_predictor(settings)).test_client()
    assert client.get("/metrics", headers=headers).status_code == status


OPEN = (
    "GET /healthz",
    "GET /readyz",
    "GET /api/models",
    "GET /v1/models/half",
    "GET /openapi.json",
)
CLOSED = (
    *(
        "GET /metrics",
        "GET /monitoring/prometheus/metrics",
        "GET /console/models",
        "POST /console/codes",
        "GET /api/admin/models",
    ),
    *(
        "GET /api/admin/switches",
        "GET /api/admin/series",
        "GET /api/admin/verdict",
        "GET /api/admin/feedback.csv",
        "POST /api/admin/undo",
    ),
    *("POST /api/admin/models/half/default", "POST /api/admin/models/half/labels/stable"),
    "POST /api/admin/models/half/versions/2/unload",
)


def test_without_the_token_the_app_is_open_and_administration_and_metrics_are_not_even_to_this_machine(
    half_models,
):
    settings = Settings(models=half_models, admin_token=TOKEN)
    predictor = create_predictor(settings)
    predictor.repository.scan(skip_settling=True)
    client, near = create_app(settings, predictor).test_client(), {"REMOTE_ADDR": "127.0.0.1"}
    answers = {}
    for asked in (*OPEN, *CLOSED):
        method, path = asked.split()
        answers[asked] = client.open(path, method=method, json={}, environ_base=near).status_code
    predictor.close()
    assert answers == {**dict.fromkeys(OPEN, 200), **dict.fromkeys(CLOSED, 401)}


def test_by_default_no_port_is_open_but_at_this_machines_own_address(colour_server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but tells by which address it would
        except OSError:
            pytest.skip("this machine has no address but its own")
        address = probe.getsockname()[0]
    for port in (colour_server.port, colour_server.grpc_port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, port), timeout=10)


def test_logs_carry_request_ids_and_no_photo_no_secret_and_no_place(start_server, colour_models):
    server = start_server(
        colour_models, "--access-log", "--log-format", "json", "--admin-token", TOKEN
    )
    exif = Image.Exif()
    exif[0x010E] = "Secret Garden"
    exif.get_ifd(0x8825).update({1: "N", 2: (47.0, 22.0, 33.3), 3: "E", 4: (8.0, 32.0, 11.1)})
    photo = encode(plain(), "JPEG", exif=exif)
    text = base64.b64encode(photo).decode()
    secret = {"Authorization": f"Bearer {TOKEN}", "X-Request-Id": "ours-1"}
    assert server.classify(photo, secret).status_code == 200
    server.post(
        "/api/classify?place=47.3759,8.5364", data=photo, headers={"Content-Type": "image/jpeg"}
    )
    server.post("/api/classify", json={"image": text[:200]})
    server.post("/v1/models/inception_v3/versions/2:predict", json={"instances": [text[:400]]})
    server.get("/api/admin/models", headers=secret)
    log = server.log()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    answered = [line for line in lines if "status" in line and line["path"] == "/api/classify"]
    assert answered[0]["request_id"] == "ours-1"
    assert all(line["request_id"] for line in answered)
    for hidden in (text[:40], text[40:80], "Secret Garden", "47.3759", "place=", TOKEN, "/9j/"):
        assert hidden not in log, hidden
