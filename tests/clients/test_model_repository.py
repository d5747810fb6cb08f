"""Triton's extension for the repository: its own client, over HTTP and gRPC, lists, unloads and loads models of a real server."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.administration import token_of
from support.waiting import wait_until

CLIENT = Path(__file__).parents[1] / "support" / "clients" / "model_repository_client.py"
PREDICT = "/v1/models/half:predict"


@pytest.fixture
def models(half_models, tmp_path) -> Path:
    """`half`, version 1: x / 2 + 1, and `other`, the same."""
    for name in ("half", "other"):
        shutil.copytree(half_models / "half", tmp_path / "models" / name)
    return tmp_path / "models"


@pytest.fixture(params=["http", "grpc"])
def triton(request) -> Callable[..., list[Any]]:
    def act(server, *steps: str, token: str | None = None) -> list[Any]:
        """What the client gets for each step: a value, or the text of its exception."""
        address = f"127.0.0.1:{server.port if request.param == 'http' else server.grpc_port}"
        token = token_of(server) if token is None else token
        command = [sys.executable, str(CLIENT), request.param, address, token, *steps]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return act


def answer(server) -> float | int:
    """What version answers 2.0 by default; or the status."""
    response = server.post(PREDICT, json={"instances": [2.0]})
    return response.json()["predictions"][0] if response.ok else response.status_code


def states(index: list[dict[str, str]]) -> dict[str, str]:
    return {f"{each['name']}/{each['version']}": each["state"] for each in index}


def test_a_model_that_is_unloaded_is_not_served_until_it_is_loaded_with_what_came_meanwhile(
    start_server, models, made_half, triton
):
    server = start_server(models, "--poll-seconds", "0.2")
    (index,) = triton(server, "index")
    assert states(index) == {"half/1": "READY", "other/1": "READY"}
    shutil.copytree(made_half, models / "half" / "2")
    wait_until(lambda: server.get("/v1/models/half/versions/2").ok)
    assert triton(server, "unload=half") == [None]
    assert answer(server) == 404
    shutil.copytree(made_half, models / "half" / "3")
    index, loaded, after = triton(server, "index", "load=half", "index")
    assert states(index)["half/1"] in ("UNLOADING", "UNAVAILABLE")
    assert (loaded, states(after)) == (
        None,
        {"half/3": "READY", "half/2": "READY", "half/1": "READY", "other/1": "READY"},
    )
    assert answer(server) == 2.0  # as before: a new version takes over nothing


def test_an_unloaded_model_leaves_the_server_ready_and_stays_so_at_a_restart_until_it_is_undone(
    start_server, models
):
    state = {"XDG_STATE_HOME": str(models.parent)}
    server = start_server(models, environ=state)
    path = "/v2/repository/models/half/unload"
    administrator = {"Authorization": f"Bearer {token_of(server)}"}
    assert server.post(path, headers=administrator).json() == {}
    assert server.get("/readyz").ok
    assert "was unloaded" in server.post(PREDICT, json={"instances": [2.0]}).json()["error"]
    refused = server.post("/api/admin/models/half/default", json={"version": 1})
    assert (refused.status_code, "load it again first" in refused.json()["error"]) == (400, True)
    server.stop()
    server = start_server(models, environ=state)
    assert answer(server) == 404
    (switch, *_) = server.get("/api/admin/switches").json()["switches"]
    assert switch["text"] == "all versions of half: as the policy says -> unloaded"
    assert server.post("/api/admin/undo", json={}).ok
    wait_until(lambda: answer(server) == 2.0)


def test_loading_one_version_brings_its_model_back(start_server, models):
    server = start_server(models)
    administrator = {"Authorization": f"Bearer {token_of(server)}"}
    assert server.post("/v2/repository/models/half/unload", headers=administrator).ok
    assert server.post("/api/admin/models/half/versions/1/load", json={}).ok
    wait_until(lambda: answer(server) == 2.0)


def test_a_load_waits_until_a_new_model_or_export_answers_though_no_folder_is_polled(
    start_server, models, made_half, triton
):
    server = start_server(models, "--poll-seconds", "0")
    shutil.copytree(made_half, models / "new" / "1")
    assert triton(server, "load=new") == [None]
    assert server.get("/v2/models/new/ready").ok
    shutil.rmtree(models / "half" / "1")
    shutil.copytree(made_half, models / "half" / "1")
    assert answer(server) == 2.0
    assert triton(server, "load=half") == [None]
    assert answer(server) == 3.0


def test_what_cannot_be_loaded_is_refused_saying_why(start_server, models, made_half, triton):
    broken = shutil.copytree(made_half, models / "half" / "2") / "saved_model.pb"
    broken.write_bytes(b"no model")
    server = start_server(models)
    missing, failed, config, index = triton(
        server, "load=none", "load=half", "load_with_config=half", "index"
    )
    assert "there is no model none to load" in missing
    assert "not every version of half is loaded: half version 2: " in failed
    assert "available versions: 1" in failed
    assert "the parameters config are not taken" in config
    assert all(triton(server, "unload=none", "unload="))  # each has a sentence
    (version_2,) = [each for each in index if each.get("version") == "2"]
    assert (version_2["state"], bool(version_2["reason"])) == ("UNAVAILABLE", True)
    shutil.copy(made_half / "saved_model.pb", broken)
    assert triton(server, "load=half", "load=other") == [None, None]


def test_only_the_administrator_lists_loads_and_unloads(start_server, models, triton):
    server = start_server(models)
    for refused in triton(server, "index", "load=half", "unload=half", token="x" * 20):
        assert "the token is not this server's" in refused
    assert answer(server) == 2.0


def test_the_index_has_what_is_ready_alone_if_that_is_asked(start_server, models, made_half):
    shutil.copytree(made_half, models / "half" / "2")
    (models / "half" / "2" / "saved_model.pb").write_bytes(b"no model")
    server = start_server(models)
    administrator = {"Authorization": f"Bearer {token_of(server)}"}

    def index(body: Any) -> Any:
        return server.post("/v2/repository/index", json=body, headers=administrator)

    ready = states(index({"ready": True}).json())
    assert ready == {"half/1": "READY", "other/1": "READY"}
    assert len(index({}).json()) == len(index({"ready": False}).json()) == 3
    assert index({"ready": "yes"}).status_code == index({"all": True}).status_code == 400


def test_a_gateway_lists_what_its_engines_have_and_leaves_loads_to_them(
    start_server, models, triton
):
    engine = start_server(models)
    gateway = start_server(models, "--engine", f"grpc://127.0.0.1:{engine.grpc_port}")
    index, load, unload = triton(gateway, "index", "load=half", "unload=half")
    assert states(index) == {"half/1": "READY", "other/1": "READY"}
    assert "send this request to the engine" in load
    assert "send this to an engine" in unload
    engine.stop()
    (index,) = triton(gateway, "index")
    assert {each["state"] for each in index} == {"UNKNOWN"}
