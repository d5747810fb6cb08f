"""The server as a process: deadlines, a full queue, health at full load, draining, and what a wrong start is answered."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import grpc
import pytest
import requests
from support import colour_photos
from support.command_line import dogsnap, refused
from support.grpc_client import connected
from support.process_readings import held
from support.refusals import assert_refused
from support.waiting import wait_until

pytestmark = pytest.mark.early

PHOTO = colour_photos.encode(colour_photos.plain(), "JPEG")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def narrow_server(start_server, sleeper):
    """Runs one request, lets one wait, and gives each ten seconds."""
    return start_server(
        sleeper, "--run-threads", "1", "--queue-size", "1", "--deadline-ms", "10000"
    )


def sleep_for(server, seconds: float) -> requests.Response:
    return server.post("/v1/models/sleeper:predict", json={"inputs": [seconds]})


def test_an_answer_past_its_deadline_is_504_at_the_deadline(start_server, sleeper):
    server = start_server(sleeper, "--deadline-ms", "500", "--drain-seconds", "1")
    assert_refused(sleep_for(server, 30), 504, "deadline")
    assert held(server) == 1, "the answer came when the work was done, not at the deadline"
    with (
        connected(server.grpc_port) as client,
        pytest.raises(grpc.RpcError, match="the request's deadline") as late,
    ):
        client.predict("sleeper", x=[30.0])  # whose client would wait longer
    assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_full_queue_is_503_with_a_time_to_try_again_and_health_answers_meanwhile(narrow_server):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(sleep_for, narrow_server, 5)
        wait_until(lambda: held(narrow_server) == 1)
        second = pool.submit(sleep_for, narrow_server, 0.1)
        wait_until(lambda: held(narrow_server) == 2)
        third = sleep_for(narrow_server, 0.1)
        assert_refused(third, 503, "the server is full: 2 requests are running or waiting")
        assert int(third.headers["Retry-After"]) >= 1
        assert narrow_server.get("/healthz").json() == {"status": "alive"}
        assert narrow_server.get("/readyz").json() == {"status": "ready"}
        assert not first.done(), "health answered only when the server was not full any more"
        assert [first.result().status_code, second.result().status_code] == [200, 200]


def test_metrics_have_two_addresses_and_no_name_that_a_client_made_up_and_the_log_says_what_was_loaded(
    narrow_server,
):
    narrow_server.post("/v1/models/made-up:predict", json={"inputs": [1]})
    for path in ("/metrics", "/monitoring/prometheus/metrics"):
        page = narrow_server.get(path)
        assert page.headers["Content-Type"].startswith("text/plain")
        assert (
            'dogsnap_requests_total{door="rest",model="",outcome="NOT_FOUND",version=""}'
            in page.text
        )
        assert "made-up" not in page.text
    assert "loaded sleeper version 1 in" in narrow_server.log()
    assert f"ready: open http://localhost:{narrow_server.port}/" in narrow_server.log()


def test_a_server_without_models_lives_but_is_not_ready_and_says_why_once_in_its_log(
    start_server, tmp_path
):
    server = start_server(tmp_path, "--poll-seconds", "0.1", wait=False).wait_until_ready(
        "/healthz"
    )
    wait_until(
        lambda: "not ready: no model was found: expected a folder of model folders" in server.log()
    )
    ready = server.get("/readyz")
    assert (ready.status_code, "no model was found" in ready.text) == (503, True)
    time.sleep(0.5)
    assert server.log().count("no model was found") == 1
    assert server.stop() == 0


def test_a_misspelt_command_and_a_start_without_a_temporary_folder_are_answered_with_what_to_do(
    monkeypatch, tmp_path
):
    assert "No such command 'modles'. Did you mean 'models'?" in refused(dogsnap("modles"))
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda: os.open(tmp_path / "none" / "file", os.O_RDWR)
    )
    said = "no temporary folder can be written to; in a container with a read-only root mount one: --tmpfs /tmp"
    assert refused(dogsnap("serve", "--models", tmp_path)) == f"Error: {said}\n"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ("--admin-token", "sesame"),
            "--admin-token has 6 characters and can be guessed; expected at least 16",
        ),
        (
            ("--switch-log", "/no/folder/file"),
            "switches cannot be kept in /no/folder/file: No such file or directory",
        ),
        (
            ("--api-keys", "none.json"),
            "--api-keys none.json holds no key; make one with `dogsnap keys add NAME`",
        ),
        (
            ("--rate-limit-address", "often"),
            "--rate-limit-address is 'often'; expected e.g. 100/minute;5/second",
        ),
        (("--rate-limit-address", "0/minute"), "--rate-limit-address is '0/minute'; expected e.g."),
        (("--switch-log", "off "), "--switch-log is no name of a file"),
        (("--switch-log", "x.db", "--feedback", "./x.db"), "name one file; expected two"),
        (("--rate-limit-key", "1/second"), "it needs --api-keys"),
        (
            ("--open-app", "1/second"),
            "--open-app excepts the app from --api-keys, which is not given",
        ),
        (
            ("--rate-limit-storage", "radish://x"),
            "--rate-limit-storage is no place to count in; expected memory:// or",
        ),
        (
            ("--feedback", "/no/such/folder/feedback.db"),
            "No such file or directory; choose another --feedback",
        ),
        (("--feedback", __file__), "not a database"),
        (("--feedback-secret", "short"), "can be guessed"),
        (("--feedback", "off"), "--feedback is no name of a file"),
        (
            ("--switch-log", "localhost:6379"),
            "--switch-log is no name of a file; expected the path",
        ),
        (("--switch-log", "."), "switches cannot be kept in .: Is a directory"),
        (
            ("--switch-log", "/dev/null"),
            "switches cannot be kept in /dev/null: it is a device or a pipe, which keeps nothing",
        ),
        (("--feedback", "/dev/null"), "feedback cannot be kept in /dev/null: it is a device"),
        *(
            ((f"--{setting}", f"{scheme}:sesame/1@host:80"), f"--{setting} has no host and port")
            for setting, scheme in (
                ("switch-log", "redis://"),
                ("rate-limit-storage", "redis://"),
                ("content-check", "https://"),
            )
        ),
        (("--rate-limit-storage", "redis:6379"), "--rate-limit-storage is no place to count in"),
        (("--content-check", "host:80/check"), "--content-check has no scheme, or another one"),
        (("--engine", "grpc://user:sesame@host:8500"), "--engine is an address with @; expected"),
        (("--engine", "grpc://localhost:8500"), "--engine is this server itself, which listens"),
        (("--engine", "sesame@host"), "--engine is an address with @; expected grpc://"),
        *(
            (("--host", host), "choose another --host (DOGSNAP_HOST)")
            for host in (
                "unix:/run/x.sock",
                "[::1]",
                "0.0.0.0:8501",
                "*",
                "http://a",
                "192.0.2.1",
            )
        ),
        (
            ("--host", ""),
            "--host (DOGSNAP_HOST): it is empty; leave it out for the default, 127.0.0.1",
        ),
        (
            ("--port", "8500", "--grpc-port", "8500"),
            "HTTP and gRPC cannot both listen on port 8500",
        ),
        (("--port", "0"), "expected a port from 1 to 65535; choose another --port"),
    ],
)
def test_what_cannot_be_used_ends_the_start_with_a_sentence(flags, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    said = refused(dogsnap("serve", *flags))
    assert (sentence in said, "sesame" in said) == (True, False), said


def test_the_release_stands_in_the_log_the_metrics_and_the_document_of_the_api(colour_server):
    release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    first, *_ = colour_server.log().splitlines()
    assert f"dogsnap {release}; " in first
    assert f'dogsnap_build_info{{version="{release}"}} 1.0' in colour_server.get("/metrics").text
    assert colour_server.get("/openapi.json").json()["info"]["version"] == release


def test_the_command_line_knows_its_commands_without_loading_tensorflow():
    code = "import sys, dogsnap.cli; [dogsnap.cli.main.get_command(None, name) for name in dogsnap.cli.COMMANDS]; "
    code += "print('tensorflow' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "False"


def test_of_several_models_one_has_to_be_named_or_be_the_default(
    start_server, half_models, tmp_path
):
    for name in ("one", "other"):
        shutil.copytree(half_models / "half", tmp_path / name)
    said = "models served here: one, other; name one of them in the request, or start the server with DOGSNAP_DEFAULT_MODEL"
    assert_refused(start_server(tmp_path).classify(PHOTO), 404, said)
    server = start_server(half_models, "--default-model", "nosuch")
    assert (
        "--default-model nosuch waits for a model of that name, there are: half; " in server.log()
    )
    assert "until then, requests that name none are answered by half" in server.log()


@pytest.mark.parametrize("command", [("serve", "--models"), ("train", "--out", "here")])
def test_a_folder_that_is_a_link_to_itself_ends_a_command_with_a_sentence(
    tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    refused(dogsnap(*command, tmp_path / "loop"), "that link leads to itself")
