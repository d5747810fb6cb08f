"""The wheel that `make wheel` builds, installed into an empty environment and served from an empty folder."""

import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
import requests
from support.colour_photos import RED, encode, plain
from support.ports import free_port
from support.waiting import answers, wait_until

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
INSTALL_SECONDS, START_SECONDS = 600, 120


@pytest.fixture(scope="module")
def wheel() -> Path:
    subprocess.run(["make", "wheel"], cwd=ROOT, check=True, timeout=INSTALL_SECONDS)
    (file,) = (ROOT / "build" / "wheel").glob("*.whl")
    return file


@pytest.fixture(scope="module")
def dogsnap(wheel, tmp_path_factory) -> Path:
    """The command of an environment that holds the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    locked = ROOT / "backend" / "requirements.txt"
    for what in (["--require-hashes", "-r", locked], ["--no-deps", wheel]):
        command = [UV, "pip", "install", "--quiet", "--python", python, *what]
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
    return folder / "bin" / "dogsnap"


@pytest.fixture(scope="module")
def url(dogsnap, colour_models, tmp_path_factory):
    """A server of the installed wheel, started in an empty folder."""
    folder, port = tmp_path_factory.mktemp("empty"), free_port()
    command = [dogsnap, "serve", "--models", colour_models]
    command += ["--port", str(port), "--grpc-port", str(free_port())]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(f"{url}/readyz"), START_SECONDS)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=START_SECONDS)


@pytest.mark.parametrize("path", ["/", "/app.js", "/console", "/docs", "/openapi.json"])
def test_an_installed_wheel_serves_the_app_and_the_pages(url, path):
    assert requests.get(url + path, timeout=10).status_code == 200


def test_an_installed_wheel_classifies_a_photo(url):
    photo = b64encode(encode(plain(RED), "JPEG")).decode()
    answer = requests.post(f"{url}/api/classify", json={"image": photo}, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.json()["breeds"]


def test_an_installed_wheel_has_the_example(dogsnap, colour_models, tmp_path):
    command = [dogsnap, "predict", "--example", "--models", colour_models]
    printed = subprocess.check_output(command, cwd=tmp_path, text=True, timeout=INSTALL_SECONDS)
    assert '"breeds"' in printed
