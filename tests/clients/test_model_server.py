"""`dogsnap model-server`: tensorflow_model_server's command line, its meanings, and what is refused with a way out."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import requests
from dogsnap.commands import model_server
from support import tensorflow1_models, tiny_models
from support.command_line import dogsnap, refused
from support.exported import png
from support.ports import START_SECONDS, free_port
from support.waiting import answers, wait_until

DOGSNAP = Path(sys.executable).with_name("dogsnap")
CLIENT = Path(__file__).parents[1] / "support" / "clients" / "image_to_image_client.py"


@pytest.fixture
def settings(monkeypatch) -> dict:
    """What the server would be started with; nothing is started."""
    received: dict = {}
    monkeypatch.setattr(model_server, "run_server", lambda **flags: received.update(flags))
    monkeypatch.delenv("DOGSNAP_HOST", raising=False)
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        monkeypatch.setenv(name, "")
    return received


run = partial(dogsnap, "model-server")


def test_the_command_of_the_articles_serves_the_latest_version_on_their_ports(tmp_path) -> None:
    first = tensorflow1_models.image_to_image(tmp_path / "serve" / "1")
    shutil.copytree(first, tmp_path / "serve" / "2")
    (tmp_path / "gaussian.png").write_bytes(png(tensorflow1_models.noise(2)))
    port = free_port()
    flags = [
        "--model_name=saved_model",
        f"--model_base_path={tmp_path / 'serve'}",
        f"--rest_api_port={port}",
    ]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DOGSNAP_")}
    command = [DOGSNAP, "model-server", f"--port={free_port()}", *flags]
    process = subprocess.Popen(command, env={**environ, "DOGSNAP_HOST": "127.0.0.1"})
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: process.poll() is not None or answers(f"{url}/readyz"), START_SECONDS)
        subprocess.run(
            [sys.executable, CLIENT, url, "gaussian.png", "out.png"],
            cwd=tmp_path,
            timeout=120,
            check=True,
        )
        assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
        states = requests.get(f"{url}/v1/models/saved_model", timeout=60).json()[
            "model_version_status"
        ]
        assert [each["version"] for each in states if each["state"] == "AVAILABLE"] == ["2"]
    finally:
        process.terminate()
        process.wait(120)


# Of tensorflow_model_server, and what `dogsnap serve` makes of them.
FLAGS = {
    "port=9000": {"grpc_port": 9000},
    "rest_api_port=9001": {"port": 9001},
    "rest_api_timeout_in_ms=5000": {"deadline_ms": 5000},
    "rest_api_enable_cors_support": {"enable_cors": True},
    "model_name=vit": {"model_name": "vit"},
    "model_base_path=/m/vit": {"model_base_path": "/m/vit", "models": Path("/m")},
    "file_system_poll_wait_seconds=7": {"poll_seconds": 7.0},
    "enable_model_warmup=false": {"warm_up": "false"},
    "enable_batching=true": {"enable_batching": True},
    "batching_parameters_file=b.txt": {"batching_parameters_file": "b.txt"},
    "load_retry_interval_micros=2500000": {"retry_seconds": "2500000"},
    "saved_model_tags=serve": {},
    "num_load_threads=0": {"host": "0.0.0.0", "version_policy": "latest"},
}


def test_each_flag_is_the_setting_of_its_meaning(settings) -> None:
    done = run(*(f"--{flag}" for flag in FLAGS))
    assert done.exit_code == 0, done.output
    assert settings == {
        name: value for changes in FLAGS.values() for name, value in changes.items()
    }


def test_without_a_name_the_model_is_called_default_and_a_configuration_file_wins(settings) -> None:
    run("--model_base_path=/models/mine")
    assert settings["model_name"] == "default"
    settings.clear()
    run("--model_config_file=models.config", "--model_name=x", "--model_base_path=/models/mine")
    assert settings["model_config_file"] == "models.config"
    assert not {"model_name", "model_base_path"} & settings.keys()


def test_the_flags_about_threads_are_tensorflows_environment(settings) -> None:
    run(
        "--model_base_path=/m",
        "--tensorflow_session_parallelism=3",
        "--tensorflow_inter_op_parallelism=2",
    )
    assert os.environ["TF_NUM_INTRAOP_THREADS"] == "3"
    assert os.environ["TF_NUM_INTEROP_THREADS"] in ("2", "3")
    assert model_server.threads_environment({"tensorflow_inter_op_parallelism": 2}) == {
        "TF_NUM_INTEROP_THREADS": "2"
    }
    assert model_server.threads_environment({"tensorflow_session_parallelism": 0}) == {}


REFUSED = {
    name: meaning
    for name, meaning in model_server.FLAGS.items()
    if not {"setting", "environment", "withdrawn"} & meaning.keys()
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_flag_that_does_not_work_is_refused_with_what_to_do_but_not_its_neutral_value(
    settings, name
) -> None:
    neutral, instead = REFUSED[name].get("neutral"), REFUSED[name].get("instead")
    said = refused(dogsnap("model-server", "--model_base_path=/m", f"--{name}=other"))
    advice = f"use {instead}" if instead else "leave it out"
    assert f"--{name} is not supported here; {advice}" in " ".join(said.split())
    assert settings == {}
    if neutral:
        assert run("--model_base_path=/m", f"--{name}={neutral}").exit_code == 0
        assert settings["model_base_path"] == "/m"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            [],
            "expected --model_base_path=FOLDER with numeric folders of versions, or --model_config_file",
        ),
        (["--model_base_path=/m", "--rest_api_port=0"], "HTTP cannot be closed"),
        (
            ["--model_base_path=/m", "--batching_parameters_file=b"],
            "without setting --enable_batching to true",
        ),
        (["--model_base_path=/m", "--made_up=1"], "No such option"),
    ],
)
def test_flags_that_cannot_work_together_are_refused(settings, flags, said) -> None:
    assert said in refused(dogsnap("model-server", *flags))
    assert settings == {}


@pytest.mark.parametrize("flag", ["--rest_api_port=8501", "--enable_ssl", "--model_base_path=/m"])
def test_serve_points_from_other_servers_flags_to_their_counterparts(flag) -> None:
    said = refused(dogsnap("serve", flag))
    assert "Did you mean" not in said
    assert "`dogsnap model-server` takes the flags of tensorflow_model_server" in said


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (["serve"], "--models"),
        (["predict", __file__], "--models"),
        (["serve"], "--model-base-path"),
    ],
)
def test_a_folder_of_models_that_is_not_there_is_told_with_its_path(
    tmp_path, monkeypatch, command, flag
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(dogsnap(*command, flag, "mine"))
    assert f"there is no folder {tmp_path / 'mine'}" in said
    assert flag in said


def test_a_folder_of_one_version_is_told_with_the_folder_to_name_which_is_served_as_that_model(
    start_server, tmp_path
):
    model = tmp_path / "half_plus_two"
    for version in (1, 2):
        tiny_models.half_plus(version, model / str(version))
    said = refused(dogsnap("serve", "--models", model / "1"))
    assert f"is a single version; name the folder of its model with --models: {model}" in said
    server = start_server(model)
    for version in (1, 2):
        answer = server.post(
            f"/v1/models/half_plus_two/versions/{version}:predict", json={"inputs": [1.0]}
        )
        assert answer.json() == {"outputs": [0.5 + version]}


@pytest.mark.parametrize(
    "command", [["serve", "--model-config-file"], ["model-server", "--model_config_file"]]
)
def test_a_configuration_file_that_is_not_there_is_one_sentence(tmp_path, command) -> None:
    file = tmp_path / "no.config"
    assert (
        refused(dogsnap(*command, file))
        == f"Error: there is no file {file}; name it with {command[1]}\n"
    )


def test_errors_name_the_flags_that_model_server_takes_or_the_variables(tmp_path) -> None:
    folder = tmp_path / "mine"
    said = refused(dogsnap("model-server", f"--model_base_path={folder}"))
    assert "of one model with --model_base_path" in said
    tiny_models.half_plus(2, folder / "1")
    for given, named in (
        ({"DOGSNAP_TLS_CERT": "a"}, "DOGSNAP_TLS_CERT and DOGSNAP_TLS_KEY need each other"),
        ({"DOGSNAP_ADMIN_TOKEN": "short"}, "DOGSNAP_ADMIN_TOKEN has 5 characters"),
        (
            {"DOGSNAP_OPEN_APP": "9/minute"},
            "DOGSNAP_OPEN_APP excepts the app from DOGSNAP_API_KEYS",
        ),
    ):
        said = refused(dogsnap("model-server", f"--model_base_path={folder}", **given))
        assert named in said
        assert "--" not in said
    assert "--tls-cert" in refused(dogsnap("serve", "--models", tmp_path, DOGSNAP_TLS_CERT="a"))
