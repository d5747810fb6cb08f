"""Switching on one server, several with one Redis, and a gateway before several engines: real processes."""

import concurrent.futures
import math
import os
import shutil
import signal
import statistics
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from dogsnap.routing.choices import Choices
from dogsnap.routing.chosen_versions import FOLLOW_SECONDS, ChosenVersions
from dogsnap.routing.resolver import resolve
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.store_opening import open_store
from support.command_line import dogsnap
from support.grpc_client import connected
from support.grpc_contract import CLASSIFY_TASK, REGRESS_TASK, multi_inference
from support.half_models import PATH, answer
from support.process_readings import worker_of
from support.redis_server import RedisServer, needs_redis
from support.refusals import assert_refused
from support.tiny_models import half_plus, half_plus_two_of_examples
from support.waiting import answers, wait_until

pytestmark = pytest.mark.early

STABLE = "/v1/models/half/labels/stable:predict"
VERSION = "X-Dogsnap-Model-Version"
FIVE_COMMANDS = (
    "list",
    "label set stable 1",
    "split --label stable --to 2 --percent 10",
    "label move stable 2 --from 1",
    "undo",
)
# What they print, from the second on.
PRINTED = (
    "label stable of half: none -> 1 (switch 1)\n",
    "split of label stable of half: none -> 10 % to 2 (switch 2)\n",
    "label stable of half: 1 -> 2; split of label stable of half: 10 % to 2 -> none (switch 3)\n",
    "label stable of half: 2 -> 1; split of label stable of half: none -> 10 % to 2 (switch 4)\n",
)
SEEN_BY_ALL = 1.0  # seconds


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for number in (1, 2):
        half_plus(number, folder / "half" / str(number))
    return folder


@pytest.fixture
def redis_server(tmp_path):
    with RedisServer(tmp_path) as server:
        yield server


def target_of(*engines) -> str:
    return "grpc://" + ",".join(f"127.0.0.1:{engine.grpc_port}" for engine in engines)


def admin(server, path: str, **fields) -> requests.Response:
    return server.post(f"/api/admin/models/half/{path}", json=fields)


def label(server, version: int | None, name: str = "stable") -> requests.Response:
    return admin(server, f"labels/{name}", version=version)


def ask(server, path: str = STABLE, key: str = "", session=requests) -> int:
    """The number of the version that answered; what it computed is that version's."""
    response = session.post(
        server.url + path, json={"instances": [2.0]}, headers={"X-Request-Key": key}, timeout=60
    )
    assert response.status_code == 200, response.text
    version = int(response.headers[VERSION])
    assert response.json()["predictions"] == [1.0 + version]
    return version


@pytest.fixture
def one_server(start_server, models):
    return [start_server(models)]


@pytest.fixture
def two_servers(start_server, models, redis_server):
    return [start_server(models, "--switch-log", redis_server.url) for _ in range(2)]


@pytest.fixture
def gateway(start_server, models):
    engines = [start_server(models) for _ in range(3)]
    return [start_server(models, "--engine", target_of(*engines))]


@pytest.mark.parametrize(
    "fleet",
    ["one_server", pytest.param("two_servers", marks=needs_redis), "gateway"],
)
def test_the_five_commands_print_and_do_the_same_everywhere(fleet, request):
    first, *_, last = [*request.getfixturevalue(fleet)] * 2
    keys = [f"client {number}" for number in range(100)]

    def share_of_2() -> int:
        return sum(ask(last, key=key) == 2 for key in keys)

    effects = []
    for command, printed in zip(FIVE_COMMANDS, ("", *PRINTED), strict=True):
        result = dogsnap("models", *command.split(), "--url", first.url)
        assert (result.exit_code, printed in result.output) == (0, True), result.output
        if printed:
            time.sleep(SEEN_BY_ALL)
            effects.append(share_of_2())
    no_split, split, moved, undone = effects
    assert (no_split, moved, split == undone, 3 < split < 25) == (0, 100, True, True)
    listed = dogsnap("models", "list", "--url", last.url).output
    assert "stable" in listed
    assert "10 % of stable" in listed
    status = last.get("/v1/models/half/labels/stable").json()["model_version_status"]
    assert [version["version"] for version in status] == ["1"]


@needs_redis
def test_a_switch_is_seen_by_all_within_a_second_and_outlives_them(
    start_server, models, redis_server
):
    flags = ("--switch-log", redis_server.url)
    engine = start_server(models)
    servers = [start_server(models, *flags) for _ in range(2)]
    servers += [start_server(models, *flags, "--engine", target_of(engine)) for _ in range(2)]
    label(servers[0], 2).raise_for_status()
    for server in servers:
        wait_until(lambda server=server: server.post(STABLE, json={"instances": [2.0]}).ok)
    seconds = []
    for number in range(10):
        version = 1 + number % 2
        assert label(servers[number % 4], version).status_code == 200
        switched = time.monotonic()
        for server in servers:
            wait_until(lambda server=server, version=version: ask(server) == version, 5)
        seconds.append(time.monotonic() - switched)
    print(f"\na switch is seen by two servers and two gateways after at most {max(seconds):.2f} s")
    assert statistics.median(seconds) < SEEN_BY_ALL  # the worst is that of a busy machine
    (again,) = [start_server(models, *flags)]
    assert ask(again) == 2
    log = again.get("/api/admin/switches").json()["switches"]
    assert log[0]["id"] == 11


def test_what_was_chosen_answers_after_the_worker_and_the_server_were_killed_without_any_flag(
    start_server, models, tmp_path
):
    shutil.copytree(models, tmp_path / "models")
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    server = start_server(tmp_path / "models", environ=environ)
    label(server, 1, "live").raise_for_status()
    half_plus(5, tmp_path / "models" / "half" / "5")
    live, default = "/v1/models/half/labels/live:predict", PATH
    wait_until(lambda: 5 in versions_of(server))
    os.kill(worker_of(server), signal.SIGKILL)
    wait_until(lambda: answers(f"{server.url}/readyz"), 60)
    assert (ask(server, live), ask(server, default)) == (1, 2)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)
    again = start_server(tmp_path / "models", environ=environ)
    assert (ask(again, live), ask(again, default)) == (1, 2)


def versions_of(server) -> set[int]:
    versions = server.get("/api/admin/models/half").json()["model"]["versions"]
    return {each["version"] for each in versions if each["state"] == "AVAILABLE"}


def test_a_label_that_undo_brings_back_answers_where_its_version_is_not_there_yet(
    start_server, models, tmp_path
):
    shutil.copytree(models / "half" / "1", tmp_path / "models" / "half" / "1")
    flags = ("--switch-log", str(tmp_path / "switches"), "--poll-seconds", "0.2")
    first, second = (start_server(folder, *flags) for folder in (models, tmp_path / "models"))
    for version in (1, 2, None):
        assert label(first, version).ok
    assert first.post("/api/admin/undo", json={}).json()["switch"]["to"] == 2

    def known() -> list[int]:
        return [each["id"] for each in second.get("/api/admin/switches").json()["switches"]]

    wait_until(lambda: 4 in known())
    assert (ask(first), ask(second)) == (2, 1)
    shutil.copytree(models / "half" / "2", tmp_path / "models" / "half" / "2")
    wait_until(lambda: ask(second) == 2)


def test_off_forgets_and_the_list_says_so(start_server, models):
    server = start_server(models, "--switch-log", "off")
    label(server, 1).raise_for_status()
    listed = dogsnap("models", "list", "--url", server.url).output
    assert "switches are forgotten when the server stops (--switch-log off)" in listed


def test_a_version_is_chosen_when_every_engine_has_it_else_the_engine_is_named(
    start_server, models, tmp_path
):
    for name in "abc":
        shutil.copytree(models, tmp_path / name)
    engines = [start_server(tmp_path / name, "--poll-seconds", "0.2") for name in "abc"]
    gateway = start_server(models, "--engine", target_of(*engines))
    for name in "ab":
        half_plus(3, tmp_path / name / "half" / "3")
    wait_until(lambda: all(3 in versions_of(engine) for engine in engines[:2]))
    names = [f"127.0.0.1:{engine.grpc_port}" for engine in engines]
    for path, fields in (
        ("labels/stable", {"version": 3}),
        ("default", {"version": 3}),
        ("split", {"version": 3, "percent": 5}),
        ("shadow", {"version": 3}),
    ):
        refused = admin(gateway, path, **fields)
        assert_refused(refused, 400, f"the engine at {names[2]} lacks it")
        assert names[0] not in refused.text
    half_plus(3, tmp_path / "c" / "half" / "3")
    wait_until(lambda: label(gateway, 3).status_code == 200)
    assert ask(gateway) == 3
    engines[0].process.send_signal(signal.SIGKILL)
    os.kill(worker_of(engines[0]), signal.SIGKILL)
    assert_refused(label(gateway, 2), 400, f"the engine at {names[0]} does not answer")
    assert ask(gateway) == 3
    # The same engine comes back, and switches are taken again.
    back = start_server(tmp_path / "a", "--grpc-port", str(engines[0].grpc_port))
    wait_until(lambda: label(gateway, 2).status_code == 200)
    assert ask(gateway) == 2
    back.stop()
    assert gateway.post("/api/admin/undo", json={}).status_code == 200  # needs those that answer
    assert ask(gateway) == 3
    assert gateway.post("/api/admin/undo", json={}).status_code == 200
    assert gateway.get("/api/admin/models/half").json()["model"]["labels"] == {}


def test_what_nobody_chose_at_the_gateway_is_the_engines(start_server, models):
    engine = start_server(models)
    gateway = start_server(models, "--engine", target_of(engine))
    label(engine, 1, "engines").raise_for_status()
    engines = "/v1/models/half/labels/engines:predict"
    assert (ask(gateway, engines), ask(gateway, PATH)) == (1, 2)
    label(gateway, 2).raise_for_status()
    assert (ask(gateway, engines), ask(gateway, PATH), ask(gateway)) == (1, 2, 2)
    admin(gateway, "default", version=1).raise_for_status()
    assert (ask(gateway, PATH), ask(engine, PATH)) == (1, 2)
    (model,) = gateway.get("/api/models").json()["models"]
    assert (model["default_version"], model["labels"]) == (1, {"stable": 2})


@needs_redis
def test_while_redis_is_away_answers_go_on_switches_wait_and_a_server_that_starts_is_not_ready(
    start_server, models, redis_server
):
    flags = ("--switch-log", redis_server.url, "--poll-seconds", "0.2")
    server = start_server(models, *flags)
    label(server, 1).raise_for_status()
    redis_server.kill()
    late = start_server(models, *flags, wait=False)
    refused = label(server, 2)
    assert_refused(refused, 503, "Redis")
    assert "Retry-After" in refused.headers
    assert ask(server) == 1
    wait_until(lambda: server.get("/api/admin/models").json()["switches_refused"])
    listed = dogsnap("models", "list", "--url", server.url).output
    assert "switches are refused for now: Redis cannot be read" in listed
    wait_until(lambda: "what is chosen is not known" in text_of(late, "/readyz"), 60)
    assert str(redis_server.port) not in late.get("/readyz").text  # addresses are for the log
    assert late.post(STABLE, json={"instances": [2.0]}).status_code == 503
    redis_server.start()
    wait_until(lambda: label(server, 2).status_code == 200)
    wait_until(lambda: answers(f"{late.url}/readyz"), 60)
    assert (ask(server), ask(late)) == (2, 2)


def text_of(server, path: str) -> str:
    with suppress(requests.ConnectionError):
        return server.get(path).text
    return ""


class Load:
    """Clients that ask both gateways, and count failures, and mixtures of two values in an answer."""

    def __init__(self, servers, clients: int = 4):
        self.count, self.failed, self._stop = 0, [], threading.Event()
        self._servers = servers
        self._pool = concurrent.futures.ThreadPoolExecutor(clients)
        self._running = [self._pool.submit(self._ask, number) for number in range(clients)]

    def _ask(self, number: int) -> None:
        with requests.Session() as session:
            while not self._stop.is_set():
                server = self._servers[number % len(self._servers)]
                number += 1
                try:
                    ask(server, session=session)
                    self.count += 1
                except Exception as error:
                    self.failed.append((time.monotonic(), server, repr(error)))
                    time.sleep(0.05)

    def stop(self) -> None:
        self._stop.set()
        for running in self._running:
            running.result()


@needs_redis
@pytest.mark.long
def test_two_hundred_switches_on_two_gateways_lose_none_though_a_gateway_and_redis_are_killed(
    start_server, models, redis_server
):
    engines = [start_server(models) for _ in range(2)]
    flags = ("--switch-log", redis_server.url, "--engine", target_of(*engines))
    gateways = [start_server(models, *flags) for _ in range(2)]
    label(gateways[0], 1).raise_for_status()
    wait_until(lambda: gateways[1].post(STABLE, json={"instances": [2.0]}).ok)
    acknowledged: dict[int, str] = {}
    refused = []

    def administrate(gateway, name: str) -> None:
        made = 0
        while made < 100:
            try:
                response = label(gateway, 1 + made % 2, f"{name}{made}")
            except requests.RequestException:
                time.sleep(0.1)
                continue
            if response.status_code == 200:
                switch = response.json()["switch"]
                if switch:
                    acknowledged[switch["id"]] = switch["text"]
                made += 1
            else:
                refused.append(response.status_code)
                time.sleep(0.05)

    load = Load(gateways)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        people = [pool.submit(administrate, gateways[n], "ab"[n]) for n in (0, 1)]
        wait_until(lambda: len(acknowledged) > 50, 120)
        killed = time.monotonic()
        os.kill(worker_of(gateways[0]), signal.SIGKILL)
        wait_until(lambda: answers(f"{gateways[0].url}/readyz"), 120)
        back = time.monotonic()
        wait_until(lambda: len(acknowledged) > 120, 120)
        redis_server.kill()
        time.sleep(1)
        redis_server.start()
        for person in people:
            person.result()
    load.stop()
    elsewhere = [
        each for each in load.failed if each[1] is gateways[1] or not killed <= each[0] <= back
    ]
    print(
        f"\n{len(acknowledged)} switches, {load.count} requests, {len(load.failed)} failed at the "
        f"killed gateway, {len(elsewhere)} elsewhere, refusals {sorted(set(refused))}"
    )
    assert elsewhere == []
    assert set(refused) <= {409, 503}
    kept = redis_log(redis_server)
    assert acknowledged.keys() <= kept.keys()
    assert all(acknowledged[number] in kept[number] for number in acknowledged)


def redis_log(redis_server) -> dict[int, str]:
    from dogsnap.routing.redis_store import RedisStore
    from dogsnap.routing.switch_log import Switch

    rows = RedisStore(redis_server.url).read(0)
    return {number: str(Switch.from_text(number, text)) for number, text in rows}


@needs_redis
@pytest.mark.long
@pytest.mark.parametrize("trouble", ["kill", "pause"])
def test_without_redis_answers_are_as_fast_as_with_it(
    start_server, models, redis_server, tmp_path_factory, trouble
):
    """Two servers are asked in turns, so that what else runs slows both; then they change places."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as other_redis:
        stores = [redis_server, other_redis]
        servers = [start_server(models, "--switch-log", store.url) for store in stores]
        for server in servers:
            label(server, 1).raise_for_status()

        def slowdown(troubled: int) -> float:
            """How long the server without its Redis takes, over the other one."""
            getattr(stores[troubled], trouble)()
            time.sleep(2.5)  # it is noticed
            seconds = [0.0, 0.0]
            with requests.Session() as session:
                for number in range(1_000):
                    started = time.perf_counter()
                    ask(servers[number % 2], session=session)
                    seconds[number % 2] += time.perf_counter() - started
            stores[troubled].start() if trouble == "kill" else stores[troubled].go_on()
            wait_until(lambda: is_switched_again(servers[troubled]), 20)
            return seconds[troubled] / seconds[1 - troubled]

        ratios = [math.sqrt(slowdown(0) * slowdown(1)) for _ in range(7)]
        print(f"\nwithout Redis ({trouble}) over with it: {sorted(round(r, 3) for r in ratios)}")
        assert statistics.median(ratios) < 1.05
        assert answer(servers[0], path=STABLE) == 2.0


def is_switched_again(server) -> bool:
    return not server.get("/api/admin/models").json()["switches_refused"]


@needs_redis
@pytest.mark.long
@pytest.mark.parametrize("store", ["file", "redis"])
def test_following_the_store_costs_a_hundredth_of_the_time_at_most(redis_server, tmp_path, store):
    url = redis_server.url if store == "redis" else str(tmp_path / "switches.sqlite")
    chosen = ChosenVersions(open_store(url))
    chosen.follow()
    started = time.process_time()
    for _ in range(1_000):
        chosen.follow()
    share = (time.process_time() - started) / 1_000 / FOLLOW_SECONDS
    chosen.close()
    print(f"\nfollowing ({store}) takes {100 * share:.2f} % of a processor's time")
    assert share < 0.01


@pytest.mark.long
def test_routing_costs_a_hundredth_of_the_smallest_request(start_server, models):
    """The resolution of a split, which hashes the client's key, against a request of a model that adds two numbers."""
    values = {("label", "stable"): 1, ("split", "stable"): {"version": 2, "share": 0.1}}
    choices = Choices(values)
    spec = ModelSpec("half", label="stable", sticky_key="client 7")
    available = {1, 2}.__contains__

    def seconds_to_resolve(count: int = 20_000) -> float:
        started = time.perf_counter()
        for _ in range(count):
            resolve(choices, spec, available)
        return (time.perf_counter() - started) / count

    server = start_server(models)
    label(server, 1).raise_for_status()

    def seconds_to_ask(count: int = 400) -> float:
        with requests.Session() as session:
            started = time.perf_counter()
            for _ in range(count):
                ask(server, session=session)
            return (time.perf_counter() - started) / count

    ratios = [seconds_to_resolve() / seconds_to_ask() for _ in range(5)]
    print(f"\nrouting takes {100 * statistics.median(ratios):.2f} % of the smallest request")
    assert statistics.median(ratios) < 0.01


@needs_redis
@pytest.mark.parametrize("way", ["server", "gateway"])
def test_no_request_mixes_two_values_while_labels_move(start_server, redis_server, tmp_path, way):
    """A call of two inferences runs the network twice; another server moves the label meanwhile."""
    for number in ("1", "2"):
        half_plus_two_of_examples(tmp_path / "half_plus_two" / number)
    flags = ("--switch-log", redis_server.url)
    mover = start_server(tmp_path, *flags)
    if way == "gateway":
        flags = (*flags, "--engine", target_of(start_server(tmp_path)))
    asked = start_server(tmp_path, *flags)
    request = multi_inference(REGRESS_TASK, CLASSIFY_TASK)
    for task in request.tasks:
        task.model_spec.version_label = "stable"
    path, stop = "/api/admin/models/half_plus_two/labels/stable", threading.Event()
    mover.post(path, json={"version": 1}).raise_for_status()
    labels = "/v1/models/half_plus_two/labels/stable/metadata"
    wait_until(lambda: asked.get(labels).ok)

    def call() -> set[tuple[int, ...]]:
        seen = set()
        with connected(asked.grpc_port) as client:
            while not stop.is_set():
                results = client.prediction.MultiInference(request, 60).results
                seen.add(tuple(each.model_spec.version.value for each in results))
        return seen

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call) for _ in range(4)]
        for number in range(12):
            mover.post(path, json={"version": 1 + number % 2}).raise_for_status()
            time.sleep(0.4)
        stop.set()
        seen = set().union(*(each.result() for each in calls))
    assert seen == {(1, 1), (2, 2)}
