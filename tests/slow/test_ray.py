"""`dogsnap deploy ray` on a real Ray cluster of two nodes, behind the gateway: the same answers as our own server's,
rollouts, switching, a node that dies.
"""

import base64
import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from support import contract_table, exported, tiny_models
from support.command_line import dogsnap
from support.grpc_client import SECONDS, Client, connected, predict_request, values
from support.grpc_contract import CALLS, outcome
from support.ports import free_port
from support.ray_cluster import RayCluster
from support.waiting import wait_until
from test_fleet import FIVE_COMMANDS, PRINTED, ask, versions_of

pytestmark = pytest.mark.ray
# A client's pause before its next request: two cores run the clients, the proxies and both nodes.
THINK_SECONDS = 0.05
# Until a dead node's replicas run again elsewhere, under load: Ray notices its death, and starts them side by side.
STARTS_TO_RECOVER = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    pytest.importorskip("ray", reason="Ray is missing: `make test-ray` installs it")
    cluster = RayCluster([free_port() for _ in range(4)])
    yield cluster
    cluster.stop()


def deployed(cluster: RayCluster, models: Path | str, *flags: str) -> str:
    done = cluster.deploy(models, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def start_gateway(start_server):
    """Starts a gateway before both proxies."""

    def start(cluster: RayCluster, models: Path, *flags: str):
        hosts = ",".join(f"127.0.0.1:{port}" for port in cluster.grpc_ports)
        return start_server(models, *flags, "--engine", f"ray://{hosts}")

    return start


# -- the contract ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def contract(cluster, start_gateway, tmp_path_factory) -> Iterator[Client]:
    models = tmp_path_factory.mktemp("contract")
    config = contract_table.make_models(models)
    flags = ("--model-config-file", str(config))
    deployed(cluster, models, *flags, "--replica-cpus", "0.2")
    with connected(start_gateway(cluster, models, *flags).grpc_port) as client:
        yield client


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_the_gateway_before_ray_answers_as_our_own_servers_do(contract, call) -> None:
    code, text = outcome(contract, call.request)
    assert (code, call.says in text) == (call.code, True), text


# -- rollouts ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def asking(port: int, *clients: tuple) -> Iterator[Counter]:
    """Clients in threads, each a request and what its answer has to pass: none may fail, and none repeats a request."""
    stop, seen, lock = threading.Event(), Counter(), threading.Lock()

    def ask(request, is_right: Callable[[dict], bool]) -> None:
        with connected(port) as server:
            while not stop.is_set():
                answer = values(server.prediction.Predict(request, SECONDS).outputs)
                assert is_right(answer), answer
                with lock:
                    seen["answered"] += 1
                time.sleep(THINK_SECONDS)

    with ThreadPoolExecutor(len(clients)) as pool:
        running = [pool.submit(ask, *client) for client in clients]
        try:
            yield seen
        finally:
            stop.set()
            for each in running:
                each.result()


RED = base64.b64encode(exported.png(np.full((20, 20, 3), (230, 20, 20))))


def colour_request(version: int | None = None):
    request = predict_request("inception_v3", signature="labels", image=[RED])
    if version is not None:
        request.model_spec.version.value = version
    return request


RED_DOG = colour_request(2), lambda answer: answer["labels"][0][0] == b"red dog"
SLOW = (
    predict_request("sleeper", x=np.float32([0.2])),
    lambda answer: answer["y"] == [np.float32(0.2)],
)


def test_a_version_comes_and_goes_by_itself_while_the_others_answer(
    cluster, start_gateway, colour_models, tmp_path
) -> None:
    models = tmp_path / "models"
    shutil.copytree(colour_models, models)
    source, cache = f"file://{models}", ["--cache", str(tmp_path / "cache")]
    first = deployed(cluster, source, *cache)
    assert first.count("answers") == 2
    gateway = start_gateway(cluster, models)
    tiny_models.confused(models / "inception_v3" / "2", 3)
    with asking(gateway.grpc_port, *[RED_DOG] * 2) as seen:
        wait_until(lambda: seen["answered"] > 10)
        second = deployed(cluster, source, *cache)
        shutil.rmtree(models / "inception_v3" / "1")
        third = deployed(cluster, source, *cache)
    assert (second.count("is there already"), second.count("answers")) == (2, 1)
    assert (third.count("is there already"), third.count("removed")) == (2, 1)
    with connected(gateway.grpc_port) as client:
        # The new version does not take over by itself.
        assert client.prediction.Predict(colour_request(), SECONDS).model_spec.version.value == 2
        with pytest.raises(grpc.RpcError, match="available versions: 3, 2"):
            client.prediction.Predict(colour_request(1), SECONDS)
    cached = list((tmp_path / "cache").glob("inception_v3-*"))
    assert len(cached) == 3  # one copy of each for all replicas of the node


def test_the_five_commands_switch_versions_on_ray(cluster, start_gateway, tmp_path) -> None:
    for number in (1, 2):
        tiny_models.half_plus(number, tmp_path / "half" / str(number))
    deployed(cluster, tmp_path)
    gateway = start_gateway(cluster, tmp_path)
    wait_until(lambda: versions_of(gateway) == {1, 2})
    effects = []
    for command, printed in zip(FIVE_COMMANDS, ("", *PRINTED), strict=True):
        result = dogsnap("models", *command.split(), "--url", gateway.url)
        assert (result.exit_code, printed in result.output) == (0, True), result.output
        if printed:
            keys = [f"client {number}" for number in range(100)]
            effects.append(sum(ask(gateway, key=key) == 2 for key in keys))
    no_split, split, moved, undone = effects
    assert (no_split, moved, split == undone, 3 < split < 25) == (0, 100, True, True)


# -- load, and a node that dies ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(colour_models, tmp_path_factory) -> Path:
    """Two models of one version, one of which takes as many seconds as it is told, without using the processor."""
    models = tmp_path_factory.mktemp("served")
    shutil.copytree(colour_models / "inception_v3" / "2", models / "inception_v3" / "2")
    tiny_models.sleeper(models / "sleeper" / "1")
    return models


@pytest.fixture(scope="module")
def seconds_of_a_start(cluster, tmp_path_factory) -> float:
    """From `dogsnap deploy ray` of one replica until it answers, on a cluster that does nothing else."""
    models = tmp_path_factory.mktemp("one")
    tiny_models.half_plus(1, models / "half" / "1")
    begun = time.monotonic()
    deployed(cluster, models, "--min-replicas", "1", "--max-replicas", "1")
    return time.monotonic() - begun


@pytest.fixture(scope="module")
def loaded(cluster, served, seconds_of_a_start) -> RayCluster:
    """The cluster with two replicas of each."""
    flags = [
        "--min-replicas",
        "2",
        "--max-replicas",
        "3",
        "--target-requests",
        "2",
        "--run-threads",
        "2",
    ]
    deployed(cluster, served, *flags, "--upscale-seconds", "1", "--downscale-seconds", "3")
    return cluster


def replicas_of(cluster: RayCluster, model: str) -> int:
    return sum(
        count for name, count in cluster.replicas().items() if name.startswith(f"dogsnap-{model}-")
    )


@pytest.fixture(scope="module")
def loaded_gateway(loaded, served, start_gateway):
    return start_gateway(loaded, served)


def test_replicas_are_added_by_the_length_of_the_queue_and_go_again(loaded, loaded_gateway) -> None:
    assert replicas_of(loaded, "sleeper") == 2
    with asking(loaded_gateway.grpc_port, *[SLOW] * 12):
        wait_until(lambda: replicas_of(loaded, "sleeper") == 3)
    wait_until(lambda: replicas_of(loaded, "sleeper") == 2)
    assert replicas_of(loaded, "inception_v3") == 2  # nobody asked for more of these


def test_a_photo_is_named_by_a_version_on_the_cluster(loaded_gateway) -> None:
    answer = loaded_gateway.post("/api/classify", json={"image": RED.decode()}).json()
    assert "error" not in answer, answer
    assert (answer["model"], answer["breeds"][0]["name"]) == (
        {"name": "inception_v3", "version": 2},
        "red dog",
    )


def test_no_request_is_lost_when_a_node_dies_and_its_replicas_are_back_within_a_few_starts(
    loaded, loaded_gateway, seconds_of_a_start
) -> None:
    before = loaded.replicas()
    with asking(loaded_gateway.grpc_port, *[SLOW] * 4, *[RED_DOG] * 2) as seen:
        wait_until(lambda: seen["answered"] > 100)
        answered, killed = seen["answered"], time.monotonic()
        loaded.kill_node()
        wait_until(lambda: sum(loaded.replicas().values()) < sum(before.values()))
        wait_until(lambda: loaded.replicas() == before)
        back = time.monotonic() - killed
        wait_until(lambda: seen["answered"] > answered + 200)
    print(f"\na node died under load: 0 of {seen['answered']} requests lost")
    print(f"back after {back:.1f} s; a start takes {seconds_of_a_start:.1f} s")
    assert back < STARTS_TO_RECOVER * seconds_of_a_start
