"""A guarded split is undone when its version fails, by whichever server, and the log says why."""

import os
import signal
import time
from pathlib import Path

import pytest
import tensorflow as tf
from command_line import dogsnap
from process_readings import worker_of
from refusals import assert_refused
from tiny_models import half_plus, save, signature
from waiting import answers, wait_until

PREDICT = "/v1/models/half:predict"
BAD = -1.0  # the value at which version 2 fails


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    half_plus(1, folder / "half" / "1")

    def positive(x: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.assert_non_negative(x)]):
            return {"y": x / 2}

    numbers = tf.TensorSpec(None, tf.float32, "x")
    save(folder / "half" / "2", serving_default=signature(positive, numbers))
    half_plus(1, folder / "half" / "3")
    return folder


def split(server, version: int = 2, percent: float = 10, **fields):
    body = {"version": version, "percent": percent, "guard": True, **fields}
    return server.post("/api/admin/models/half/split", json=body)


def newest(server) -> dict:
    return server.get("/api/admin/switches").json()["switches"][0]


def ask(server, number: int, clients: int = 200) -> int:
    """The status of the request with this number, of which every seventh is bad for version 2."""
    value = BAD if number % 7 == 0 else 1.0
    headers = {"X-Request-Key": f"client {number % clients}"}
    return server.post(PREDICT, json={"instances": [value]}, headers=headers).status_code


def start(start_server, models, tmp_path, *flags):
    log = tmp_path / "switches.db"
    server = start_server(models, "--switch-log", str(log), *flags)
    assert server.post("/api/admin/models/half/default", json={"version": 1}).ok
    return server


def ask_until_undone(servers, most: int) -> int:
    """How many requests failed until the guard had undone the split."""
    failed = 0
    for number in range(most):
        server = servers[number % len(servers)]
        failed += ask(server, number) != 200
        if number % 20 == 0 and newest(servers[0])["by"]["name"] == "guard":
            return failed
    wait_until(lambda: newest(servers[0])["by"]["name"] == "guard", 10)
    return failed


def test_a_version_that_fails_is_undone_and_the_log_metrics_and_list_say_why(
    start_server, models, tmp_path
):
    server = start(start_server, models, tmp_path)
    assert split(server).json()["switch"]["guarded"]
    assert ask_until_undone([server], 2000) <= 20
    undo = newest(server)
    assert undo["undoes"] == 2
    assert "requests fail" in undo["reason"]
    assert "before 0.0 % of" in undo["text"]
    metric = 'dogsnap_guard_undone_total{label="",model="half",version="2"} 1.0'
    assert metric in server.get("/metrics").text
    assert {ask(server, number) for number in range(200)} == {200}


def test_counts_outlast_kill_9_and_those_of_other_servers_are_added(start_server, models, tmp_path):
    server = start(start_server, models, tmp_path)
    assert split(server, version=3).ok

    def requests() -> str:
        (found,) = server.get("/api/admin/models/half").json()["model"]["guards"]
        return found["text"]

    for number in range(200):
        ask(server, number)
    wait_until(lambda: "content" in requests(), 10)
    time.sleep(2)  # the counts are written once a second
    before = requests()
    os.kill(worker_of(server), signal.SIGKILL)
    wait_until(lambda: answers(f"{server.url}/readyz"), 60)
    time.sleep(3)
    assert requests() == before


def test_a_guard_with_nothing_to_compare_with_is_refused(start_server, models, tmp_path):
    server = start(start_server, models, tmp_path)
    for percent in (0, 100):
        assert_refused(split(server, percent=percent), 400, "nothing to compare with")
    assert newest(server)["id"] == 1


def test_it_says_where_it_cannot_tell(start_server, models, tmp_path):
    server = start(start_server, models, tmp_path)
    arguments = ("split", "--to", "3", "--percent", "10", "--guard", "--model", "half")
    result = dogsnap("models", *arguments, "--url", server.url)
    assert result.exit_code == 0, result.output
    assert "(guarded)" in result.output

    def listed() -> str:
        return dogsnap("models", "list", "--url", server.url).output

    wait_until(lambda: "too few requests" in listed(), 10)


def test_servers_with_one_store_judge_what_both_have_counted(start_server, models, tmp_path):
    first = start(start_server, models, tmp_path)
    second = start_server(models, "--switch-log", str(tmp_path / "switches.db"))
    assert split(first).ok
    time.sleep(1)  # until the second server follows
    ask_until_undone([first, second], 2000)
    wait_until(lambda: newest(second)["by"]["name"] == "guard", 5)
    undone = [
        server.get("/metrics").text.count("dogsnap_guard_undone_total{")
        for server in (first, second)
    ]
    assert sum(undone) == 1
