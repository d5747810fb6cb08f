"""How the server ends and starts again: a killed worker, SIGTERM, SIGHUP, and at SIGUSR2 a new server that takes over."""

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import dogsnap
import grpc
import numpy as np
import pytest
import requests
from dogsnap.admin_token import find_token, token_files
from dogsnap.exporting.export import write_warmup_requests
from dogsnap.serving.versions.warmup import RECORDS_FILE
from support.grpc_client import connected, predict_request
from support.half_models import PATH, answer, switched
from support.loading import Load, percentile
from support.process_readings import children, held, sample, worker_of
from support.waiting import answers as is_ready
from support.waiting import wait_until

pytestmark = pytest.mark.early

BACK_SECONDS = 10.0
CLIENTS = 4


def with_sleeper(models: Path, sleeper: Path, load_seconds: float) -> Path:
    """`models` with `sleeper` as well, which takes its time to load."""
    folder = shutil.copytree(sleeper / "sleeper" / "1", models / "sleeper" / "1")
    records = folder / RECORDS_FILE
    records.parent.mkdir(exist_ok=True)
    write_warmup_requests(
        records, "sleeper", {"serving_default": {"x": np.array([load_seconds], np.float32)}}
    )
    return models


@pytest.mark.long
def test_after_kill_9_under_load_only_the_requests_in_flight_fail(start_server, models, sleeper):
    """By HTTP four clients are in flight; by gRPC one that waits for a server which is away."""
    server = start_server(with_sleeper(models, sleeper, 1.0), "--run-threads", "5")
    load = Load(server, "/v1/models/sleeper:predict", 0.05, 60, clients=CLIENTS)
    with calls_of(server) as calls:
        wait_until(lambda: answered(server) >= 40 and len(calls.answered) >= 20)
        worker = worker_of(server)
        os.kill(worker, signal.SIGKILL)
        killed, killed_at = (
            time.time(),
            time.monotonic(),
        )  # after it: a request may be sent until the very moment
        wait_until(lambda: calls.answered[-1] > killed_at + 0.1 and answered(server) >= 40, 60)
    answers = load.stop()
    failed = [each for each in answers if each.status != 200]
    back = (
        min(
            each.sent + each.seconds
            for each in answers
            if each.status == 200 and each.sent > killed
        )
        - killed
    )
    called = min(each for each in calls.answered if each > killed_at + 0.1) - killed_at
    print(
        f"killed: {len(failed)} of {len(answers)} failed, {CLIENTS} were in flight; the next answer came after {back:.1f} s; "
        f"by gRPC {len(calls.failed)} of {len(calls.failed) + len(calls.answered)}, after {called:.1f} s"
    )
    assert len(failed) <= CLIENTS
    assert all(each.sent <= killed <= each.sent + each.seconds + 1 for each in failed)
    # Beside the call in flight one may never have left the client: it was to be sent on the connection that broke.
    lost = ["sendmsg" in each.details() for each in calls.failed]
    assert max(lost.count(True), lost.count(False)) <= 1, calls.failed
    assert {each.code() for each in calls.failed} <= {grpc.StatusCode.UNAVAILABLE}, calls.failed
    assert worker_of(server) != worker
    assert back <= BACK_SECONDS
    assert called <= BACK_SECONDS


def answered(server) -> float:
    """How many requests to `sleeper` this worker has answered."""
    return sample(
        server, "dogsnap_request_seconds_count", 'door="rest",model="sleeper",version="1"'
    )


@contextmanager
def calls_of(server) -> Iterator[SimpleNamespace]:
    """One gRPC call of `sleeper` after the other while the block lasts: when they were answered (time.monotonic), or errors."""
    calls, ended = SimpleNamespace(answered=[], failed=[]), threading.Event()

    def go_on() -> None:
        request = predict_request("sleeper", x=[0.01])
        with connected(server.grpc_port) as client:
            while not ended.is_set():
                try:
                    client.prediction.Predict(request, timeout=60, wait_for_ready=True)
                    calls.answered.append(time.monotonic())
                except grpc.RpcError as error:
                    calls.failed.append(error)

    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(go_on)
        try:
            yield calls
        finally:
            ended.set()
    going_on.result()


def test_sigterm_answers_all_that_was_accepted_and_ends_with_0(start_server, models, sleeper):
    shutil.copytree(sleeper / "sleeper" / "1", models / "sleeper" / "1")
    server = start_server(models, "--run-threads", "2", "--queue-size", "20")
    url = f"{server.url}/v1/models/sleeper:predict"
    requests.post(url, json={"instances": [0]}, timeout=60)
    with ThreadPoolExecutor(12) as pool:
        # Two hold both threads until the ten others have come.
        waiting = [
            pool.submit(requests.post, url, json={"instances": [6.0]}, timeout=60) for _ in range(2)
        ]
        wait_until(lambda: held(server) == 2)
        for _ in range(10):
            waiting.append(pool.submit(requests.post, url, json={"instances": [0.2]}, timeout=60))
        wait_until(lambda: held(server) == 12)
        begun = time.monotonic()
        assert server.stop() == 0
        print(
            f"SIGTERM with 12 accepted requests, two at a time: over after {time.monotonic() - begun:.1f} s"
        )
        assert time.monotonic() - begun < 30
        assert [each.result().status_code for each in waiting] == [200] * 12
    assert "Traceback" not in server.log()
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
def test_sigusr2_brings_new_settings_without_failing_a_request(
    start_server, models, sleeper, tmp_path
):
    file = tmp_path / "settings"
    file.write_text("# limits\nDOGSNAP_MAX_BODY_MB=3\nDOGSNAP_QUEUE_SIZE=20\n")
    server = start_server(with_sleeper(models, sleeper, 1.0), "--settings-file", str(file))
    assert sample(server, "dogsnap_places") == 28
    load = Load(server, PATH, 2.0, 120, clients=2)
    worker = worker_of(server)

    file.write_text("DOGSNAP_QUEUE_SIZE=many")
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: "'many' is not a valid integer" in server.log(), 60)
    wait_until(lambda: children(server.process.pid) == [worker])

    file.write_text("DOGSNAP_QUEUE_SIZE=30\n")
    with ExitStack() as new, calls_of(server) as calls:
        wait_until(lambda: calls.answered)
        new.enter_context(new_server(server))
        wait_until(lambda: is_gone(server.process.pid), 60)
        taken_over, taken_over_at = time.time(), time.monotonic()
        assert sample(server, "dogsnap_places") == 38
        assert answer(server) == 2.0
        wait_until(lambda: calls.answered[-1] > taken_over_at)
        answers = load.stop()
    # grpcio cancels a call that reaches it in the very moment its server begins to stop.
    assert [each.code() for each in calls.failed] in ([], [grpc.StatusCode.CANCELLED]), calls.failed
    assert {each.status for each in answers} == {200}, [
        each for each in answers if each.status != 200
    ]
    assert answers[0].sent < taken_over < answers[-1].sent + answers[-1].seconds
    print(
        f"SIGUSR2: {len(answers)} requests meanwhile, none failed, the slowest took {percentile(answers, 100):.2f} s"
    )


@pytest.mark.long
def test_a_new_server_that_cannot_load_or_whose_worker_ends_gives_up(start_server, models, sleeper):
    """So it ends, too, when loading hangs and gunicorn kills the worker after ten minutes."""
    server = start_server(models, "--poll-seconds", "0")
    worker = worker_of(server)
    graph = models / "half" / "1" / "saved_model.pb"
    contents = graph.read_bytes()
    graph.write_bytes(b"no model")
    server.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: "the new server gives up: no version available of: half" in server.log(), 60)
    wait_until(lambda: children(server.process.pid) == [worker], 60)
    assert answer(server) == 2.0
    graph.write_bytes(contents)
    with_sleeper(models, sleeper, load_seconds=300)
    with new_server(server) as new:
        wait_until(lambda: children(new), 60)
        os.kill(children(new)[0], signal.SIGKILL)
        wait_until(
            lambda: "cannot start: the new server stopped while loading the models" in server.log(),
            60,
        )
        wait_until(lambda: children(server.process.pid) == [worker], 60)
        assert answer(server) == 2.0


def test_a_server_whose_folder_is_gone_starts_no_new_one_and_goes_on(
    start_server, models, tmp_path
):
    folder = tmp_path / "release"
    folder.mkdir()
    server = start_server(models, prefix=("env", "-C", str(folder)))
    worker = worker_of(server)
    folder.rmdir()
    server.process.send_signal(signal.SIGUSR2)
    said = f"no new server is started, and the running one goes on: no {folder}"
    wait_until(lambda: said in server.log())
    wait_until(lambda: children(server.process.pid) == [worker])
    assert answer(server) == 2.0


@pytest.mark.long
def test_a_worker_that_ends_after_it_has_taken_over_is_started_again(start_server, models, sleeper):
    server = start_server(with_sleeper(models, sleeper, load_seconds=1))
    path = f"{server.url}/v1/models/sleeper:predict"
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(
            requests.post, path, json={"instances": [20.0]}, timeout=60
        )  # which the old server finishes
        wait_until(lambda: held(server) == 1)
        with new_server(server) as new:
            wait_until(lambda: "takes the place of process" in server.log(), 60)
            os.kill(children(new)[0], signal.SIGKILL)
            assert answer(server) == 2.0
            assert not last.done()
            assert last.result().status_code == 200
            wait_until(lambda: is_gone(server.process.pid), 60)
            assert answer(server) == 2.0


@pytest.fixture
def service_manager(tmp_path) -> Iterator[socket.socket]:
    """What systemd binds for a unit with Type=notify."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(60)
        yield channel


def test_the_service_manager_is_told_when_the_models_answer_and_when_the_server_stops(
    start_server, models, sleeper, service_manager
):
    address = service_manager.getsockname()
    slow = with_sleeper(models, sleeper, load_seconds=2)
    environ = {"NOTIFY_SOCKET": address, "DOGSNAP_WARM_UP": "true"}
    server = start_server(slow, environ=environ, wait=False)
    assert service_manager.recv(1000) == b"READY=1"
    assert is_ready(f"{server.url}/readyz")
    server.begin_to_stop()
    assert service_manager.recv(1000) == b"STOPPING=1"


@pytest.mark.long
def test_a_new_server_is_the_main_process_of_the_same_service(
    start_server, models, service_manager
):
    server = start_server(models, environ={"NOTIFY_SOCKET": service_manager.getsockname()})
    assert service_manager.recv(1000) == b"READY=1"
    with new_server(server) as new:
        wait_until(lambda: is_gone(server.process.pid), 60)
        told = {service_manager.recv(1000).decode() for _ in range(2)}
        assert told == {"READY=1", f"MAINPID={new}\nREADY=1"}
    assert service_manager.recv(1000) == b"STOPPING=1"


@pytest.mark.long
def test_switches_while_a_new_server_takes_over_are_all_followed(start_server, models):
    server = start_server(models, "--poll-seconds", "0.2")
    acknowledged = []
    with new_server(server):
        while not is_gone(server.process.pid):
            with suppress(requests.ConnectionError):
                response = switched(server, f"label{len(acknowledged)}", 1)
                assert response.status_code == 200, response.text
                acknowledged.append(f"label{len(acknowledged)}")

        def kept() -> set[str]:
            return set(server.get("/api/admin/models/half").json()["model"]["labels"])

        wait_until(lambda: kept() == set(acknowledged), 5)
        assert switched(server, "late", 1).status_code == 200
    print(f"SIGUSR2 under switches: 0 of {len(acknowledged)} acknowledged ones lost")


@pytest.mark.long
@pytest.mark.parametrize("what", ["a killed worker", "SIGHUP"])
def test_a_server_whose_code_is_replaced_on_disk_is_replaced_by_one_of_that_code(
    start_server, models, tmp_path, what
):
    """Also where another model does not load, for which a new server otherwise gives up, and where the folder for
    temporary files was cleaned away.
    """
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "saved_model.pb").write_bytes(b"no model")
    code = shutil.copytree(
        Path(dogsnap.__file__).parent,
        tmp_path / "code" / "dogsnap",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (tmp_path / "temporary").mkdir()
    environ = {"PYTHONPATH": str(code.parent), "TMPDIR": str(tmp_path / "temporary")}
    server = start_server(models, environ=environ, wait=False)
    wait_until(lambda: "ready: open" in server.log(), 60)
    assert answer(server) == 2.0
    for file, change in (
        ("logs.py", "{}\nADDED = 1\n"),
        ("serving/answers/levels.py", "from dogsnap.logs import ADDED\n{}"),
    ):
        (code / file).write_text(change.format((code / file).read_text()))
    (tmp_path / "temporary").rmdir()
    if what == "SIGHUP":
        server.process.send_signal(signal.SIGHUP)
    else:
        os.kill(worker_of(server), signal.SIGKILL)
    try:
        wait_until(lambda: "takes the place of process" in server.log(), 60)
        assert answer(server) == 2.0
        assert "ImportError" not in server.log()
        wait_until(lambda: is_gone(server.process.pid), 60)
    finally:
        for new in processes_at(server.port) - {server.process.pid}:
            os.kill(new, signal.SIGTERM)
    wait_until(lambda: all(map(is_gone, processes_at(server.port))), 60)


def processes_at(port: int) -> set[int]:
    """The processes whose command line names the port."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(port).encode() in file.read_bytes().split(b"\0"):
                found.add(int(file.parent.name))
    return found


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, lambda file: file.chmod(0o644), lambda file: file.write_text("")],
    ids=["deleted", "readable", "emptied"],
)
def test_a_token_that_is_gone_or_spoilt_is_there_again_and_the_server_is_administered(
    start_server, models, spoil
):
    server = start_server(models)
    token = find_token(server.port)
    spoil(token_files(server.port)[0])
    wait_until(lambda: find_token(server.port) == token, 10)
    assert server.get("/api/admin/models").status_code == 200


def test_a_token_that_has_no_place_at_the_start_gets_one_as_soon_as_there_is_room(
    start_server, models, tmp_path, monkeypatch
):
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "dogsnap").touch()  # in the place of the folder
        monkeypatch.setenv(name, str(folder))
    environ = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")}
    server = start_server(models, "--switch-log", "off", environ=environ)
    assert "nobody can administer this server until its token can be written" in server.log()
    assert answer(server) == 2.0
    (tmp_path / "XDG_STATE_HOME" / "dogsnap").unlink()
    wait_until(lambda: find_token(server.port), 10)
    assert server.get("/api/admin/models").status_code == 200


def test_a_worker_is_restarted_by_sighup_and_tried_again_until_it_can_start(
    start_server, models, tmp_path
):
    config = tmp_path / "models.config"
    good = f'model_config_list {{ config {{ name: "half" base_path: "{models / "half"}" }} }}'
    config.write_text(good)
    server = start_server(models, "--model-config-file", config, "--drain-seconds", "1")
    worker = worker_of(server)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: worker not in children(server.process.pid))
    assert answer(server) == 2.0
    config.write_text("model_config_list { what")
    os.kill(worker_of(server), signal.SIGKILL)
    wait_until(lambda: "the server cannot start" in server.log())
    config.write_text(good)
    assert answer(server) == 2.0
