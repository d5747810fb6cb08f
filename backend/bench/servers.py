"""Starts and stops the servers that are measured, each as a process on a free port."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import requests

from bench.program_runs import CannotMeasure

MODEL = "inception_v3"
COMMAND = str(Path(sys.executable).with_name("dogsnap"))
START_SECONDS = 180
STOP_SECONDS = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Process(AbstractContextManager):
    """A server in its own process group, a context manager; `ready_seconds` from its start until `ready_path` returned 200."""

    def __init__(
        self,
        command: Sequence[str],
        url: str,
        ready_path: str,
        environ: Mapping[str, str] | None = None,
    ):
        self.url = url
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (`__exit__` closes it)
        begun = time.monotonic()
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("DOGSNAP_")
        }
        self._process = subprocess.Popen(
            list(command),
            stdout=self._log,
            stderr=self._log,
            env={**clean, **(environ or {})},
            start_new_session=True,
        )
        while not _answers(url + ready_path):
            if self._process.poll() is not None or time.monotonic() > begun + START_SECONDS:
                self._log.seek(0)
                said = self._log.read().decode(errors="replace").strip().splitlines()
                self.__exit__()
                raise CannotMeasure(
                    f"a server did not start; its last output: {said[-1] if said else 'nothing'}"
                )
            time.sleep(0.02)
        self.ready_seconds = time.monotonic() - begun

    def resident_mb(self) -> float:
        """Memory of the worker: the last in the chain of first children, from make or a master process on. Linux only."""
        pid = self._process.pid
        while (
            children := Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        ):
            pid = int(children[0])
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        return (
            int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) * 1024 / 1e6
        )

    def __exit__(self, *_: object) -> None:
        with self._log, suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
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


class Dogsnap(Process):
    """`dogsnap serve` with links to versions in the empty folder `models`."""

    def __init__(self, models: Path, versions: Sequence[Path]):
        self._folder = models / MODEL
        self._folder.mkdir()
        for version in versions:
            self._link(version, int(version.name))
        port = free_port()
        environ = {
            "DOGSNAP_PORT": str(port),
            "DOGSNAP_GRPC_PORT": str(free_port()),
            "DOGSNAP_MODELS": str(models),
        }
        super().__init__([COMMAND, "serve"], f"http://127.0.0.1:{port}", "/readyz", environ)

    def predict_url(self, number: int) -> str:
        return f"{self.url}/v1/models/{MODEL}/versions/{number}:predict"

    def add(self, version: Path, number: int) -> None:
        """Add a version while the server runs, and wait until it is loaded. Raises CannotMeasure."""
        self._link(version, number)
        end = time.monotonic() + START_SECONDS
        while not _answers(f"{self.url}/v1/models/{MODEL}/versions/{number}/metadata"):
            if time.monotonic() > end:
                raise CannotMeasure(f"{version} was not loaded within {START_SECONDS} seconds")
            time.sleep(0.2)

    def precision(self, number: int) -> str:
        """What the server says about how it runs a version."""
        (model,) = requests.get(f"{self.url}/api/models", timeout=60).json()["models"]
        (runtime,) = [each["runtime"] for each in model["versions"] if each["version"] == number]
        return f"{runtime['name']} {runtime.get('precision', '')}".strip()

    def _link(self, version: Path, number: int) -> None:
        (self._folder / str(number)).symlink_to(version.resolve())


def merged_for_one_pass(version: Path, folder: Path) -> Path:
    """What `dogsnap merge --fast` makes of version 1, built in `folder`. Raises CannotMeasure if that wrote no version."""
    source = shutil.copytree(version, folder / MODEL / version.name)
    done = subprocess.run(
        [COMMAND, "merge", "--fast", str(source)], capture_output=True, text=True, check=False
    )
    written = source.with_name("2")
    if not written.is_dir():
        said = (done.stderr if done.returncode else done.stdout).strip().rpartition("\n")[2]
        raise CannotMeasure(
            f"`dogsnap merge --fast` wrote no version (exit status {done.returncode}): {said}"
        )
    return written


def lit_serve(saved_model: Path) -> Process:
    """Raises CannotMeasure if LitServe is not installed."""
    if not importlib.util.find_spec("litserve"):
        raise CannotMeasure("LitServe is missing: `make bench` installs it")
    port = free_port()
    command = [sys.executable, "-m", "bench.programs.litserve_app", str(saved_model), str(port)]
    return Process(command, f"http://127.0.0.1:{port}", "/health")
