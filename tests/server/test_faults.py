"""What goes wrong around a server: a killed worker, bad models, a full disk, a clock that jumps, files that run out."""

import concurrent.futures
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
import tiny_models
from grpc_client import Client, predict_request
from loading import Load, percentile
from ports import free_port
from server_process import children, held, sample, worker_of
from small_disk import fill, small_disk
from waiting import wait_until

from backend.building.export import write_warmup_requests
from backend.serving.versions.warmup import RECORDS_FILE

PATH = "/v1/models/half:predict"
HOUR = 3600
BACK_SECONDS = 10.0
CLIENTS = 4
POLL_SECONDS = 0.15


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Version n computes x / 2 + n; `sleeper` sleeps."""
    folder = tmp_path_factory.mktemp("made")
    for number in (1, 2):
        tiny_models.half_plus(number, folder / str(number))
    tiny_models.sleeper(folder / "sleeper")
    return folder


@pytest.fixture
def models(made, tmp_path) -> Path:
    shutil.copytree(made / "1", tmp_path / "models" / "half" / "1")
    return tmp_path / "models"


def answer(server, session=requests, path: str = PATH) -> float:
    response = session.post(f"{server.url}{path}", json={"instances": [2.0]}, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()["predictions"][0]


# -- the worker --------------------------------------------------------------------------------------------------------


def sleeper(models: Path, made: Path, load_seconds: float) -> Path:
    """`models` with `sleeper` as well, which takes its time to load."""
    folder = shutil.copytree(made / "sleeper", models / "sleeper" / "1")
    records = folder / RECORDS_FILE
    records.parent.mkdir(exist_ok=True)
    write_warmup_requests(records, "sleeper", {"serving_default": {"x": np.array([load_seconds], np.float32)}})
    return models


@pytest.fixture
def slow_models(models, made) -> Path:
    return sleeper(models, made, 1.0)


@pytest.mark.long
def test_after_kill_9_under_load_only_the_requests_in_flight_fail_and_the_rest_are_answered(start_server, slow_models):
    """By HTTP four clients are in flight; by gRPC one that waits for a server which is away."""
    server = start_server(slow_models, "--run-threads", "5")
    load = Load(server, "/v1/models/sleeper:predict", 0.05, 60, clients=CLIENTS)
    with Calls(server) as calls:
        wait_until(lambda: answered(server) >= 40 and len(calls.answered) >= 20)
        worker = worker_of(server)
        os.kill(worker, signal.SIGKILL)
        killed, killed_at = time.time(), time.monotonic()  # after it: a request may be sent until the very moment
        wait_until(lambda: calls.answered[-1] > killed_at + 0.1 and answered(server) >= 40, 60)
    answers = load.stop()
    failed = [each for each in answers if each.status != 200]
    back = min(each.sent + each.seconds for each in answers if each.status == 200 and each.sent > killed) - killed
    called = min(each for each in calls.answered if each > killed_at + 0.1) - killed_at
    print(
        f"killed: {len(failed)} of {len(answers)} failed, {CLIENTS} were in flight; the next answer came after {back:.1f} s; "
        f"by gRPC {len(calls.failed)} of {len(calls.failed) + len(calls.answered)}, after {called:.1f} s"
    )
    assert len(failed) <= CLIENTS
    assert all(each.sent <= killed <= each.sent + each.seconds + 1 for each in failed)
    # Beside the call in flight one may never have left the client: it was to be sent on the connection that broke.
    unsent = [each for each in calls.failed if "sendmsg" in each.details()]
    lost = [each for each in calls.failed if each not in unsent]
    assert [each.code() for each in lost] in ([], [grpc.StatusCode.UNAVAILABLE]), calls.failed
    assert [each.code() for each in unsent] in ([], [grpc.StatusCode.UNAVAILABLE]), calls.failed
    assert worker_of(server) != worker
    assert back <= BACK_SECONDS
    assert called <= BACK_SECONDS


def answered(server) -> float:
    """How many requests to `sleeper` this worker has answered."""
    return sample(server, "dogsnap_request_seconds_count", 'door="rest",model="sleeper",version="1"')


class Calls:
    """One gRPC call of `sleeper` after the other while the block lasts."""

    def __init__(self, server):
        self.answered: list[float] = []  # when, by time.monotonic()
        self.failed: list[grpc.RpcError] = []
        self._ended = False
        self._client = Client(server.grpc_port)
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> "Calls":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._client.channel.close()

    def end(self) -> None:
        self._ended = True
        self._thread.join()

    def _go_on(self) -> None:
        request = predict_request("sleeper", x=[0.01])
        while not self._ended:
            try:
                self._client.prediction.Predict(request, timeout=60, wait_for_ready=True)
                self.answered.append(time.monotonic())
            except grpc.RpcError as error:
                self.failed.append(error)


def test_sigterm_answers_all_that_was_accepted_and_ends_with_0(start_server, made, models):
    shutil.copytree(made / "sleeper", models / "sleeper" / "1")
    server = start_server(models, "--run-threads", "2", "--queue-size", "20")
    url = f"{server.url}/v1/models/sleeper:predict"
    requests.post(url, json={"instances": [0]}, timeout=60)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        waiting = [pool.submit(requests.post, url, json={"instances": [0.5]}, timeout=60) for _ in range(12)]
        wait_until(lambda: held(server) == 12)
        begun = time.monotonic()
        assert server.stop() == 0
        print(f"SIGTERM with 12 accepted requests of 0.5 s, two at a time: over after {time.monotonic() - begun:.1f} s")
        assert time.monotonic() - begun < 30
        assert [each.result().status_code for each in waiting] == [200] * 12
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{server.url}/healthz", timeout=5)


def is_gone(process: int) -> bool:
    status = Path(f"/proc/{process}/status")
    return not status.exists() or "State:\tZ" in status.read_text(encoding="ascii")


@contextmanager
def new_server(server) -> Iterator[int]:
    """The process that SIGUSR2 starts beside the worker; it ends with the block."""
    worker = worker_of(server)
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: len(children(server.process.pid)) == 2)
    new = next(each for each in children(server.process.pid) if each != worker)
    try:
        yield new
    finally:
        with suppress(ProcessLookupError):
            os.kill(new, signal.SIGTERM)
        wait_until(lambda: is_gone(new), 60)


@pytest.mark.long
def test_sigusr2_replaces_the_server_by_one_with_new_settings_without_failing_a_request(
    start_server, slow_models, tmp_path
):
    file = tmp_path / "settings"
    file.write_text("# limits\nDOGSNAP_MAX_PHOTOS=3\nDOGSNAP_QUEUE_SIZE=20\n")
    server = start_server(slow_models, "--settings-file", str(file))
    assert sample(server, "dogsnap_places") == 28
    load = Load(server, PATH, 2.0, 120, clients=2)
    worker = worker_of(server)

    file.write_text("DOGSNAP_QUEUE_SIZE=many")
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: "'many' is not a valid integer" in server.log(), 60)
    wait_until(lambda: children(server.process.pid) == [worker])

    file.write_text("DOGSNAP_QUEUE_SIZE=30\n")
    with Calls(server) as calls:
        wait_until(lambda: calls.answered)
        with new_server(server):
            wait_until(lambda: is_gone(server.process.pid), 60)
            taken_over, taken_over_at = time.time(), time.monotonic()
            assert sample(server, "dogsnap_places") == 38
            assert answer(server) == 2.0
            wait_until(lambda: calls.answered[-1] > taken_over_at)
            answers = load.stop()
            calls.end()
    # grpcio cancels a call that reaches it in the very moment its server begins to stop.
    assert [each.code() for each in calls.failed] in ([], [grpc.StatusCode.CANCELLED]), calls.failed
    assert {each.status for each in answers} == {200}, [each for each in answers if each.status != 200]
    assert answers[0].sent < taken_over < answers[-1].sent + answers[-1].seconds
    print(f"SIGUSR2: {len(answers)} requests meanwhile, none failed, the slowest took {percentile(answers, 100):.2f} s")


@pytest.mark.long
def test_a_server_that_cannot_load_every_model_does_not_replace_one_that_answers(start_server, tmp_path):
    tiny_models.half_plus(1, tmp_path / "half" / "1")
    server = start_server(tmp_path, "--poll-seconds", "0")
    worker = worker_of(server)
    (tmp_path / "broken" / "1").mkdir(parents=True)
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: "the new server gives up: no version available of: broken" in server.log(), 60)
    wait_until(lambda: children(server.process.pid) == [worker], 60)
    assert answer(server) == 2.0


@pytest.mark.long
def test_a_new_server_whose_worker_ends_while_it_loads_gives_up(start_server, models, made):
    """So it ends, too, when loading hangs and gunicorn kills the worker after ten minutes."""
    server = start_server(models, "--poll-seconds", "0")
    worker = worker_of(server)
    sleeper(models, made, load_seconds=300)
    with new_server(server) as new:
        wait_until(lambda: children(new), 60)
        os.kill(children(new)[0], signal.SIGKILL)
        wait_until(lambda: "cannot start: its worker ended before the models were loaded" in server.log(), 60)
        wait_until(lambda: children(server.process.pid) == [worker], 60)
        assert answer(server) == 2.0


@pytest.mark.long
def test_a_worker_that_ends_after_it_has_taken_over_is_started_again(start_server, models, made):
    """While the old server still finishes its requests."""
    server = start_server(sleeper(models, made, load_seconds=1))
    path = f"{server.url}/v1/models/sleeper:predict"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        last = pool.submit(requests.post, path, json={"instances": [20.0]}, timeout=60)
        wait_until(lambda: held(server) == 1)
        with new_server(server) as new:
            wait_until(lambda: "takes the place of process" in server.log(), 60)
            os.kill(children(new)[0], signal.SIGKILL)
            assert answer(server) == 2.0
            assert not last.done()
            assert last.result().status_code == 200
            wait_until(lambda: is_gone(server.process.pid), 60)
            assert answer(server) == 2.0


@pytest.mark.long
def test_switches_acknowledged_before_a_new_server_takes_over_are_there_and_later_ones_are_refused(
    start_server, models, tmp_path
):
    server = start_server(models, "--switch-log", str(tmp_path / "switches"), "--poll-seconds", "0.2")
    acknowledged = []
    with new_server(server):
        while (response := switched(server, f"label{len(acknowledged)}", 1)).status_code == 200:
            assert not is_gone(server.process.pid)
            acknowledged.append(f"label{len(acknowledged)}")
        assert response.status_code == 503
        assert "is taking this one's place and has read" in response.json()["error"]
        wait_until(lambda: is_gone(server.process.pid), 60)
        kept = requests.get(f"{server.url}/api/admin/models/half", timeout=60).json()["model"]["labels"]
        assert acknowledged == sorted(kept, key=lambda name: int(name.removeprefix("label")))
        assert switched(server, "late", 1).status_code == 200
    print(f"SIGUSR2 under switches: 0 of {len(acknowledged)} acknowledged ones lost")


def test_sighup_restarts_the_worker_with_the_settings_of_the_start(start_server, models):
    server = start_server(models, "--drain-seconds", "1")
    worker = worker_of(server)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: worker not in children(server.process.pid))
    assert answer(server) == 2.0
    assert worker_of(server) != worker


def test_a_worker_that_cannot_start_again_is_tried_until_it_can(start_server, models, tmp_path):
    config = tmp_path / "models.config"
    good = f'model_config_list {{ config {{ name: "half" base_path: "{models / "half"}" }} }}'
    config.write_text(good)
    server = start_server(models, "--model-config-file", str(config), "--drain-seconds", "1")
    config.write_text("model_config_list { what")
    os.kill(worker_of(server), signal.SIGKILL)
    wait_until(lambda: "the server cannot start" in server.log())
    config.write_text(good)
    assert answer(server) == 2.0


def test_a_wrong_model_platform_ends_the_start_with_a_sentence(tmp_path):
    config = tmp_path / "models.config"
    config.write_text("model_config_list { config { name: 'a' base_path: '/a' model_platform: 'torch' } }")
    done = serve("--model-config-file", str(config), "--port", str(free_port()), "--grpc-port", "0")
    starting, reason = done.stderr.splitlines()
    assert done.returncode == 4
    assert "starting" in starting
    assert "the server cannot start: expected the model_platform tensorflow, received" in reason


def test_a_wrong_settings_file_ends_the_start_with_a_sentence(tmp_path):
    file = tmp_path / "settings"
    file.write_text("max_photos=3\n")
    done = serve("--settings-file", str(file))
    assert done.returncode == 2
    assert "expected lines of the form DOGSNAP_NAME=value, received 'max_photos'" in done.stderr


# -- the models --------------------------------------------------------------------------------------------------------


# What is done in the folder of models, of which half has version 1.
SPOILED = (
    "rm -r half/1",
    "rm -r half/1/*",
    "rm -r half",
    "rm -r half; echo no folder > half",
    "rm -r half; ln -s half half",
    "find half/1 -type f -exec dd if=/dev/urandom of={} bs=1000 count=1 status=none ';'",
    "cp -r half/1 half/2; head -c 1000 /dev/urandom > half/2/saved_model.pb",
    "cp -r half/1 half/2; rm half/2/variables/variables.index",
    "cp -r half/1 half/2; truncate --size 500 half/2/saved_model.pb",
)


def test_whatever_becomes_of_its_folder_a_loaded_model_answers_and_a_good_version_is_loaded_afterwards(
    start_server, made, models
):
    server = start_server(models, "--poll-seconds", str(POLL_SECONDS), "--retry-seconds", "0.3")
    for command in SPOILED:
        subprocess.run(command, shell=True, cwd=models, check=True)
        end = time.monotonic() + 4 * POLL_SECONDS
        while time.monotonic() < end:
            assert answer(server) == 2.0, command
            time.sleep(0.02)
        assert requests.get(f"{server.url}/readyz", timeout=60).status_code == 200, command
        subprocess.run("rm -rf half", shell=True, cwd=models, check=True)
        shutil.copytree(made / "1", models / "half" / "1")
    assert "half version 2 failed to load" in server.log()
    assert "Traceback" not in server.log()
    shutil.copytree(made / "2", models / "half" / "3")
    wait_until(lambda: "loaded half version 3" in server.log())
    assert answer(server, path="/v1/models/half/versions/3:predict") == 3.0


# Root may read everything; without these two rights it is held to a file's permissions like anybody.
ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@pytest.mark.skipif(
    bool(ORDINARY) and not shutil.which("setpriv"), reason="root loses no right without setpriv, which is missing"
)
def test_a_model_folder_that_may_no_longer_be_read_goes_on_answering(start_server, models):
    server = start_server(models, "--poll-seconds", "0.2", prefix=ORDINARY)
    (models / "half").chmod(0)
    try:
        wait_until(lambda: "Permission denied" in server.log())
        assert answer(server) == 2.0
        assert "the loaded versions go on answering" in server.log()
    finally:
        (models / "half").chmod(0o755)


# -- disk, port, clock, files ------------------------------------------------------------------------------------------


def serve(*flags: str, prefix: tuple = (), environ: dict | None = None) -> subprocess.CompletedProcess:
    """`dogsnap serve` where it is not expected to get far."""
    command = [*prefix, str(Path(sys.executable).with_name("dogsnap")), "serve", *flags]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DOGSNAP_")}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**clean, **(environ or {})}
    )


def switched(server, label: str, version: int) -> requests.Response:
    url = f"{server.url}/api/admin/models/half/labels/{label}"
    return requests.post(url, json={"version": version}, timeout=60)


def test_on_a_full_disk_it_starts_and_serves_refuses_switches_and_takes_them_when_there_is_room(
    start_server, made, models, tmp_path
):
    shutil.copytree(made / "2", models / "half" / "2")
    with small_disk(tmp_path / "disk", "256k") as disk:
        filler = fill(disk)
        flags = ("--switch-log", str(disk / "switches"), "--poll-seconds", "0.2")
        with start_server(models, *flags, environ={"TMPDIR": str(disk)}) as server:
            refused = switched(server, "stable", 1)
            assert refused.status_code == 503
            assert "cannot be written (database or disk is full); the switch was not made" in refused.json()["error"]
            shutil.copytree(made / "2", models / "half" / "3")
            wait_until(lambda: "loaded half version 3" in server.log())
            assert answer(server, path="/v1/models/half/versions/3:predict") == 3.0
            filler.unlink()
            assert switched(server, "stable", 1).status_code == 200
            filler = fill(disk)
            assert switched(server, "stable", 2).status_code == 503
            assert answer(server, path="/v1/models/half/labels/stable:predict") == 2.0
            os.kill(worker_of(server), signal.SIGKILL)
            assert answer(server, path="/v1/models/half/labels/stable:predict") == 2.0
            filler.unlink()
            assert switched(server, "stable", 2).status_code == 200
            assert "Traceback" not in server.log()
        with start_server(models, *flags) as server:
            assert answer(server, path="/v1/models/half/labels/stable:predict") == 3.0


def test_after_kill_9_under_a_stream_of_switches_every_acknowledged_one_is_there_and_no_number_was_given_twice(
    start_server, models, tmp_path
):
    file, acknowledged = tmp_path / "switches", {}
    server = start_server(models, "--switch-log", str(file), "--poll-seconds", "0.2")
    label = iter(range(10_000))

    def switch_until(killed: threading.Event) -> None:
        while not killed.is_set():
            name = f"label{next(label)}"
            with suppress(requests.RequestException):
                response = switched(server, name, 1)
                if response.status_code == 200:
                    acknowledged[name] = response.json()["switch"]["id"]

    for _ in range(3):
        killed, enough = threading.Event(), len(acknowledged) + 30
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            streams = [pool.submit(switch_until, killed) for _ in range(2)]
            wait_until(lambda enough=enough: len(acknowledged) >= enough, 60)
            os.kill(worker_of(server), signal.SIGKILL)
            killed.set()
        for stream in streams:
            stream.result()
        wait_until(lambda: is_ready(server.port), 60)
    kept = requests.get(f"{server.url}/api/admin/models/half", timeout=60).json()["model"]["labels"]
    assert set(acknowledged) <= set(kept)
    assert len(set(acknowledged.values())) == len(acknowledged)
    print(
        f"kill -9 under switches: 0 of {len(acknowledged)} acknowledged ones lost, {len(kept) - len(acknowledged)} unanswered"
    )


def test_with_its_log_on_a_full_disk_it_starts_and_answers(models):
    port = free_port()
    command = [str(Path(sys.executable).with_name("dogsnap")), "serve", "--models", str(models), "--access-log"]
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen([*command, "--port", str(port), "--grpc-port", "0"], stdout=full, stderr=full)
    try:
        wait_until(lambda: is_ready(port), 120)
        response = requests.post(f"http://127.0.0.1:{port}{PATH}", json={"instances": [2.0]}, timeout=60)
        assert response.json() == {"predictions": [2.0]}
    finally:
        process.terminate()
    assert process.wait(60) == 0


def is_ready(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
    except requests.RequestException:
        return False


@pytest.mark.parametrize(("flag", "protocol"), [("--port", "HTTP"), ("--grpc-port", "gRPC")])
def test_a_port_in_use_ends_the_start_with_a_sentence(flag, protocol, models):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        ports = {"--port": str(free_port()), "--grpc-port": "0", flag: str(number)}
        done = serve("--models", str(models), *[part for pair in ports.items() for part in pair])
    assert done.returncode == 1
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .startswith(
            f"Error: cannot listen for {protocol} on 127.0.0.1 port {number}: Address already in use; "
            f"choose another {flag} (DOGSNAP_{flag[2:].replace('-', '_').upper()})"
        )
    )
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_when_the_clock_jumps_by_hours_no_request_is_lost_or_delayed(start_server, made, models, tmp_path):
    shutil.copytree(made / "sleeper", models / "sleeper" / "1")
    clock = tmp_path / "clock"
    clock.write_text("0")
    shifted = {"PYTHONPATH": str(Path(__file__).parents[1] / "support" / "shifted_clock"), "CLOCK_FILE": str(clock)}
    server = start_server(models, "--poll-seconds", "0.2", "--deadline-ms", "10000", environ=shifted)
    url, worker = f"{server.url}/v1/models/sleeper:predict", worker_of(server)
    sleep = partial(requests.post, url, json={"instances": [0.8]}, timeout=60)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for jump in (5 * HOUR, -5 * HOUR, 10_000 * HOUR, 0):
            running = pool.submit(sleep)
            wait_until(lambda: held(server) == 1)
            clock.write_text(str(jump))
            begun = time.monotonic()
            assert answer(server) == 2.0
            assert running.result().status_code == 200, jump
            assert time.monotonic() - begun < 8, jump
        shutil.copytree(made / "2", models / "half" / "2")
        wait_until(lambda: "loaded half version 2" in server.log(), 60)
        assert worker_of(server) == worker


@pytest.mark.skipif(not shutil.which("prlimit"), reason="prlimit, which takes files away from a server, is missing")
def test_with_its_files_exhausted_it_answers_or_refuses_and_is_as_before_afterwards(start_server, made, models):
    small = ("--run-threads", "2", "--queue-size", "4", "--poll-seconds", "0.2")
    server = start_server(models, *small, prefix=("prlimit", "--nofile=220:220"))
    worker = worker_of(server)
    with requests.Session() as session, ExitStack() as crowd:
        assert answer(server, session) == 2.0
        for _ in range(300):
            one = crowd.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", server.port))
        statuses = set()
        for _ in range(20):
            response = session.post(f"{server.url}{PATH}", json={"instances": [2.0]}, timeout=60)
            statuses.add(response.status_code)
            time.sleep(0.1)
        assert 200 in statuses
    wait_until(lambda: is_ready(server.port))
    assert answer(server) == 2.0
    shutil.copytree(made / "2", models / "half" / "2")
    wait_until(lambda: "loaded half version 2" in server.log())
    assert worker_of(server) == worker
    assert "Traceback" not in server.log()
