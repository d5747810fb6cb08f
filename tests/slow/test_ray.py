"""`dogsnap deploy ray` on a real Ray cluster of two nodes: the same answers as our own server's, rollouts, a node that dies."""

import base64
import contextlib
import itertools
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import contract_table
import exported
import grpc
import numpy as np
import pytest
import tiny_models
from grpc_client import SECONDS, Client, connected, predict_request, values
from grpc_contract import CALLS, outcome
from grpc_health.v1 import health_pb2, health_pb2_grpc
from ports import free_port
from ray_cluster import RayCluster
from waiting import wait_until

pytestmark = pytest.mark.ray
# What a client may repeat: the second is what Ray's proxy tells of a call whose process died.
REPEATED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)

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


# -- the contract ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def contract(cluster, tmp_path_factory) -> Iterator[Client]:
    models = tmp_path_factory.mktemp("contract")
    config = contract_table.make_models(models)
    deployed(cluster, models, "--model-config-file", str(config), "--replica-cpus", "0.2")
    with connected(cluster.grpc_ports[0]) as client:
        yield client


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_rays_grpc_proxy_answers_as_our_own_servers_do(contract, call) -> None:
    code, text = outcome(contract, call.request)
    assert (code, call.says in text) == (call.code, True), text


def test_the_standard_health_service_says_that_it_serves(contract) -> None:
    stub = health_pb2_grpc.HealthStub(contract.channel)
    assert (
        stub.Check(health_pb2.HealthCheckRequest(), SECONDS).status
        == health_pb2.HealthCheckResponse.SERVING
    )
    watched = stub.Watch(health_pb2.HealthCheckRequest(), SECONDS)
    assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
    watched.cancel()


# -- rollouts ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def asking(ports: list[int], *clients: tuple) -> Iterator[Counter]:
    """Clients in threads, each a request and what its answer has to pass: asked again when it is answered, and again elsewhere
    when it is not. Counts `answered` and `repeated`; in the end none was answered wrong or not at all.
    """
    stop, seen, lock = threading.Event(), Counter(), threading.Lock()

    def ask(request, is_right: Callable[[dict], bool]) -> None:
        begun, tries = time.monotonic(), 0
        with contextlib.ExitStack() as stack:
            servers = itertools.cycle([stack.enter_context(connected(port)) for port in ports])
            while tries or not stop.is_set():
                try:
                    answer = values(next(servers).prediction.Predict(request, SECONDS).outputs)
                except grpc.RpcError as error:
                    if error.code() not in REPEATED or time.monotonic() - begun > SECONDS:
                        raise
                    result, pause, tries = "repeated", 0.1, tries + 1
                else:
                    assert is_right(answer), answer
                    result, pause, tries, begun = "answered", THINK_SECONDS, 0, time.monotonic()
                with lock:
                    seen[result] += 1
                time.sleep(pause)

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
    cluster, colour_models, tmp_path
) -> None:
    models = tmp_path / "models"
    shutil.copytree(colour_models, models)
    source, cache = f"file://{models}", ["--cache", str(tmp_path / "cache")]
    first = deployed(cluster, source, *cache)
    assert first.count("answers") == 2
    tiny_models.confused(models / "inception_v3" / "2", 3)
    with asking(cluster.grpc_ports, *[RED_DOG] * 2) as seen:
        wait_until(lambda: seen["answered"] > 10)
        second = deployed(cluster, source, *cache)
        shutil.rmtree(models / "inception_v3" / "1")
        third = deployed(cluster, source, *cache)
    assert (second.count("is there already"), second.count("answers")) == (2, 1)
    assert (third.count("is there already"), third.count("removed")) == (2, 1)
    with connected(cluster.grpc_ports[1]) as client:
        assert client.prediction.Predict(colour_request(), SECONDS).model_spec.version.value == 3
        with pytest.raises(grpc.RpcError, match="available versions: 3, 2"):
            client.prediction.Predict(colour_request(1), SECONDS)
    assert (
        len(list((tmp_path / "cache").glob("inception_v3-*"))) == 3
    )  # one copy of each for all replicas of the node


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


def test_replicas_are_added_by_the_length_of_the_queue_and_go_again(loaded) -> None:
    assert replicas_of(loaded, "sleeper") == 2
    with asking(loaded.grpc_ports, *[SLOW] * 12):
        wait_until(lambda: replicas_of(loaded, "sleeper") == 3)
    wait_until(lambda: replicas_of(loaded, "sleeper") == 2)
    assert replicas_of(loaded, "inception_v3") == 2  # nobody asked for more of these


def test_a_gateway_serves_what_the_cluster_serves(loaded, served, start_server) -> None:
    engine = ",".join(f"127.0.0.1:{port}" for port in loaded.grpc_ports)
    gateway = start_server(served, "--engine", f"grpc://{engine}")
    answer = gateway.post("/api/classify", json={"image": RED.decode()}).json()
    assert "error" not in answer, answer
    assert (answer["model"], answer["breeds"][0]["name"]) == (
        {"name": "inception_v3", "version": 2},
        "red dog",
    )


def test_no_accepted_request_is_lost_when_a_node_dies_and_its_replicas_are_back_within_a_few_starts(
    loaded, seconds_of_a_start
) -> None:
    before = loaded.replicas()
    with asking(loaded.grpc_ports, *[SLOW] * 4, *[RED_DOG] * 2) as seen:
        wait_until(lambda: seen["answered"] > 100)
        answered, killed = seen["answered"], time.monotonic()
        loaded.kill_node()
        wait_until(lambda: sum(loaded.replicas().values()) < sum(before.values()))
        wait_until(lambda: loaded.replicas() == before)
        back = time.monotonic() - killed
        wait_until(lambda: seen["answered"] > answered + 200)
    print(
        f"\na node died under load: {dict(seen)}; back after {back:.1f} s; a start takes {seconds_of_a_start:.1f} s"
    )
    assert seen["repeated"] > 0  # else nothing was in flight there
    assert back < STARTS_TO_RECOVER * seconds_of_a_start
