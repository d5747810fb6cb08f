"""Fixtures for all tests: data folders, tiny real models, and a real server process."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest
import requests
from support.administration import with_token
from support.forked import WARM_UP, ForkedServer, skip_warm_up
from support.ports import START_SECONDS, free_port
from support.waiting import answers


def keep_files_in_memory() -> None:
    """Where no other folder is asked for and memory has room: on a disk, servers that keep what is
    switched wait for it again and again.
    """
    memory = Path("/dev/shm")
    if "TMPDIR" not in os.environ and memory.is_dir() and shutil.disk_usage(memory).free > NEEDED:
        os.environ["TMPDIR"] = str(memory)


NEEDED = 4 * 2**30  # bytes of the tests' files
keep_files_in_memory()
# Servers write their tokens there, and commands find them: not those of the user who runs the tests.
RUNTIME = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = RUNTIME.name
STOP_SECONDS = 120


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `-m` leaves out anyway is not even imported: all of slow/, of which KerasHub alone takes
    a second of every process, and where only what measures is wanted, files without such tests.
    """
    wanted = config.option.markexpr
    if wanted.startswith("not ") and collection_path.name == "slow":
        return True
    if wanted.startswith("measures") and collection_path.name.startswith("test_"):
        return "mark.measures" not in collection_path.read_text(encoding="utf-8") or None
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks, and xdist groups by them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests run in one process, and so do all files that ask for `app_server`: it runs the
    real network, and is shared.
    """
    sharing = {item.path for item in items if "app_server" in item.fixturenames}
    for item in items:
        if item.path.parent.name == "slow" and not any(
            map(item.get_closest_marker, ("soak", "ray", "image"))
        ):
            item.add_marker("long")
        group = "app_server" if item.path in sharing else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))

    def place(item: pytest.Item) -> int:
        """What takes longest begins first, so that no process is left with it at the end."""
        return 0 if item.path in sharing else 1 if item.get_closest_marker("early") else 2

    items.sort(key=place)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test's name as pytest takes it: xdist has put its group behind it."""
    name, at, group = report.nodeid.rpartition("@")
    if at and "]" not in group:
        report.nodeid = name


def pytest_collection_finish() -> None:
    """What the imports made stays, so that the garbage collector need not visit it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What measures times or memory measures a server as the shell starts it."""
    Server.measuring = any(item.get_closest_marker(name) for name in ("long", "soak"))


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory) -> None:
    """What tests start in this process, or as commands of their own, keeps its state here."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with stanford_dogs/, full_frame_dogs/ and not_dogs/."""
    folder = os.environ.get("DOGSNAP_TEST_DATA")
    if not folder:
        pytest.skip(
            "DOGSNAP_TEST_DATA is not set: the folder with stanford_dogs/, full_frame_dogs/ and not_dogs/ is missing"
        )
    return Path(folder)


class Server:
    """A `dogsnap serve` process on free ports: `url`, `grpc_port`, `get()`, `post()`, `log()`, `stop()`; a context manager.

    It is forked (see forked.py), but for tests that measure (`measuring`) with the constants as they are, and where a
    command before it or the environment decides what the interpreter finds.
    """

    measuring = False

    def __init__(
        self,
        models: Path,
        log_file: Path,
        *flags: str,
        environ: dict[str, str] | None = None,
        prefix: tuple = (),
        lasting: bool = False,
        constants: dict[str, Any] | None = None,
    ):
        self.port, self.grpc_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.lasting = lasting
        self.own_token = (environ or {}).get("DOGSNAP_ADMIN_TOKEN", "")
        self._log_file = log_file
        ports = ["--port", self.port, "--grpc-port", self.grpc_port]
        arguments = [
            str(each) for each in ["--models", models, *ports, *flags]
        ]  # the last of a flag counts
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("DOGSNAP_")
        }
        plain = not prefix and "PYTHONPATH" not in (environ or {})
        # Switches are kept by default: a server of one test must not find those of another.
        clean["XDG_STATE_HOME"] = str(log_file.parent / "state")
        environ = {**clean, **(environ or {})}
        log_file.touch()
        if plain and (constants or not self.measuring):
            constants = {WARM_UP: skip_warm_up, **(constants or {})}
            self.process = ForkedServer(arguments, log_file, environ, constants)
            return
        assert not constants, "they are for forks"
        command = [*prefix, Path(sys.executable).with_name("dogsnap"), "serve", *arguments]
        with log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environ
            )

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, data: Any = None, **options: Any) -> requests.Response:
        return self.request("POST", path, data=data, **options)

    def classify(
        self, photo: bytes, headers: dict[str, str] | None = None, **fields: object
    ) -> requests.Response:
        """A photo and further fields as JSON to /api/classify."""
        return self.post(
            "/api/classify", json={"image": b64encode(photo).decode(), **fields}, headers=headers
        )

    def request(
        self, method: str, path: str, timeout: float = 60, **options: Any
    ) -> requests.Response:
        """`path` follows `url`; the options are those of `requests.request`. The header Authorization is the token where `path`
        administers, unless the options have another one, or None for none.
        """
        options["headers"] = {**with_token(self, path), **(options.get("headers") or {})}
        return requests.request(method, self.url + path, timeout=timeout, **options)

    def log(self) -> str:
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    def wait_until_ready(self, path: str = "/readyz", seconds: float = START_SECONDS) -> "Server":
        """Wait for a 200 of `path`; fails with the log if the process ends or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if answers(self.url + path):
                return self
            time.sleep(0.1)
        self.stop()
        pytest.fail(f"the server was not ready after {seconds} s; its log:\n{self.log()}")

    def begin_to_stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """SIGTERM and wait; gives the exit status."""
        self.begin_to_stop()
        return self.process.wait(timeout)


@pytest.fixture(scope="session")
def running() -> Iterator[list[Server]]:
    """The servers that were started and not stopped yet."""
    servers: list[Server] = []
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def start_server(tmp_path_factory, running):
    """A function that starts a `Server` for a folder of models; it is stopped when the test or module is over."""

    def start(
        models: Path,
        *flags: str,
        environ: dict[str, str] | None = None,
        wait: bool = True,
        prefix: tuple = (),
        lasting: bool = False,
        constants: dict[str, Any] | None = None,
    ) -> Server:
        """`prefix`: a command before the server's, e.g. one that limits what it may do; `lasting`: until the session ends;
        `constants` of the package, by their full names, that have other values in this server.
        """
        log_file = tmp_path_factory.mktemp("server") / "log.txt"
        server = Server(
            models,
            log_file,
            *flags,
            environ=environ,
            prefix=prefix,
            lasting=lasting,
            constants=constants,
        )
        running.append(server)
        return server.wait_until_ready() if wait else server

    return start


def stop_those_started(running: list[Server]) -> Iterator[None]:
    """Every server holds some 500 MB, so that none may outlive what needs it."""
    before = set(running)
    yield
    started = [each for each in running if each not in before and not each.lasting]
    for server in started:
        server.begin_to_stop()  # all at once: each waits for its last connections
    for server in started:
        server.stop()
        running.remove(server)


@pytest.fixture(scope="module", autouse=True)
def servers_end_with_their_module(running):
    yield from stop_those_started(running)


@pytest.fixture(autouse=True)
def servers_end_with_their_test(running):
    yield from stop_those_started(running)


@pytest.fixture(scope="session")
def colour_models(tmp_path_factory) -> Path:
    """A models folder whose inception_v3 tells red, green and blue apart: version 1 takes images, version 2 base64 text."""
    from support import tiny_models

    models = tmp_path_factory.mktemp("colour_models")
    tiny_models.colours(models / "inception_v3")
    return models


@pytest.fixture(scope="session")
def half_models(tmp_path_factory) -> Path:
    """A models folder with half: x / 2 + 1. Not to be changed."""
    from support import tiny_models

    models = tmp_path_factory.mktemp("half_models")
    tiny_models.half_plus(1, models / "half" / "1")
    return models


@pytest.fixture(scope="session")
def made_half(tmp_path_factory) -> Path:
    """A version that computes x / 2 + 2, to be copied to wherever one is wanted."""
    from support import tiny_models

    return tiny_models.half_plus(2, tmp_path_factory.mktemp("made_half") / "version")


@pytest.fixture(scope="session")
def sleeper(tmp_path_factory) -> Path:
    """A models folder with sleeper, which takes as many seconds as it is told. Not to be changed."""
    from support import tiny_models

    models = tmp_path_factory.mktemp("sleeper_models")
    tiny_models.sleeper(models / "sleeper" / "1")
    return models


@pytest.fixture(scope="module")
def server(start_server, models) -> Server:
    """A server of the `models` of a module."""
    return start_server(models)


@pytest.fixture(scope="session")
def colour_server(start_server, colour_models) -> Server:
    """A server of `colour_models`, shared by the tests of a session."""
    return start_server(colour_models, lasting=True)


@pytest.fixture(scope="session")
def app_server(start_server) -> Server:
    """`dogsnap serve` with the real network, shared by all tests that do it no harm."""
    from support.real_model import built_models

    return start_server(built_models(), lasting=True)
