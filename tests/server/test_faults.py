"""What goes wrong around a server: bad models, a full disk, a clock that jumps, files that run out, a start that fails."""

import concurrent.futures
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
import requests
from support.command_line import dogsnap, refused
from support.half_models import PATH, answer, switched
from support.ports import free_port
from support.process_readings import held, worker_of
from support.real_model import ROOT, built_models
from support.refusals import assert_refused
from support.small_disk import fill, small_disk
from support.waiting import answers, wait_until

pytestmark = pytest.mark.early

NETWORK = "assets.extra/runtime/network.bin"

HOUR = 3600
POLL_SECONDS = 0.15
RETRIES = {"dogsnap.serving.repository.local_repository.LocalRepository.retry_seconds": 0.3}


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


def test_whatever_becomes_of_its_folder_a_loaded_model_answers(
    start_server, half_models, made_half, models
):
    server = start_server(models, "--poll-seconds", str(POLL_SECONDS), constants=RETRIES)
    for command in SPOILED:
        subprocess.run(command, shell=True, cwd=models, check=True)
        end = time.monotonic() + 4 * POLL_SECONDS
        while time.monotonic() < end:
            assert answer(server) == 2.0, command
            time.sleep(0.02)
        assert server.get("/readyz").status_code == 200, command
        subprocess.run("rm -rf half", shell=True, cwd=models, check=True)
        shutil.copytree(half_models / "half" / "1", models / "half" / "1")
    assert "half version 2 failed to load" in server.log()
    assert "Traceback" not in server.log()
    shutil.copytree(made_half, models / "half" / "3")
    wait_until(lambda: "loaded half version 3" in server.log())
    assert answer(server, path="/v1/models/half/versions/3:predict") == 3.0


# Root may read everything; without these two rights it is held to a file's permissions like anybody.
ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@pytest.mark.skipif(
    bool(ORDINARY) and not shutil.which("setpriv"),
    reason="setpriv, by which root loses rights, is missing",
)
def test_a_model_folder_that_may_no_longer_be_read_goes_on_answering(start_server, models):
    server = start_server(models, "--poll-seconds", "0.2", prefix=ORDINARY)
    (models / "half").chmod(0)
    try:
        wait_until(lambda: "Permission denied" in server.log())
        assert answer(server) == 2.0
        time.sleep(0.5)
        assert (
            server.log().count(
                "scanning the model folders failed; the loaded versions go on answering"
            )
            == 1
        )
    finally:
        (models / "half").chmod(0o755)


def test_beside_a_folder_that_cannot_be_read_what_is_loaded_is_chosen_and_undone(
    start_server, models, made_half
):
    shutil.copytree(made_half, models / "half" / "2")
    server = start_server(models, "--poll-seconds", "0.2")
    for version in (1, 2):
        switched(server, "stable", version).raise_for_status()
    shutil.rmtree(models / "half")
    (models / "half").symlink_to("half")
    path = "/v1/models/half/labels/stable:predict"
    assert (switched(server, "stable", 1).status_code, answer(server, path=path)) == (200, 2.0)
    server.post("/api/admin/undo", json={}).raise_for_status()
    assert answer(server, path=path) == 3.0
    why = "half cannot be read: Too many levels of symbolic links"
    split = {"version": 3, "percent": 5}
    assert_refused(server.post("/api/admin/models/half/split", json=split), 400, why)
    assert_refused(server.post("/api/admin/models/half/versions/3/load", json={}), 400, why)


@pytest.mark.skipif(
    bool(ORDINARY) and not shutil.which("setpriv"),
    reason="setpriv, by which root loses rights, is missing",
)
def test_what_cannot_be_read_costs_itself_alone_at_every_level(start_server, models, made_half):
    odd = os.fsdecode(b"odd\xff")
    shutil.copytree(made_half, models / odd / "1")
    (models / "linked").mkdir()
    (models / "linked" / "1").symlink_to(models / odd / "1")
    (models / "circle").symlink_to("circle")
    (models / "half" / "9").symlink_to("9")
    closed = [models / "lost+found", Path(shutil.copytree(made_half, models / "half" / "2"))]
    closed[0].mkdir()
    for folder in closed:
        folder.chmod(0)
    try:
        server = start_server(models, "--poll-seconds", "0.2", prefix=ORDINARY)
        assert answer(server) == 2.0
        assert answer(server, path="/v1/models/linked:predict") == 3.0
        shutil.copytree(made_half, models / "half" / "3")
        wait_until(lambda: "loaded half version 3" in server.log())
        log = server.log()
        for name in ("circle", "lost+found", r"odd\udcff", "half version 2"):
            assert len([line for line in log.splitlines() if name in line]) == 1, log
        status = server.get("/v1/models/half/versions/2").json()["model_version_status"][0]
        said = status["status"]["error_message"]
        assert said.endswith(
            "half/2 cannot be read: Permission denied; it is loaded once a scan finds it whole and "
            "readable"
        )
    finally:
        for folder in closed:
            folder.chmod(0o755)
    wait_until(lambda: "loaded half version 2" in server.log())


@pytest.mark.skipif(
    bool(ORDINARY) and not shutil.which("setpriv"),
    reason="setpriv, by which root loses rights, is missing",
)
def test_a_configured_model_whose_folder_cannot_be_read_is_missed_and_costs_no_other(
    start_server, models, made_half, tmp_path
):
    shutil.copytree(made_half, models / "closed" / "1")
    file = tmp_path / "models.config"
    lines = [
        f'config {{ name: "{name}" base_path: "{models}/{name}" }}' for name in ("closed", "half")
    ]
    file.write_text(f"model_config_list {{ {' '.join(lines)} }}")
    (models / "closed").chmod(0)
    try:
        flags = ("--model-config-file", str(file), "--poll-seconds", "0.2")
        server = start_server(models, *flags, prefix=ORDINARY, wait=False)
        wait_until(lambda: "not ready: no version available of: closed" in server.log())
        assert answer(server) == 2.0
        assert server.log().count("closed: [Errno 13] Permission denied") == 1
    finally:
        (models / "closed").chmod(0o755)
    wait_until(lambda: server.get("/readyz").status_code == 200)


DOGSNAP = str(Path(sys.executable).with_name("dogsnap"))


def serve(*flags: str) -> subprocess.CompletedProcess:
    """`dogsnap serve` where it is not expected to get far."""
    return subprocess.run(
        [DOGSNAP, "serve", *flags], capture_output=True, text=True, timeout=120, check=False
    )


def test_on_a_full_disk_it_serves_and_takes_switches_when_there_is_room(
    start_server, made_half, models, tmp_path
):
    shutil.copytree(made_half, models / "half" / "2")
    with small_disk(tmp_path / "disk", "256k") as disk:
        filler = fill(disk)
        flags = ("--switch-log", str(disk / "switches"), "--poll-seconds", "0.2")
        with start_server(models, *flags, environ={"TMPDIR": str(disk)}) as server:
            said = "cannot be written (database or disk is full); the switch was not made"
            assert_refused(switched(server, "stable", 1), 503, said)
            shutil.copytree(made_half, models / "half" / "3")
            wait_until(lambda: "loaded half version 3" in server.log())
            assert answer(server, path="/v1/models/half/versions/3:predict") == 3.0
            filler.unlink()
            assert (
                switched(server, "stable", 1).json()["switch"]["id"] == 1
            )  # the refused one is not in the log
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


def test_kill_9_under_a_stream_of_switches_loses_none_that_was_acknowledged(
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
        wait_until(lambda: answers(f"{server.url}/readyz"), 60)
    kept = server.get("/api/admin/models/half").json()["model"]["labels"]
    assert set(acknowledged) <= set(kept)
    assert len(set(acknowledged.values())) == len(acknowledged)
    unanswered = len(kept) - len(acknowledged)
    print(
        f"kill -9 under switches: 0 of {len(acknowledged)} acknowledged ones lost, {unanswered} unanswered"
    )


def test_with_its_log_on_a_full_disk_it_starts_and_answers(models):
    port = free_port()
    flags = ["--models", str(models), "--access-log", "--port", str(port), "--grpc-port", "0"]
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen([DOGSNAP, "serve", *flags], stdout=full, stderr=full)
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/readyz"))
        response = requests.post(
            f"http://127.0.0.1:{port}{PATH}", json={"instances": [2.0]}, timeout=60
        )
        assert response.json() == {"predictions": [2.0]}
    finally:
        process.terminate()
    assert process.wait(60) == 0


@pytest.mark.parametrize(("flag", "protocol"), [("--port", "HTTP"), ("--grpc-port", "gRPC")])
def test_a_port_in_use_ends_the_start_with_a_sentence(flag, protocol, models):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        ports = {"--port": str(free_port()), "--grpc-port": "0", flag: str(number)}
        done = serve("--models", str(models), *[part for pair in ports.items() for part in pair])
    assert done.returncode == 1
    said = (
        f"Error: cannot listen for {protocol} on 127.0.0.1 port {number}: Address already in use; "
    )
    said += f"choose another {flag} (DOGSNAP_{flag[2:].replace('-', '_').upper()})"
    assert done.stderr.strip().splitlines()[-1].startswith(said)
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_clock_that_jumps_by_hours_loses_no_request(
    start_server, sleeper, made_half, models, tmp_path
):
    shutil.copytree(sleeper / "sleeper" / "1", models / "sleeper" / "1")
    clock = tmp_path / "clock"
    clock.write_text("0")
    shifted = {
        "PYTHONPATH": str(Path(__file__).parents[1] / "support" / "shifted_clock"),
        "CLOCK_FILE": str(clock),
    }
    server = start_server(
        models, "--poll-seconds", "0.2", "--deadline-ms", "10000", environ=shifted
    )
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
        shutil.copytree(made_half, models / "half" / "2")
        wait_until(lambda: "loaded half version 2" in server.log(), 60)
        assert worker_of(server) == worker


@pytest.mark.skipif(
    not shutil.which("prlimit"), reason="prlimit, which takes files away from a server, is missing"
)
def test_with_its_files_exhausted_it_answers_or_refuses_and_is_as_before_afterwards(
    start_server, made_half, models
):
    small = ("--run-threads", "2", "--queue-size", "4", "--poll-seconds", "0.2")
    server = start_server(models, *small, prefix=("prlimit", "--nofile=220:220"))
    worker = worker_of(server)
    with requests.Session() as session, ExitStack() as crowd:
        assert answer(server, session) == 2.0
        for _ in range(300):
            one = crowd.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", server.port))
        statuses = []
        for _ in range(20):
            response = session.post(f"{server.url}{PATH}", json={"instances": [2.0]}, timeout=60)
            statuses.append(response.status_code)
            time.sleep(0.1)
        assert 200 in statuses
    wait_until(lambda: answers(f"{server.url}/readyz"))
    assert answer(server) == 2.0
    shutil.copytree(made_half, models / "half" / "2")
    wait_until(lambda: "loaded half version 2" in server.log())
    assert worker_of(server) == worker
    assert "Traceback" not in server.log()


def test_a_wrong_model_platform_and_a_wrong_settings_file_end_the_start_with_a_sentence(tmp_path):
    file = tmp_path / "models.config"
    file.write_text(
        "model_config_list { config { name: 'a' base_path: '/a' model_platform: 'torch' } }"
    )
    done = serve("--model-config-file", str(file), "--port", str(free_port()), "--grpc-port", "0")
    starting, *_, reason = done.stderr.splitlines()
    assert (done.returncode, "loading models" in starting) == (4, True)
    assert "the server cannot start: expected the model_platform tensorflow, received" in reason
    file.write_text("max_body_mb=3\n")
    said = "expected lines of the form DOGSNAP_NAME=value, received 'max_body_mb'"
    assert said in refused(dogsnap("serve", "--settings-file", file))


def test_a_version_that_would_not_fit_into_memory_is_refused_with_both_figures_and_loads_when_it_does(
    start_server, models
):
    server = start_server(models, "--poll-seconds", "0.2", constants=RETRIES)
    large = models / "half" / "2"
    shutil.copytree(models / "half" / "1", large)
    with (large / "variables" / "sparse").open("wb") as file:
        file.truncate(10**12)

    def version_2() -> dict:
        versions = server.get("/api/admin/models/half").json()["model"]["versions"]
        return next((found for found in versions if found["version"] == 2), {"error": ""})

    wait_until(lambda: version_2()["error"], 60)
    assert version_2()["state"] == "FAILED"
    needs = r"loading it needs about 2,384,1\d\d MB of memory \(2.5 times its files\), [\d,]+ MB are free"
    assert re.match(needs, version_2()["error"])
    assert answer(server) == 2.0
    (large / "variables" / "sparse").unlink()
    wait_until(lambda: version_2().get("state") == "AVAILABLE", 60)


def test_a_network_whose_file_is_cut_short_in_its_folder_goes_on_answering(start_server, tmp_path):
    version = built_models() / "inception_v3" / "3"
    if not (version / NETWORK).is_file():
        pytest.skip("`make setup` has built no version 3: it runs in OpenVINO where that is faster")
    copied = shutil.copytree(version, tmp_path / "inception_v3" / "3")
    server = start_server(tmp_path, "--poll-seconds", "0")
    worker = worker_of(server)
    (copied / NETWORK).write_bytes(b"")
    answer = server.classify((ROOT / "docs" / "dog.jpg").read_bytes()).json()
    assert (answer["level"], worker_of(server)) == ("breed", worker)
