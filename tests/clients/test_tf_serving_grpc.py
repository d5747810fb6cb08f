"""The gRPC server, asked by the unmodified stubs of tensorflow-serving-api, against a real server process."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from dogsnap.server.protocols.tf_serving_grpc import peer_address
from dogsnap.server.thread_counts import SPARE_THREADS
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from support import contract_table, tiny_models
from support.administration import token_of
from support.grpc_client import SECONDS, Client, connected, predict_request, values
from support.grpc_contract import CALLS, ask, outcome, status
from support.process_readings import children, held, most_seconds
from support.waiting import wait_until
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    prediction_service_pb2_grpc,
)

pytestmark = pytest.mark.early


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("grpc_models")
    file = contract_table.make_models(models)
    return start_server(models, "--model-config-file", str(file), "--max-tensor-body-mb", "8")


@pytest.fixture(scope="module")
def client(server):
    with connected(server.grpc_port) as client:
        yield client


def refused(call, *arguments) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call(*arguments)
    return raised.value.code().name, raised.value.details()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_call_is_answered_as_tensorflow_serving_does(client, call):
    code, text = outcome(client, call.request)
    assert (code, call.says in text, "Traceback" in text) == (call.code, True, False), text


@pytest.mark.parametrize("name", tiny_models.TYPES)
def test_every_dtype_goes_in_and_comes_out(client, name):
    dtype = tf.as_dtype(getattr(tf, name))
    sent = {tf.string: [[b"a\0", b"\xff"]], tf.bool: [[True, False]]}.get(dtype, [[0, 1]])
    answer = client.predict("all_types", signature=name, x=tf.make_tensor_proto(sent, dtype))
    assert answer.outputs["y"].dtype == dtype.as_datatype_enum
    assert not answer.outputs["y"].tensor_content
    assert tf.make_ndarray(answer.outputs["y"]).tolist() == sent


def test_a_message_is_cut_at_1024_bytes(client):
    _, details = refused(client.predict, "狗" * 1000)
    assert details.endswith("...TRUNCATED")
    assert 1021 <= len(details.removesuffix("...TRUNCATED").encode()) <= 1024


def test_a_request_beyond_the_size_limit_is_refused_and_the_next_one_answered(client):
    large = predict_request("half_plus_two", x=np.zeros(3_000_000, np.float32))
    code, details = refused(client.prediction.Predict, large, SECONDS)
    assert (code, "larger than max" in details) == ("RESOURCE_EXHAUSTED", True)
    filled = tf.make_tensor_proto(np.float32(1), shape=[10_000_000])  # in a message of a few bytes
    _, details = refused(
        client.prediction.Predict, predict_request("half_plus_two", x=filled), SECONDS
    )
    assert "at most 8388608 bytes are taken" in details
    assert values(client.predict("half_plus_two", x=[2.0]).outputs) == {"y": [3.0]}


@pytest.mark.measures
def test_inputs_that_the_signature_lacks_are_refused_before_their_values_are_read(client):
    request = predict_request("half_plus_two", **{f"x{number}": [1.0] for number in range(80_000)})
    began = time.monotonic()
    code, details = refused(client.prediction.Predict, request, SECONDS)
    assert (code, "input size does not match" in details) == ("INVALID_ARGUMENT", True)
    assert time.monotonic() - began < most_seconds(1)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_is_refused_and_the_next_one_answered(client, compression):
    request = predict_request("half_plus_two", x=[1.0] * 1000)
    with pytest.raises(grpc.RpcError, match=r"Compression algorithm '.*' is disabled") as error:
        client.prediction.Predict(request, SECONDS, compression=compression)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert client.prediction.Predict(request, SECONDS)


def test_an_answer_may_be_larger_than_any_request(client):
    with grpc.insecure_channel(client.target, [("grpc.max_receive_message_length", -1)]) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_request(
            "odd_outputs", signature="not_finite", x=np.ones(1_000_000, np.float32)
        )
        answer = stub.Predict(request, SECONDS)
    assert answer.ByteSize() > 8 * 2**20
    assert len(answer.outputs["y"].float_val) == 4_000_000


SERVICES = ("tensorflow.serving.PredictionService", "tensorflow.serving.ModelService")
HEALTH_NAMES = ("", *SERVICES, "PredictionService", "ModelService")
SERVING, NOT_SERVING = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
)


def health(channel: grpc.Channel, name: str = "") -> int:
    return (
        health_pb2_grpc.HealthStub(channel)
        .Check(health_pb2.HealthCheckRequest(service=name), SECONDS)
        .status
    )


def test_a_ready_server_is_serving_by_each_of_its_names_and_knows_no_other(client):
    assert [health(client.channel, name) for name in HEALTH_NAMES] == [SERVING] * len(HEALTH_NAMES)
    assert refused(health, client.channel, "Nope")[0] == "NOT_FOUND"


def test_reflection_lists_and_describes_the_services(client):
    reflected = reflection_pb2_grpc.ServerReflectionStub(client.channel).ServerReflectionInfo
    (listed,) = reflected(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=SECONDS
    )
    services = {each.name for each in listed.list_services_response.service}
    assert services == {
        *SERVICES,
        "inference.GRPCInferenceService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICES[0])
    (described,) = reflected(iter([symbol]), timeout=SECONDS)
    assert described.file_descriptor_response.file_descriptor_proto


def test_health_follows_the_models_and_is_sent_to_watching_clients(start_server, tmp_path):
    server = start_server(tmp_path, "--poll-seconds", "0.2", wait=False).wait_until_ready(
        "/healthz"
    )
    with connected(server.grpc_port) as client:
        assert [health(client.channel, name) for name in HEALTH_NAMES] == [NOT_SERVING] * len(
            HEALTH_NAMES
        )
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(
            health_pb2.HealthCheckRequest(), SECONDS
        )
        assert next(watch).status == NOT_SERVING
        tiny_models.half_plus(2, tmp_path / "half_plus_two" / "1")
        assert next(watch).status == SERVING
        assert server.get("/readyz").status_code == 200
        assert health(client.channel) == SERVING
        watch.cancel()


@pytest.fixture(scope="module")
def narrow(start_server, sleeper):
    """Runs one request, lets one wait, and holds 1 MiB of messages; for one it waits 5 seconds."""
    bounds = (
        "--run-threads",
        "1",
        "--queue-size",
        "1",
        "--max-held-mb",
        "1",
    )
    constants = {"dogsnap.server.grpc_admission.RECEIVE_SECONDS": 5}
    return start_server(sleeper, *bounds, constants=constants)


def sleep(client: Client, seconds: float, timeout: float | None = SECONDS) -> grpc.Future:
    return client.prediction.Predict.future(predict_request("sleeper", x=[seconds]), timeout)


def test_a_full_queue_is_unavailable_and_a_cancelled_call_gives_its_place_back(narrow):
    with connected(narrow.grpc_port) as client:
        running = sleep(client, 8.0, timeout=None)  # which then is the server's
        wait_until(lambda: held(narrow) == 1)
        waiting = sleep(client, 0.1)
        wait_until(lambda: held(narrow) == 2)
        full = sleep(client, 0.1)
        assert full.code() == grpc.StatusCode.UNAVAILABLE
        assert "the server is full: 2 requests are running or waiting" in full.details()
        waiting.cancel()
        wait_until(lambda: held(narrow) == 1)
        assert not running.done()
        assert values(sleep(client, 0.1).result().outputs) == {"y": [pytest.approx(0.1)]}
        assert values(running.result().outputs) == {"y": [8.0]}


def test_a_stopped_server_finishes_its_calls_refuses_new_ones_and_does_not_wait_for_watchers(
    start_server, sleeper
):
    server = start_server(
        sleeper, "--drain-seconds", "3600"
    )  # for which a watcher left alone would hold it
    with connected(server.grpc_port) as client, ThreadPoolExecutor(1) as pool:
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(
            health_pb2.HealthCheckRequest(), SECONDS
        )
        assert next(watch).status == SERVING
        running = sleep(client, 10.0)
        wait_until(lambda: held(server) == 1)
        stopped = pool.submit(server.stop)
        assert next(watch).status == NOT_SERVING
        with connected(server.grpc_port) as other:
            # Until it is told, it answers; a call in the instant that it stops listening is cancelled by grpcio..
            while (code := sleep(other, 0.0).code()) in (
                grpc.StatusCode.OK,
                grpc.StatusCode.CANCELLED,
            ):
                assert not running.done()
            assert code == grpc.StatusCode.UNAVAILABLE
        assert values(running.result().outputs) == {"y": [10.0]}
        assert stopped.result() == 0
    assert "Traceback" not in server.log()


@pytest.fixture
def silent() -> Iterator[Callable[[], Iterator[bytes]]]:
    """Makes streams without a message, which end with the test."""
    over = threading.Event()

    def stream() -> Iterator[bytes]:
        over.wait()
        yield from ()

    yield stream
    over.set()


PREDICT = "/tensorflow.serving.PredictionService/Predict"
WAITING_FOR_THEIR_CLIENT = {  # on the wire a stream of one message is what a unary call sends
    "a prediction": lambda channel, stream: channel.stream_unary(PREDICT).future(stream),
    "a probe": lambda channel, stream: channel.stream_unary("/grpc.health.v1.Health/Check").future(
        stream
    ),
    "reflection": lambda channel, stream: channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    )(stream),
}


@pytest.mark.parametrize("begin", WAITING_FOR_THEIR_CLIENT.values(), ids=WAITING_FOR_THEIR_CLIENT)
def test_calls_whose_clients_send_nothing_make_room_for_other_calls(narrow, silent, begin):
    with connected(narrow.grpc_port) as client, connected(narrow.grpc_port) as other:
        calls = []
        while not any(
            call.done() for call in calls
        ):  # one was refused, or made room: the server is full
            calls.append(begin(other.channel, silent()))
            time.sleep(0.02)
        assert len(calls) > 10
        assert health(client.channel) == SERVING
        wait_until(lambda: sleep(client, 0.0).code() == grpc.StatusCode.OK, 4)
        wait_until(lambda: all(call.done() for call in calls))
        assert {call.code() for call in calls} <= {
            grpc.StatusCode.CANCELLED,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        }
        assert health(client.channel) == SERVING


def test_a_call_that_ends_before_its_message_or_sends_something_else_is_an_invalid_argument(client):
    for stream, says in (
        ((), "received the end of the call"),
        ([b"\xff\xff"], "received 2 bytes of something else"),
    ):
        code, details = refused(client.channel.stream_unary(PREDICT), iter(stream), SECONDS)
        assert (code, says in details) == ("INVALID_ARGUMENT", True), details
    answers = WAITING_FOR_THEIR_CLIENT["reflection"](client.channel, iter([b"\xff\xff"]))
    assert answers.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_messages_take_a_bounded_part_of_the_memory_and_the_deadline_of_a_client_ends_its_wait(
    narrow,
):
    long = predict_request(
        "sleeper", x=np.full(115_000, 8.0 / 115_000, np.float32)
    )  # 8 seconds in 0.46 MB, which its answer takes, too
    large = predict_request("sleeper", x=np.zeros(180_000, np.float32))
    with connected(narrow.grpc_port) as client:
        running = client.prediction.Predict.future(long, SECONDS)
        wait_until(lambda: held(narrow) == 1)
        code, details = refused(client.prediction.Predict, large, SECONDS)
        assert (code, "(limit 1 MiB, DOGSNAP_MAX_HELD_MB)" in details) == (
            "RESOURCE_EXHAUSTED",
            True,
        )
        assert (
            sleep(client, 0.0, timeout=0.5).code() == grpc.StatusCode.DEADLINE_EXCEEDED
        )  # a small one may wait
        wait_until(lambda: held(narrow) == 1)  # it has given its place back
        assert not running.done()
        assert running.result()
        long.inputs["x"].CopyFrom(tf.make_tensor_proto(np.zeros(115_000, np.float32)))
        wait_until(
            lambda: client.prediction.Predict.future(long, SECONDS).code() == grpc.StatusCode.OK
        )


def test_a_flood_of_calls_is_refused_at_once_and_does_not_pile_up(narrow, sleeper, tmp_path):
    threads = 1 + 1 + SPARE_THREADS
    (tmp_path / "half_copied" / "1").mkdir(parents=True)
    waits = reload_request(
        ("sleeper", sleeper / "sleeper"), ("half_copied", tmp_path / "half_copied")
    )
    with connected(narrow.grpc_port, token_of(narrow)) as client:
        calls = [
            client.models.HandleReloadConfigRequest.future(waits, 60) for _ in range(threads + 5)
        ]
        wait_until(lambda: sum(call.done() for call in calls) == 5)
        turned_away = [sleep(client, 0.0), *(call for call in calls if call.done())]
        assert {call.code() for call in turned_away} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        says = f"the server is busy: {threads} calls are running, its limit; try again later"
        assert {call.details() for call in turned_away} == {says}
        for call in calls:
            call.cancel()
        wait_until(lambda: sleep(client, 0.0).code() == grpc.StatusCode.OK)


def reload_request(*configs: tuple[str, Path]) -> model_management_pb2.ReloadConfigRequest:
    listed = [
        {"name": name, "base_path": str(path), "model_platform": "tensorflow"}
        for name, path in configs
    ]
    return model_management_pb2.ReloadConfigRequest(
        config={"model_config_list": {"config": listed}}
    )


@pytest.fixture(scope="module")
def halves(tmp_path_factory) -> Path:
    """The model half with versions 1 (x / 2 + 2) and 2 (x / 2 + 3), and the model other (x / 2 + 4)."""
    models = tmp_path_factory.mktemp("grpc_halves")
    tiny_models.half_plus(2, models / "half" / "1")
    tiny_models.half_plus(3, models / "half" / "2")
    tiny_models.half_plus(4, models / "other" / "1")
    return models


@pytest.fixture(scope="module")
def reloading(start_server, halves, tmp_path_factory):
    """A server that follows a configuration file."""
    file = tmp_path_factory.mktemp("grpc_config") / "models.config"
    file.write_text(
        f'model_config_list {{ config {{ name: "half" base_path: "{halves}/half" }} }}',
        encoding="utf-8",
    )
    return start_server(halves, "--model-config-file", str(file), "--poll-seconds", "0.2")


@pytest.fixture
def configured(reloading, halves):
    """A client of a server that serves the model half, and no other."""
    with connected(reloading.grpc_port, token_of(reloading)) as client:
        client.models.HandleReloadConfigRequest(reload_request(("half", halves / "half")), SECONDS)
        yield client


def test_a_new_configuration_replaces_the_old_one(reloading, configured, halves, tmp_path):
    assert values(configured.predict("half", x=[2.0]).outputs) == {"y": [4.0]}
    for version in "12":  # at another base path
        shutil.copytree(halves / "other" / "1", tmp_path / version)
    configured.models.HandleReloadConfigRequest(reload_request(("half", tmp_path)), SECONDS)
    assert values(configured.predict("half", x=[2.0]).outputs) == {"y": [5.0]}
    answer = configured.models.HandleReloadConfigRequest(
        reload_request(("other", halves / "other")), SECONDS
    )
    assert answer.status.error_code == 0
    assert values(configured.predict("other", x=[2.0]).outputs) == {"y": [5.0]}
    for seconds in (0, 1):  # several scans of the folders
        time.sleep(seconds)
        assert refused(configured.predict, "half")[0] == "NOT_FOUND"
    assert [each["name"] for each in reloading.get("/api/models").json()["models"]] == ["other"]
    back = reload_request(("half", halves / "half"), ("other", halves / "other"))
    configured.models.HandleReloadConfigRequest(back, SECONDS)
    assert values(configured.predict("half", x=[2.0]).outputs) == {"y": [4.0]}
    assert values(configured.predict("other", x=[2.0]).outputs) == {"y": [5.0]}


def test_a_new_configuration_is_logged_with_its_author_and_its_changes_and_is_undone(
    reloading, configured, halves
):
    request = reload_request(("other", halves / "other"))
    configured.models.HandleReloadConfigRequest(request, SECONDS, metadata=[("by", "alice")])
    switches = reloading.get("/api/admin/switches").json()["switches"]
    newest = next(each for each in switches if each["kind"] == "configuration")
    assert newest["by"] == {"name": "alice", "address": "127.0.0.1"}
    assert (
        newest["text"]
        == f"configuration: half in {halves}/half, all -> other in {halves}/other, all"
    )
    assert [each["name"] for each in newest["to"]] == ["other"]
    undo = reloading.post("/api/admin/undo", json={"id": newest["id"]})
    assert undo.json()["switch"]["undoes"] == newest["id"]
    wait_until(lambda: half_of_2(configured) == [4.0])
    assert refused(configured.predict, "other")[0] == "NOT_FOUND"


def half_of_2(client: Client) -> list[float]:
    """What the model half makes of 2; nothing while it does not answer."""
    try:
        return values(client.predict("half", x=[2.0]).outputs)["y"]
    except grpc.RpcError:
        return []


def test_a_configuration_that_cannot_be_served_is_refused_and_changes_nothing(
    configured, halves, tmp_path
):
    twice = reload_request(("half", halves / "half"), ("half", halves / "other"))
    custom = model_management_pb2.ReloadConfigRequest(config={"custom_model_config": {}})
    specific = reload_request(("half", halves / "half"))
    specific.config.model_config_list.config[0].model_version_policy.specific.versions.append(9)
    before = values(configured.predict("half", x=[2.0]).outputs)
    wrong = {
        "Illegal to list model half multiple times in config list": twice,
        "Only ModelConfigList is currently supported": custom,
        "ServerModelConfig type not supported": model_management_pb2.ReloadConfigRequest(),
        "expected a name and a base_path": reload_request(("", halves / "half")),
        "No versions of servable x found under base path": reload_request(
            ("x", tmp_path / "nothing")
        ),
        "selects none of the existing versions: 1, 2": specific,
    }
    for message, request in wrong.items():
        code, details = refused(configured.models.HandleReloadConfigRequest, request, SECONDS)
        assert (code, message in details) == ("INVALID_ARGUMENT", True), details
    assert values(configured.predict("half", x=[2.0]).outputs) == before


def test_a_model_that_cannot_be_loaded_has_its_reason_in_every_protocol(
    reloading, configured, halves, tmp_path
):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"\xff broken")
    request = reload_request(("half", halves / "half"), ("broken", tmp_path))
    before = values(configured.predict("half", x=[2.0]).outputs)
    code, details = refused(configured.models.HandleReloadConfigRequest, request, SECONDS)
    assert code == "UNKNOWN"
    assert details.startswith("Some models did not become available: broken version 1: ")
    assert values(configured.predict("half", x=[2.0]).outputs) == before
    (version,) = ask(configured, status(name="broken")).model_version_status
    assert version.state == get_model_status_pb2.ModelVersionStatus.END
    assert version.status.error_code == 2
    assert version.status.error_message in details
    (told,) = reloading.get("/v1/models/broken").json()["model_version_status"]
    assert told["state"] == "END"
    assert told["status"] == {
        "error_code": "UNKNOWN",
        "error_message": version.status.error_message,
    }
    (shown,) = reloading.get("/api/models").json()["models"][0]["versions"]
    assert (shown["state"], shown["error"]) == ("FAILED", version.status.error_message)


def test_configuring_takes_the_token_and_keeps_to_the_servers_policy(
    start_server, reloading, halves
):
    request = reload_request(("half", halves / "half"))
    with connected(reloading.grpc_port) as stranger:
        code, _ = refused(stranger.models.HandleReloadConfigRequest, request, SECONDS)
    assert code == "UNAUTHENTICATED"
    server = start_server(
        halves, "--admin-token", "open-sesame-0123456789", "--version-policy", "latest"
    )
    with connected(server.grpc_port) as client:
        assert (
            refused(client.models.HandleReloadConfigRequest, request, SECONDS)[0]
            == "UNAUTHENTICATED"
        )
        token = [("authorization", "Bearer open-sesame-0123456789")]
        client.models.HandleReloadConfigRequest(request, SECONDS, metadata=token)
        assert refused(client.predict, "other")[0] == "NOT_FOUND"
    states = server.get("/v1/models/half").json()["model_version_status"]
    assert [each["version"] for each in states if each["state"] == "AVAILABLE"] == ["2"]


def test_grpc_port_0_opens_no_port(start_server, sleeper):
    server = start_server(sleeper, "--grpc-port", "0")
    assert server.get("/readyz").status_code == 200
    assert listening_ports(server.process.pid) == {server.port}
    assert server.stop() == 0


def listening_ports(parent: int) -> set[int]:
    """The TCP ports on which a process and its children listen."""
    links = [
        link for pid in (parent, *children(parent)) for link in Path(f"/proc/{pid}/fd").iterdir()
    ]
    sockets = set()
    for link in links:
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        int(line[1].split(":")[1], 16) for line in lines if line[3] == "0A" and line[9] in sockets
    }


def test_the_address_of_a_peer_is_read_from_grpcs_name_for_it():
    assert peer_address("ipv4:127.0.0.1:5000") == "127.0.0.1"
    assert peer_address("ipv6:%5B::1%5D:5000") == "::1"
    assert peer_address("unix:/tmp/socket") == ""
