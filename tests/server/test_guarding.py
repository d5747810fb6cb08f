"""A guarded switch is undone when its version fails, by whichever server, and the log says why."""

import json
import os
import random
import re
import signal
import statistics
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from dogsnap.routing.choices import Change
from dogsnap.routing.chosen_versions import MOST_SWITCHES, ChosenVersions
from dogsnap.routing.sequential_test import LEAST_PIECES
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.store_opening import open_store
from dogsnap.routing.switch_log import Who
from dogsnap.serving.inference.guard import NOTES, Guard
from dogsnap.serving.metrics import Metrics, RequestRecord
from dogsnap.serving.tensors.signatures import ServableId
from support.command_line import dogsnap
from support.process_readings import worker_of
from support.redis_server import RedisServer, needs_redis
from support.refusals import assert_refused
from support.tiny_models import half_of_positive, half_plus, sleeper
from support.waiting import answers, wait_until

PREDICT = "/v1/models/half:predict"
PER_SECOND = 40
BAD = -1.0  # the value at which version 2 fails


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    half_plus(1, folder / "half" / "1")
    half_of_positive(folder / "half" / "2")
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


def undone(*servers) -> int:
    """How often these servers have undone a switch."""
    pages = "".join(server.get("/metrics").text for server in servers)
    counts = re.findall(r"^dogsnap_guard_undone_total\{.*\} (\S+)$", pages, re.M)
    return sum(map(int, map(float, counts)))


def ask_until_undone(servers, most: int) -> int:
    """How many requests failed until the guard had undone the split."""
    failed = 0
    for number in range(most):
        server = servers[number % len(servers)]
        failed += ask(server, number) != 200
        if number % 20 == 0 and newest(servers[0])["by"]["name"] == "guard":
            return failed
    wait_until(lambda: newest(servers[0])["by"]["name"] == "guard", 60)
    return failed


def test_a_version_that_fails_is_undone_and_the_log_metrics_and_list_say_why(
    start_server, models, tmp_path
):
    server = start(start_server, models, tmp_path)
    assert split(server).json()["switch"]["guarded"]
    assert ask_until_undone([server], 2000) <= 20
    undo = newest(server)
    assert undo["undoes"] == 2
    assert undo["reason"].startswith("version 2 does worse than version 1: ")
    assert "requests failed (version 1: 0 of" in undo["text"]
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
    wait_until(lambda: "does as well as version 1" in requests(), 60)
    time.sleep(2)  # the counts are written once a second
    before = requests()
    os.kill(worker_of(server), signal.SIGKILL)
    wait_until(lambda: answers(f"{server.url}/readyz"), 60)
    time.sleep(3)
    assert requests() == before


def test_a_guard_with_nothing_to_compare_with_is_refused(start_server, models, tmp_path):
    server = start(start_server, models, tmp_path)
    assert_refused(split(server, percent=100), 400, "nothing to compare with")
    new_label = server.post("/api/admin/models/half/labels/new", json={"version": 2, "guard": True})
    assert_refused(new_label, 400, "nothing to compare with")
    assert newest(server)["id"] == 1
    assert split(server).ok
    assert_refused(split(server, percent=0), 400, "nothing to compare with")
    assert newest(server)["id"] == 2


def test_a_split_that_is_there_gets_its_guard_by_making_it_again_and_counts_afresh(
    start_server, models, tmp_path
):
    server = start(start_server, models, tmp_path)
    assert split(server, guard=False).json()["switch"]["id"] == 2
    assert split(server, guard=False).json()["switch"] is None
    again = split(server).json()["switch"]
    assert (again["id"], again["guarded"]) == (3, True)
    wait_until(lambda: ask(server, 1) and notes(tmp_path), 60)
    assert split(server).json()["switch"]["id"] == 4
    wait_until(lambda: not notes(tmp_path), 10)  # those of switch 3
    ask_until_undone([server], 2000)
    assert newest(server)["text"].startswith("split of the default of half: 10 % to 2 -> none")


def test_a_guard_outlasts_any_number_of_switches_of_others_and_a_restart(
    start_server, models, tmp_path
):
    server = start(start_server, models, tmp_path)
    assert split(server).ok
    wait_until(lambda: ask(server, 1) and notes(tmp_path), 60)
    with closing(open_store(str(tmp_path / "switches.db"))) as store:
        others = ChosenVersions(store)
        for number in range(MOST_SWITCHES + 1):  # as by a script that keeps a label of its own
            change = Change("half", "label", "nightly", number or None, number + 1)
            others.switch(lambda change=change: [change], Who("script"))
        last = others.revision
    wait_until(lambda: newest(server)["id"] == last)
    time.sleep(2)  # the guard has looked
    assert [each["switch"] for each in guards(server)] == [2]
    server.stop()
    server = start_server(models, "--switch-log", str(tmp_path / "switches.db"))
    wait_until(lambda: guards(server))
    assert ask_until_undone([server], 2000) <= 20


def notes(tmp_path) -> dict[str, str]:
    with closing(open_store(str(tmp_path / "switches.db"))) as store:
        return store.notes(NOTES)


@pytest.mark.parametrize("path", ["default", "labels/stable"])
def test_a_move_is_undone_when_it_is_worse_than_its_hour_before(
    start_server, models, tmp_path, path
):
    """What a second server has counted before and since the move lies in the store."""
    server = start(start_server, models, tmp_path)
    assert server.post("/api/admin/models/half/labels/stable", json={"version": 1}).ok
    body = {"version": 2, "guard": True}
    moved = server.post(f"/api/admin/models/half/{path}", json=body).json()
    assert moved["switch"]["guarded"]

    def says(words: str) -> None:
        wait_until(lambda: words in str(server.get("/api/admin/models/half").json()), 60)

    says("of the hour before it took over there are 0 times 10 seconds")
    before = [(number, 0.0, 0.01) for number in range(LEAST_PIECES)]
    after = [(1000 + number, 0.15, 0.01) for number in range(10)]
    with closing(open_store(str(tmp_path / "switches.db"))) as store:
        name = f"{moved['switch']['id']}/second"
        store.note(NOTES, name, json.dumps([before, after[:1]]))
        says("so far: 15.0 % of the clients failed (version 1: 0.0 %)")
        store.note(NOTES, name, json.dumps([before, after]))
        wait_until(lambda: newest(server)["by"]["name"] == "guard", 60)
    undo = newest(server)
    assert (undo["undoes"], undo["to"]) == (moved["switch"]["id"], 1)
    assert undo["reason"] == (
        "version 2 does worse than version 1: 15.0 % of the clients failed (version 1: 0.0 %)"
    )
    assert undone(server) == 1
    wait_until(lambda: not notes(tmp_path), 60)


@pytest.mark.long
def test_a_move_to_a_version_that_fails_is_undone_within_two_minutes(
    start_server, models, tmp_path
):
    """As users see it: half an hour before (as another server's note), then real requests."""
    server = start(start_server, models, tmp_path)
    body = {"version": 2, "guard": True}
    moved = server.post("/api/admin/models/half/default", json=body).json()["switch"]
    before = [(number, 0.0, 0.01) for number in range(180)]
    with closing(open_store(str(tmp_path / "switches.db"))) as store:
        store.note(NOTES, f"{moved['id']}/second", json.dumps([before, []]))
    started = time.monotonic()
    for number in range(PER_SECOND * 120):
        time.sleep(max(0.0, started + number / PER_SECOND - time.monotonic()))
        ask(server, number)
        if number % 20 == 0 and newest(server)["by"]["name"] == "guard":
            break
    seconds = time.monotonic() - started
    print(f"undone after {seconds:.0f} s: {newest(server)['text']}")
    assert newest(server)["undoes"] == moved["id"]


def test_it_says_where_it_cannot_tell(start_server, models, tmp_path):
    server = start(start_server, models, tmp_path)
    arguments = ("split", "--to", "3", "--percent", "10", "--guard", "--model", "half")
    result = dogsnap("models", *arguments, "--url", server.url)
    assert result.exit_code == 0, result.output
    assert "(guarded)" in result.output

    def listed() -> str:
        return dogsnap("models", "list", "--url", server.url).output

    wait_until(
        lambda: "version 3 cannot be judged yet: it needs 10 requests and has 0" in listed(), 60
    )


def test_servers_with_one_store_judge_what_both_have_counted_and_one_of_them_acts(
    start_server, models, tmp_path
):
    first = start(start_server, models, tmp_path)
    second = start_server(models, "--switch-log", str(tmp_path / "switches.db"))
    assert split(first).ok
    wait_until(lambda: guards(second), 60)
    ask_until_undone([first, second], 2000)
    wait_until(lambda: newest(second)["by"]["name"] == "guard", 60)
    assert undone(first, second) == 1


def guards(server) -> list[dict]:
    return server.get("/api/admin/models/half").json()["model"]["guards"]


@needs_redis
def test_two_gateways_with_redis_guard_what_their_engine_answers(start_server, models, tmp_path):
    engine = start_server(models)
    with RedisServer(tmp_path) as redis_server:
        flags = (
            "--engine",
            f"grpc://127.0.0.1:{engine.grpc_port}",
            "--switch-log",
            redis_server.url,
        )
        gateways = [start_server(models, *flags) for _ in range(2)]
        assert gateways[0].post("/api/admin/models/half/default", json={"version": 1}).ok
        assert split(gateways[0]).ok
        wait_until(lambda: guards(gateways[1]), 60)
        assert ask_until_undone(gateways, 2000) <= 20
        wait_until(lambda: newest(gateways[1])["by"]["name"] == "guard", 60)
        undos = [each for each in log_of(gateways[1]) if each["by"]["name"] == "guard"]
        assert [undo["undoes"] for undo in undos] == [2]
        assert undone(*gateways) == 1
        with redis_server.client() as client:
            wait_until(lambda: not client.hgetall(f"dogsnap:{NOTES}"), 60)
        assert {ask(gateways[1], number) for number in range(50)} == {200}


def log_of(server) -> list[dict]:
    return server.get("/api/admin/switches").json()["switches"]


@pytest.mark.long
@pytest.mark.parametrize(("fault", "most_seconds"), [("fails", 60), ("slow", 120)])
@pytest.mark.parametrize("is_rollout", [False, True])
def test_at_forty_requests_a_second_a_worse_version_is_undone_in_a_split_of_five_percent(
    start_server, models, tmp_path, fault, most_seconds, is_rollout
):
    """It fails 15 % of its requests, or takes three times as long; 400 clients.

    The split may be the first of four steps of a rollout.
    """
    folder, value = models, 1.0
    if fault == "slow":
        folder, value = tmp_path / "models", 0.01
        for number, times in ((1, 1.0), (2, 3.0)):
            sleeper(folder / "half" / str(number), times)
    server = start(start_server, folder, tmp_path)
    if is_rollout:
        plan = {"version": 2, "steps": [5, 25, 50], "every": 600}
        assert server.post("/api/admin/models/half/rollout", json=plan).ok
    else:
        assert split(server, percent=5).ok
    started, harmed, generator = time.monotonic(), 0, random.Random(1)
    for number in range(PER_SECOND * most_seconds):
        time.sleep(max(0.0, started + number / PER_SECOND - time.monotonic()))
        is_bad = fault == "fails" and generator.random() < 0.15
        headers = {"X-Request-Key": f"client {generator.randrange(400)}"}
        body = {"instances": [BAD if is_bad else value]}
        harmed += server.post(PREDICT, json=body, headers=headers).status_code != 200
        if number % 20 == 0 and newest(server)["by"]["name"] == "guard":
            break
    seconds = time.monotonic() - started
    print(f"\n{fault}: undone after {seconds:.0f} s, {harmed} failed: {newest(server)['reason']}")
    assert newest(server)["by"]["name"] == "guard"
    assert seconds < most_seconds
    assert harmed <= 20
    if fault == "fails":  # for the slow one, `ask` would sleep for a second
        assert {ask(server, 7) for _ in range(100)} == {200}


@pytest.mark.long
@pytest.mark.parametrize("is_guarded", [False, True])
def test_counting_costs_a_hundredth_of_the_smallest_request(
    start_server, models, tmp_path, is_guarded
):
    chosen = ChosenVersions()
    repository = SimpleNamespace(chosen=chosen, default_version=lambda _: 1)
    guard = Guard(repository, None, Metrics())
    if is_guarded:
        change = Change("half", "split", "", None, {"version": 2, "share": 0.1})
        chosen.switch(lambda: [change], Who("x"), is_guarded=True)
    guard.follow()
    records = []
    for number in range(2000):
        spec = ModelSpec("half", sticky_key=f"client {number % 400}")
        records.append((spec, RequestRecord(ServableId("half", 1 + number % 2), 0.01)))
    server = start(start_server, models, tmp_path)

    def seconds_to_count() -> float:
        started = time.perf_counter()
        for spec, record in records:
            guard.record(spec, record, None)
        return (time.perf_counter() - started) / len(records)

    def seconds_to_ask(count: int = 400) -> float:
        with requests.Session() as session:
            started = time.perf_counter()
            for _ in range(count):
                session.post(server.url + PREDICT, json={"instances": [1.0]}).raise_for_status()
            return (time.perf_counter() - started) / count

    ratios = [seconds_to_count() / seconds_to_ask() for _ in range(5)]
    what = "guarded" if is_guarded else "not guarded"
    print(f"\ncounting ({what}) takes {100 * statistics.median(ratios):.2f} % of a small request")
    assert statistics.median(ratios) < 0.01
