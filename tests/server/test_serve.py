"""The server as a process: deadlines, a full queue, health at full load, draining, and that serving depends on no protocol."""

import ast
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import colour_photos
import pytest
import requests
from click.testing import CliRunner
from server_process import held
from waiting import wait_until

from backend.cli import main

PHOTO = colour_photos.encode(colour_photos.plain(), "JPEG")
ROOT = Path(__file__).parents[2]
SERVING = ROOT / "backend" / "serving"
OUTSIDE = (
    "backend.protocols",
    "backend.middleware",
    "backend.networks",
    "backend.fitting",
    "backend.building",
    "backend.commands",
)


@pytest.fixture(scope="module")
def narrow_server(start_server, sleeper):
    """Runs one request, lets one wait, and gives each ten seconds."""
    return start_server(sleeper, "--run-threads", "1", "--queue-size", "1", "--deadline-ms", "10000")


def sleep_for(server, seconds: float) -> requests.Response:
    return requests.post(f"{server.url}/v1/models/sleeper:predict", json={"inputs": [seconds]}, timeout=60)


def test_an_answer_past_its_deadline_is_504_at_the_deadline(start_server, sleeper):
    server = start_server(sleeper, "--deadline-ms", "500", "--drain-seconds", "1")
    response = sleep_for(server, 30)
    assert response.status_code == 504
    assert "deadline" in response.json()["error"]
    assert held(server) == 1, "the answer came when the work was done, not at the deadline"


def test_a_full_queue_is_503_with_a_time_to_try_again_and_health_answers_meanwhile(narrow_server):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(sleep_for, narrow_server, 5)
        wait_until(lambda: held(narrow_server) == 1)
        second = pool.submit(sleep_for, narrow_server, 0.1)
        wait_until(lambda: held(narrow_server) == 2)
        third = sleep_for(narrow_server, 0.1)
        assert third.status_code == 503
        assert int(third.headers["Retry-After"]) >= 1
        assert "the server is full: 2 requests are running or waiting" in third.json()["error"]
        assert requests.get(f"{narrow_server.url}/healthz", timeout=60).json() == {"status": "alive"}
        assert requests.get(f"{narrow_server.url}/readyz", timeout=60).json() == {"status": "ready"}
        assert not first.done(), "health answered only when the server was not full any more"
        assert [first.result().status_code, second.result().status_code] == [200, 200]


def test_metrics_count_requests_by_model_version_protocol_and_outcome(narrow_server):
    before = requests.get(f"{narrow_server.url}/metrics", timeout=60)
    assert before.headers["Content-Type"].startswith("text/plain")
    sleep_for(narrow_server, 0)
    requests.post(f"{narrow_server.url}/v1/models/made-up:predict", json={"inputs": [1]}, timeout=60)
    text = requests.get(f"{narrow_server.url}/metrics", timeout=60).text
    assert 'dogsnap_requests_total{door="rest",model="sleeper",outcome="OK",version="1"}' in text
    assert 'dogsnap_requests_total{door="rest",model="",outcome="NOT_FOUND",version=""}' in text
    assert 'dogsnap_request_seconds_count{door="rest",model="sleeper",version="1"}' in text
    assert 'dogsnap_version_available{model="sleeper",version="1"} 1.0' in text
    assert "made-up" not in text
    same = requests.get(f"{narrow_server.url}/monitoring/prometheus/metrics", timeout=60)
    assert "dogsnap_requests_total" in same.text


def test_a_stopped_server_answers_what_it_has_begun_and_ends_well(start_server, sleeper):
    server = start_server(sleeper)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sleep_for, server, 5)
        wait_until(lambda: held(server) == 1)
        assert server.stop() == 0
        assert answer.result().json() == {"outputs": [5.0]}
    assert "Traceback" not in server.log()


def test_the_log_says_what_was_loaded_and_where_to_look(narrow_server):
    assert "loaded sleeper version 1 in" in narrow_server.log()
    assert f"ready: open http://localhost:{narrow_server.port}/" in narrow_server.log()


def test_a_server_without_models_lives_but_is_not_ready_and_says_why(start_server, tmp_path):
    server = start_server(tmp_path, wait=False)
    server.wait_until_ready("/healthz")
    ready = f"{server.url}/readyz"
    wait_until(lambda: "no model was found" in requests.get(ready, timeout=60).text)
    assert requests.get(ready, timeout=60).status_code == 503
    assert server.stop() == 0


def test_serving_imports_neither_flask_nor_grpc_nor_training():
    for file in sorted(SERVING.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name.split(".")[0] not in ("flask", "werkzeug", "gunicorn", "grpc", "grpc_health"), (
                    f"{file.name}: {name}"
                )
                assert not name.startswith(OUTSIDE), f"{file.name}: {name}"
                assert not name.endswith("_pb2_grpc"), f"{file.name}: {name}"


def test_serving_loads_without_flask_grpc_or_training():
    modules = ", ".join(".".join(file.relative_to(ROOT).with_suffix("").parts) for file in SERVING.rglob("*.py"))
    code = (
        f"import sys, {modules}; print([n for n in sys.modules if n in ('flask', 'grpc') or n.startswith({OUTSIDE})])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == "[]"


def test_a_misspelt_command_is_answered_with_the_right_one():
    done = CliRunner().invoke(main, ["modles"])
    assert done.exit_code == 2
    assert "No such command 'modles'. Did you mean 'models'?" in done.output


def test_a_start_without_a_temporary_folder_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: os.open(tmp_path / "none" / "file", os.O_RDWR))
    done = CliRunner().invoke(main, ["serve", "--models", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output == (
        "Error: no temporary folder can be written to; in a container with a read-only root mount one: --tmpfs /tmp\n"
    )


def test_the_command_line_knows_its_commands_without_loading_tensorflow():
    code = "import sys, backend.cli; [backend.cli.main.get_command(None, name) for name in backend.cli.COMMANDS]; "
    code += "print('tensorflow' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "False"


def test_a_default_model_that_is_not_there_is_named_in_the_log_with_what_answers(start_server, half_models):
    server = start_server(half_models, "--default-model", "nosuch")
    assert (
        "--default-model nosuch waits for a model of that name, there are: half; "
        "until then, requests that name none are answered by half" in server.log()
    )


def test_an_empty_folder_of_models_is_named_in_the_log_once(start_server, tmp_path):
    server = start_server(tmp_path, "--poll-seconds", "0.1", wait=False).wait_until_ready("/healthz")
    wait_until(lambda: "not ready: no model was found: expected a folder of model folders" in server.log())
    time.sleep(0.5)
    assert server.log().count("no model was found") == 1


def test_where_several_models_are_served_a_request_that_names_none_is_told_of_the_setting(
    start_server, half_models, tmp_path
):
    for name in ("one", "other"):
        shutil.copytree(half_models / "half", tmp_path / name)
    server = start_server(tmp_path)
    response = requests.post(
        f"{server.url}/api/classify", data=PHOTO, headers={"Content-Type": "image/jpeg"}, timeout=60
    )
    assert response.status_code == 404
    assert (
        "models served here: one, other; name one of them in the request, or start the server with --default-model"
        in (response.json()["error"])
    )
