"""A rollout grows by steps while its guard is content, one switch a step, whatever is killed meanwhile."""

import itertools
import os
import signal
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from support.command_line import dogsnap, output_of, refused
from support.process_readings import worker_of
from support.redis_server import RedisServer, needs_redis
from support.refusals import assert_refused
from support.tiny_models import half_of_positive, half_plus
from support.waiting import answers, wait_until

pytestmark = pytest.mark.early

STABLE = "/v1/models/half/labels/stable:predict"
STEPS = "30,60"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """Versions 1 to 3 of half; version 2 fails for negative numbers."""
    folder = tmp_path_factory.mktemp("models")
    half_plus(1, folder / "half" / "1")
    half_of_positive(folder / "half" / "2")
    half_plus(3, folder / "half" / "3")
    return folder


@pytest.fixture(scope="module")
def server(start_server, models):
    server = start_server(models)
    return server


@pytest.fixture(autouse=True)
def label(request):
    """Label stable at version 1, and no rollout, before each test of the server of all."""
    if "server" not in request.fixturenames:
        return
    server = request.getfixturevalue("server")
    admin(server, "labels/stable", version=3)
    admin(server, "labels/stable", version=1).raise_for_status()


def admin(server, path: str, **fields) -> requests.Response:
    return server.post(f"/api/admin/models/half/{path}", json=fields)


def rollout(server, version: int = 3, **fields) -> requests.Response:
    plan = {"label": "stable", "steps": [30, 60], "every": 1, "requests": 20}
    return admin(server, "rollout", version=version, **{**plan, **fields})


def ask(server, value: float = 2.0, path: str = STABLE) -> int:
    headers = {"X-Request-Key": f"client {next(NUMBERS) % 100}"}
    return server.post(path, json={"instances": [value]}, headers=headers).status_code


def described(server) -> dict:
    return server.get("/api/admin/models/half").json()["model"]


def switches(server) -> list[dict]:
    return server.get("/api/admin/switches").json()["switches"]


def ask_until(server, condition, most: int = 20000) -> int:
    """How many requests failed until the condition held."""
    failed = 0
    for number in range(most):
        failed += ask(server) != 200
        if number % 20 == 0 and condition():
            return failed
    raise AssertionError(switches(server)[:3], described(server)["rollouts"])


def steps_of(server) -> list[int]:
    return [rollout["step"] for rollout in described(server)["rollouts"]]


def has_taken_over(server) -> bool:
    return not described(server)["rollouts"]


def test_each_step_is_a_switch_of_the_rollout_and_the_last_one_moves_the_label(server):
    arguments = ("stable", "3", "--steps", STEPS, "--every", "1s", "--requests", "20")
    output = output_of(dogsnap("models", "rollout", *arguments, "--url", server.url))
    assert "split of label stable of half: none -> 30 % to 3" in output
    assert "none -> to 3, step 1 of 3 (30 %, then 60, 100) (guarded)" in output
    assert ask_until(server, lambda: has_taken_over(server)) == 0
    last, second, first, *_ = switches(server)
    assert (last["kind"], last["to"], last["by"]["name"]) == ("label", 3, "rollout")
    assert second["to"] == {"version": 3, "share": 0.6}
    assert second["by"]["name"] == "rollout"
    assert first["by"]["name"] != "rollout"
    assert described(server)["labels"]["stable"] == 3
    assert not described(server)["splits"]


def test_a_step_without_enough_requests_waits_and_says_so(server):
    assert rollout(server, every=1, requests=1000).ok

    def listed() -> str:
        return output_of(dogsnap("models", "list", "--url", server.url))

    wait_until(
        lambda: "waits: version 3 cannot be judged yet: it needs 10 requests and has 0" in listed(),
        60,
    )
    for _ in range(200):
        ask(server)
    wait_until(lambda: "requests in this step, 1000 are asked for" in listed(), 60)
    assert "rollout of label stable to 3, step 1 of 3 (30 %, then 60, 100)" in listed()


def test_the_guard_ends_a_rollout_to_a_version_that_is_worse(server):
    assert rollout(server, version=2, every=600).ok
    for number in range(2000):
        ask(server, -1.0 if number % 5 == 0 else 2.0)
        if number % 20 == 0 and has_taken_over(server):
            break
    newest = switches(server)[0]
    assert newest["by"]["name"] == "guard"
    assert "rollout of label stable of half: to 2, step 1" in newest["text"]
    assert described(server)["splits"] == described(server)["rollouts"] == []
    assert {ask(server, -1.0) for _ in range(100)} == {200}


def test_it_can_be_paused_resumed_and_ended(server):
    command = ("models", "rollout", "stable", "--url", server.url)
    assert "has no rollout" in refused(dogsnap(*command, "--pause"))
    assert rollout(server).ok
    assert "paused" in output_of(dogsnap(*command, "--pause"))
    for _ in range(200):
        ask(server)
    wait_until(lambda: "does as well as" in described(server)["guards"][0]["text"], 60)
    (waiting,) = described(server)["rollouts"]
    assert (waiting["step"], waiting["is_paused"]) == (0, True)
    assert "nothing to change" in output_of(dogsnap(*command, "--pause"))
    assert "paused -> to 3, step 1 of 3" in output_of(dogsnap(*command, "--resume"))
    ask_until(server, lambda: described(server)["rollouts"][0]["step"] == 1)
    assert "60 % to 3 -> none" in output_of(dogsnap(*command, "--end"))
    assert described(server)["labels"]["stable"] == 1
    assert described(server)["splits"] == []


def test_an_undone_pause_leaves_the_step_as_it_was(server):
    def running() -> list[dict]:
        """The rollouts without their texts, which change when the watcher looks at them."""
        found = described(server)["rollouts"]
        return [{name: each[name] for name in each if name != "text"} for each in found]

    assert rollout(server, every=600).ok
    before = running()
    command = ("models", "rollout", "stable", "--pause", "--url", server.url)
    output_of(dogsnap(*command))
    assert running() != before
    output_of(dogsnap("models", "undo", "--url", server.url))
    assert running() == before


def test_an_undone_step_stays_undone_and_a_switch_by_hand_ends_the_rollout(server):
    assert rollout(server).ok
    ask_until(server, lambda: described(server)["rollouts"][0]["step"] == 1)
    assert "60 % to 3 -> 30 % to 3" in output_of(dogsnap("models", "undo", "--url", server.url))
    (back,) = described(server)["rollouts"]
    assert (back["step"], back["is_paused"]) == (0, True)
    assert admin(server, "split", label="stable", version=3, percent=5).ok
    assert described(server)["rollouts"] == []


def test_it_begins_at_its_time_and_keeps_its_version_loaded_until_then(server):
    begin = datetime.now(UTC) + timedelta(seconds=6)
    planned = rollout(server, at=begin.isoformat()).json()
    assert planned["switch"]["kind"] == "rollout"
    assert "to 3 by 30, 60, 100 % from " in planned["switch"]["text"]
    unloaded = admin(server, "versions/3/unload")
    assert_refused(unloaded, 400, "rollout of stable; move that first")
    wait_until(lambda: described(server)["splits"], 60)
    assert datetime.now(UTC) >= begin
    assert switches(server)[0]["by"]["name"] == "rollout"


def test_the_default_can_be_rolled_out_and_a_dry_run_changes_nothing(server):
    admin(server, "default", version=1)
    command = ("models", "rollout", "3", "--steps", "50", "--every", "1s", "--url", server.url)
    before = switches(server)[0]["id"]
    would = output_of(dogsnap(*command, "--dry-run"))
    assert "would change split of the default of half: none -> 50 % to 3" in would
    assert "nothing was changed" in would
    assert switches(server)[0]["id"] == before
    output_of(dogsnap(*command))
    assert described(server)["splits"] == [{"label": "", "version": 3, "percent": 50}]
    output_of(dogsnap("models", "rollout", "--end", "--url", server.url))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"steps": [50, 25]}, "the steps are 50, 25 percent; expected"),
        ({"steps": [0, 50]}, "the steps are 0, 50 percent"),
        ({"steps": [50, 101]}, "the steps are 50, 101 percent"),
        ({"steps": [5, 5]}, "each above the one before"),
        ({"steps": ["5"]}, "expected a list of numbers"),
        ({"steps": []}, "steps is []; expected a list of numbers, at least one"),
        ({"every": 1e12}, "expected the seconds of each step, 1 to 1000000000"),
        ({"every": 0}, "every is 0; expected the seconds of each step, 1 to 1000000000"),
        ({"at": "2020-01-01T00:00:00Z"}, "which is over"),
        ({"at": "2030-01-01T00:00:00"}, "expected a time in ISO 8601 with its zone"),
        ({"at": "tomorrow"}, "expected a time in ISO 8601 with its zone"),
        ({"at": "9999-12-31T23:59:59-12:00"}, "expected a time in ISO 8601 with its zone"),
        ({"at": "9000-01-01T00:00:00Z"}, "expected a time in ISO 8601 with its zone"),
        ({"version": 9}, "version 9 of half is not available"),
        ({"version": None}, "version is None; expected a whole number"),
        ({"version": 1}, "label stable of half is at version 1 already"),
        ({"requests": -1}, "requests is -1; expected the requests of each step, at least 0"),
        ({"soon": True}, "unknown: soon"),
    ],
)
def test_a_wrong_plan_is_refused_with_a_sentence_and_changes_nothing(server, fields, sentence):
    before = switches(server)[0]["id"]
    assert_refused(rollout(server, **fields), 400, sentence)
    assert switches(server)[0]["id"] == before


def test_a_second_rollout_and_one_of_no_label_are_refused(server):
    assert rollout(server).ok
    assert_refused(rollout(server, version=2), 400, "runs already: to 3, step 1 of 3")
    assert_refused(rollout(server, label="none"), 404, "has no label none to split")
    for wrong in (["--steps", "5%"], ["--steps", "nan"], ["--every", "10"], ["--at", "soon"]):
        command = ("models", "rollout", "stable", "3", "--url", server.url)
        refused(dogsnap(*command, *wrong), "expected")
    refused(dogsnap("models", "rollout", "stable", "3", "--url", server.url), "--steps")


def test_killed_at_any_step_it_goes_on(start_server, models, tmp_path):
    server = start_server(models, "--switch-log", str(tmp_path / "switches.db"))
    assert admin(server, "labels/stable", version=1).ok
    assert rollout(server, steps=[40, 70]).ok
    for step in (0, 1):
        ask_until(server, lambda step=step: steps_of(server) != [step - 1])
        os.kill(worker_of(server), signal.SIGKILL)
        wait_until(lambda: answers(f"{server.url}/readyz"), 60)
    assert ask_until(server, lambda: has_taken_over(server)) == 0
    made = [switch for switch in switches(server) if switch["by"]["name"] == "rollout"]
    assert [switch["kind"] for switch in made] == ["label", "split"]


@needs_redis
def test_of_two_gateways_one_makes_each_step_and_killing_one_or_redis_stops_nothing(
    start_server, models, tmp_path
):
    engine = start_server(models)
    with RedisServer(tmp_path) as redis_server:
        flags = (
            "--engine",
            f"grpc://127.0.0.1:{engine.grpc_port}",
            "--switch-log",
            redis_server.url,
        )
        first, second = [start_server(models, *flags) for _ in range(2)]
        assert admin(first, "labels/stable", version=1).ok
        assert rollout(first).ok
        wait_until(lambda: described(second)["rollouts"], 60)
        statuses, is_over = [], threading.Event()

        def load() -> None:
            while not is_over.wait(0.02):
                statuses.append(ask(second))

        thread = threading.Thread(target=load)
        thread.start()
        try:
            wait_until(lambda: steps_of(second) != [0], 60)
            redis_server.kill()
            wait_until(lambda: "waits" in described(second)["guards"][0]["text"], 60)
            redis_server.start()
            os.kill(worker_of(first), signal.SIGKILL)
            wait_until(lambda: has_taken_over(second), 60)
        finally:
            is_over.set()
            thread.join()
        made = [each for each in switches(second) if each["by"]["name"] == "rollout"]
        assert [switch["kind"] for switch in made] == ["label", "split"]
        assert set(statuses) == {200}
