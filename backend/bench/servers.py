"""Starts and stops the servers that are measured, each as a process on a free port."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from backend.bench import processes
from backend.bench.remote import CannotMeasure

ROOT = Path(__file__).parent.parent.parent
MODEL = "inception_v3"
START_SECONDS = 180
STOP_SECONDS = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Process:
    """A server in its own process group, a context manager; `ready_seconds` from its start until `ready_path` returned 200."""

    def __init__(self, command: Sequence[str], url: str, ready_path: str, environ: Mapping[str, str] | None = None):
        self.url = url
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (`stop` closes it)
        begun = time.monotonic()
        self._process = subprocess.Popen(
            list(command),
            stdout=self._log,
            stderr=self._log,
            env={**_clean(), **(environ or {})},
            start_new_session=True,
        )
        self._wait(begun + START_SECONDS, url + ready_path)
        self.ready_seconds = time.monotonic() - begun

    def _wait(self, end: float, url: str) -> None:
        while not _answers(url):
            if self._process.poll() is not None or time.monotonic() > end:
                self._end()
                self._log.seek(0)
                said = self._log.read().decode(errors="replace").strip().splitlines()
                self._log.close()
                raise CannotMeasure(f"a server did not start; its last output: {said[-1] if said else 'nothing'}")
            time.sleep(0.02)

    def worker(self) -> int:
        """The process id of the worker."""
        return processes.last_descendant(self._process.pid)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._end()
        self._log.close()

    def _end(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(STOP_SECONDS)
        except ProcessLookupError:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()  # its port is free for the next one only then


def _answers(url: str) -> bool:
    try:
        with requests.get(url, timeout=5) as response:
            return response.status_code == 200
    except requests.RequestException:
        return False


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("DOGSNAP_")}


class Models:
    """A folder with links to these versions of the real model, as far as they exist; a context manager."""

    def __init__(self, models: Path, *versions: int):
        self._real = (models / MODEL).resolve()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        (self.path / MODEL).mkdir()
        for number in versions:
            self.add(number)

    def version(self, number: int) -> Path:
        return self._real / str(number)

    def has(self, number: int) -> bool:
        return (self.version(number) / "saved_model.pb").is_file()

    def numbers(self) -> list[int]:
        """Every complete version of the real model."""
        return sorted(
            int(each.name) for each in self._real.iterdir() if each.name.isdigit() and self.has(int(each.name))
        )

    def add(self, number: int) -> None:
        link = self.path / MODEL / str(number)
        if self.has(number) and not link.exists():
            link.symlink_to(self.version(number))

    def add_one_pass(self, number: int) -> None:
        """What `dogsnap merge --fast` makes of version 1: version 3 without its second pass. Raises CannotMeasure."""
        with tempfile.TemporaryDirectory(dir=self.path) as folder:
            source = shutil.copytree(self.version(1), Path(folder) / MODEL / "1")
            command = [str(Path(sys.executable).with_name("dogsnap")), "merge", "--fast", str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            written = source.with_name("2")
            if not written.is_dir():
                said = (done.stderr if done.returncode else done.stdout).strip().rpartition("\n")[2]
                raise CannotMeasure(f"`dogsnap merge --fast` wrote no version (exit status {done.returncode}): {said}")
            written.rename(self.path / MODEL / str(number))

    def __enter__(self) -> "Models":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def dogsnap(models: Path) -> Process:
    """`make run`, as users start it, if everything is built; else `dogsnap serve`."""
    port = free_port()
    environ = {"DOGSNAP_PORT": str(port), "DOGSNAP_GRPC_PORT": str(free_port()), "DOGSNAP_MODELS": str(models)}
    command = (
        ["make", "-C", str(ROOT), "run"] if _is_set_up() else [str(Path(sys.executable).with_name("dogsnap")), "serve"]
    )
    return Process(command, f"http://127.0.0.1:{port}", "/readyz", environ)


def _is_set_up() -> bool:
    asked = ["make", "--question", "-C", str(ROOT), "setup"]
    return shutil.which("make") is not None and subprocess.run(asked, capture_output=True, check=False).returncode == 0


def lit_serve(saved_model: Path) -> Process:
    return _program("backend.bench.programs.litserve_app", saved_model, "/health")


def session(saved_model: Path) -> Process:
    return _program("backend.bench.programs.session_app", saved_model, "/health")


def _program(module: str, saved_model: Path, ready_path: str) -> Process:
    port = free_port()
    command = [sys.executable, "-m", module, str(saved_model), str(port)]
    return Process(command, f"http://127.0.0.1:{port}", ready_path)


def predict_url(server: Process, version: int) -> str:
    return f"{server.url}/v1/models/{MODEL}/versions/{version}:predict"


def is_available(server: Process, version: int) -> bool:
    status: dict[str, Any] = requests.get(f"{server.url}/v1/models/{MODEL}/versions/{version}", timeout=60).json()
    return any(each["state"] == "AVAILABLE" for each in status.get("model_version_status", []))
