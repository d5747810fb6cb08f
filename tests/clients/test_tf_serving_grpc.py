"""The gRPC server, asked by the unmodified stubs of tensorflow-serving-api, against a real server process."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import contract_table
import grpc
import grpc_client
import numpy as np
import pytest
import requests
import tensorflow as tf
import tiny_models
from grpc_client import SECONDS, Client, connected, input_of, predict_request, values
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from server_process import children, held
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)
from waiting import wait_until

from backend.addresses import SPARE_THREADS
from backend.protocols.tf_serving_grpc import headers_of, peer_address

CLIENTS = Path(__file__).parents[1] / "support" / "clients"
DOGSNAP = Path(sys.executable).with_name("dogsnap")
CASES = [case for case in contract_table.CASES if grpc_client.has_grpc_form(case)]
CODES = {404: grpc.StatusCode.NOT_FOUND, 400: grpc.StatusCode.INVALID_ARGUMENT, 503: grpc.StatusCode.UNAVAILABLE}


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("grpc_models")
    return start_server(
        models, "--model-config-file", str(contract_table.make_models(models)), "--max-tensor-body-mb", "8"
    )


@pytest.fixture(scope="module")
def client(server):
    with connected(server.grpc_port) as client:
        yield client


def refused(call, *arguments) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call(*arguments)
    return raised.value.code().name, raised.value.details()


# -- the contract of the REST API --------------------------------------------------------------------------------------


def test_most_of_the_contract_is_about_models_and_so_runs_here_too():
    assert len(CASES) > 45
    assert {case.status for case in CASES} == {200, 400, 404, 503}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_grpc_answers_as_rest_does(client, case):
    if case.status == 200:
        assert grpc_client.ask(client, case) == case.answer
    else:
        code, message = refused(grpc_client.ask, client, case)
        assert code == CODES[case.status].name
        assert case.error in message


# -- TensorFlow Serving's own clients ----------------------------------------------------------------------------------


def test_the_call_by_which_tensorflow_serving_tests_half_plus_two_works(server):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "half_plus_two"
    request.inputs["x"].dtype = types_pb2.DT_FLOAT
    request.inputs["x"].float_val.append(2.0)
    request.inputs["x"].tensor_shape.dim.add().size = 1
    request.output_filter.append("y")
    with grpc.insecure_channel(f"localhost:{server.grpc_port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        result = stub.Predict(request, SECONDS)
    assert list(result.outputs) == ["y"]
    assert result.outputs["y"].dtype == types_pb2.DT_FLOAT
    assert list(result.outputs["y"].float_val) == [3.0]
    assert (result.model_spec.name, result.model_spec.version.value) == ("half_plus_two", 123)
    assert result.model_spec.signature_name == "serving_default"


def test_a_client_of_half_plus_two_runs_as_a_program_of_its_own(server):
    command = [sys.executable, CLIENTS / "half_plus_two.py", f"localhost:{server.grpc_port}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.splitlines() == ["predict [2.5, 3.0, 4.5] 123", "metadata ['x']", "status 123 AVAILABLE"]


def test_the_asynchronous_call_of_tensorflow_servings_example_clients_works(client):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "half_plus_two"
    request.model_spec.signature_name = "serving_default"
    image = np.arange(4, dtype=np.float32)
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(image, shape=[1, image.size]))
    done: list = []
    future = client.prediction.Predict.future(request, SECONDS)
    future.add_done_callback(done.append)
    assert np.argmax(np.array(future.result().outputs["y"].float_val)) == 3
    wait_until(lambda: done)
    assert done == [future]


def test_classify_and_regress_work_as_tensorflow_serving_tests_them(client):
    request = classification_pb2.ClassificationRequest(input=input_of([{"x": 2.0}]))
    request.model_spec.name, request.model_spec.signature_name = "half_plus_two", "classify_x_to_y"
    answer = client.prediction.Classify(request, SECONDS)
    assert [each.score for each in answer.result.classifications[0].classes] == [3.0]
    assert (answer.model_spec.signature_name, answer.model_spec.version.value) == ("classify_x_to_y", 123)
    request = regression_pb2.RegressionRequest(input=input_of([{"x": 2.0}]))
    request.model_spec.name, request.model_spec.signature_name = "half_plus_two", "regress_x_to_y"
    answer = client.prediction.Regress(request, SECONDS)
    assert [each.value for each in answer.result.regressions] == [3.0]
    assert (answer.model_spec.signature_name, answer.model_spec.version.value) == ("regress_x_to_y", 123)


def multi_inference(*tasks: tuple[str, str, str], examples=({"x": 2.0},)) -> inference_pb2.MultiInferenceRequest:
    request = inference_pb2.MultiInferenceRequest(input=input_of(list(examples)))
    for model, signature, method in tasks:
        task = request.tasks.add(method_name=method)
        task.model_spec.name, task.model_spec.signature_name = model, signature
    return request


REGRESS = ("half_plus_two", "regress_x_to_y", "tensorflow/serving/regress")
CLASSIFY = ("half_plus_two", "classify_x_to_y", "tensorflow/serving/classify")


def test_multi_inference_answers_every_task_by_the_same_version(client):
    results = client.prediction.MultiInference(multi_inference(REGRESS, CLASSIFY), SECONDS).results
    assert [each.value for each in results[0].regression_result.regressions] == [3.0]
    assert [each.score for each in results[1].classification_result.classifications[0].classes] == [3.0]
    assert [each.model_spec.signature_name for each in results] == ["regress_x_to_y", "classify_x_to_y"]
    assert [each.model_spec.version.value for each in results] == [123, 123]


# -- tensors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiny_models.TYPES)
def test_every_dtype_goes_in_and_comes_out(client, name):
    dtype = tf.as_dtype(getattr(tf, name))
    sent = {tf.string: [[b"a\0", b"\xff"]], tf.bool: [[True, False]]}.get(dtype, [[0, 1]])
    answer = client.predict("all_types", signature=name, x=tf.make_tensor_proto(sent, dtype))
    assert answer.outputs["y"].dtype == dtype.as_datatype_enum
    assert not answer.outputs["y"].tensor_content
    assert tf.make_ndarray(answer.outputs["y"]).tolist() == sent


def test_a_version_of_unknown_rank_takes_any_shape(client):
    for value in (3.0, [3.0], [[[3.0, 4.0]]], np.zeros((0, 5), np.float32)):
        expected = np.asarray(value, np.float32) / 2 + 2
        assert values(client.predict("half_plus_two", x=tf.make_tensor_proto(value, tf.float32)).outputs) == {
            "y": expected.tolist()
        }


def test_only_the_outputs_asked_for_come_back(client):
    assert values(client.predict("several", ("sum",), a=[1.0], b=[2]).outputs) == {"sum": [3.0]}
    assert set(client.predict("several", a=[1.0], b=[2]).outputs) == {"sum", "product"}


LONG = "狗" * 1000
PREDICT_ERRORS = {
    "no model spec": (predict_pb2.PredictRequest(), "INVALID_ARGUMENT", "Missing ModelSpec"),
    "no model name": (predict_request("", x=[1.0]), "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "an unknown model": (predict_request("half", x=[1.0]), "NOT_FOUND", "Servable not found for request: Latest(half)"),
    "an unknown signature": (
        predict_request("half_plus_two", signature="nope", x=[1.0]),
        "FAILED_PRECONDITION",
        'Serving signature key "nope" not found.',
    ),
    "an unknown signature with a bad tensor": (
        predict_request("half_plus_two", signature="nope", x=tensor_pb2.TensorProto()),
        "FAILED_PRECONDITION",
        'Serving signature key "nope" not found.',
    ),
    "an input is missing": (
        predict_request("several", a=[1.0]),
        "INVALID_ARGUMENT",
        "input size does not match signature: 1!=2 len({a}) != len({a,b}). Sent extra: {}. Missing but required: {b}.",
    ),
    "an input too many": (
        predict_request("half_plus_two", x=[1.0], z=[1.0]),
        "INVALID_ARGUMENT",
        "input size does not match signature: 2!=1 len({x,z}) != len({x}). Sent extra: {z}. Missing but required: {}.",
    ),
    "another input": (
        predict_request("half_plus_two", z=[1.0]),
        "INVALID_ARGUMENT",
        "Sent extra: {z}. Missing but req",
    ),
    "an unknown output": (
        predict_request("several", ("z",), a=[1.0], b=[2]),
        "INVALID_ARGUMENT",
        "output tensor alias not found in signature: z Outputs expected to be in the set {product,sum}.",
    ),
    "an output twice": (
        predict_request("several", ("sum", "sum"), a=[1.0], b=[2]),
        "INVALID_ARGUMENT",
        "duplicate output tensor alias: sum",
    ),
    "another dtype": (
        predict_request("half_plus_two", x=[1]),
        "INVALID_ARGUMENT",
        'input "x": expected float32 values, received int32',
    ),
    "another shape": (
        predict_request("several", a=[[1.0]], b=[2]),
        "INVALID_ARGUMENT",
        'input "a": expected shape (None,), received (1, 1)',
    ),
    "sizes that do not go together": (predict_request("several", a=[1.0, 2.0, 3.0], b=[2, 3]), "INVALID_ARGUMENT", ""),
    "no dtype": (
        predict_request("half_plus_two", x=tensor_pb2.TensorProto()),
        "INVALID_ARGUMENT",
        'tensor parsing error: input "x": expected a DataType, received 0',
    ),
    "a huge shape": (
        predict_request("half_plus_two", x=tf.make_tensor_proto(1.0, shape=[10_000_000])),
        "INVALID_ARGUMENT",
        "one value is to fill shape [10000000] with 40000000 bytes; at most 8388608 bytes are taken",
    ),
    "bytes that are no image": (
        predict_request("odd_outputs", signature="decode_png", png=b"no image"),
        "INVALID_ARGUMENT",
        "Unknown image file format",
    ),
    "a long name": (predict_request(LONG, x=[1.0]), "NOT_FOUND", "...TRUNCATED"),
}


@pytest.mark.parametrize(("request_", "code", "message"), PREDICT_ERRORS.values(), ids=PREDICT_ERRORS)
def test_a_prediction_is_refused_with_tensorflow_servings_code_and_message(client, request_, code, message):
    received, details = refused(client.prediction.Predict, request_, SECONDS)
    assert received == code
    assert message in details
    assert "Traceback" not in details


def test_a_message_is_cut_at_1024_bytes(client):
    _, details = refused(client.predict, LONG)
    assert details.endswith("...TRUNCATED")
    assert 1021 <= len(details.removesuffix("...TRUNCATED").encode()) <= 1024


def test_a_request_beyond_the_size_limit_is_refused_and_the_next_one_answered(client):
    code, details = refused(
        client.prediction.Predict, predict_request("half_plus_two", x=np.zeros(3_000_000, np.float32)), SECONDS
    )
    assert code == "RESOURCE_EXHAUSTED"
    assert "larger than max" in details
    assert values(client.predict("half_plus_two", x=[2.0]).outputs) == {"y": [3.0]}


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_is_refused_and_the_next_one_answered(client, compression):
    request = predict_request("half_plus_two", x=[1.0] * 1000)
    with pytest.raises(grpc.RpcError, match=r"Compression algorithm '.*' is disabled") as error:
        client.prediction.Predict(request, SECONDS, compression=compression)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert client.prediction.Predict(request, SECONDS)


def test_an_answer_may_be_larger_than_any_request(client):
    channel = grpc.insecure_channel(client.target, [("grpc.max_receive_message_length", -1)])
    with channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_request("odd_outputs", signature="not_finite", x=np.ones(1_000_000, np.float32))
        answer = stub.Predict(request, SECONDS)
    assert answer.ByteSize() > 8 * 2**20
    assert len(answer.outputs["y"].float_val) == 4_000_000


EXAMPLE_ERRORS = {
    "no examples": ("regress_x_to_y", [], "INVALID_ARGUMENT", "Input is empty."),
    "a feature is missing": ("regress_x_to_y", [{"y": 1.0}], "INVALID_ARGUMENT", "Feature: x (data type: float) is"),
    "an unknown signature": ("nope", [{"x": 1.0}], "INVALID_ARGUMENT", "No signature was found with the name: nope"),
    "a signature of another method": (
        "classify_x_to_y",
        [{"x": 1.0}],
        "INVALID_ARGUMENT",
        "Expected regression signature method_name to be tensorflow/serving/regress. Was: tensorflow/serving/classify",
    ),
}


@pytest.mark.parametrize(("signature", "examples", "code", "message"), EXAMPLE_ERRORS.values(), ids=EXAMPLE_ERRORS)
def test_examples_are_refused_with_tensorflow_servings_code_and_message(client, signature, examples, code, message):
    request = regression_pb2.RegressionRequest(input=input_of(examples))
    request.model_spec.name, request.model_spec.signature_name = "half_plus_two", signature
    received, details = refused(client.prediction.Regress, request, SECONDS)
    assert (received, message in details) == (code, True), details


TASK_ERRORS = {
    "no tasks": (multi_inference(), "INVALID_ARGUMENT", "has no tasks"),
    "no model name": (multi_inference(("", *REGRESS[1:])), "INVALID_ARGUMENT", "ModelSpec with an empty model name."),
    "two models": (
        multi_inference(REGRESS, ("several", *CLASSIFY[1:])),
        "INVALID_ARGUMENT",
        "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
    ),
    "a signature twice": (multi_inference(REGRESS, REGRESS), "INVALID_ARGUMENT", "Duplicate evaluation of signature"),
    "another method": (
        multi_inference((*REGRESS[:2], "tensorflow/serving/predict")),
        "UNIMPLEMENTED",
        "Unsupported signature method_name: tensorflow/serving/predict",
    ),
    "no examples": (multi_inference(REGRESS, examples=()), "INVALID_ARGUMENT", "Input is empty."),
}


@pytest.mark.parametrize(("request_", "code", "message"), TASK_ERRORS.values(), ids=TASK_ERRORS)
def test_tasks_are_refused_with_tensorflow_servings_code_and_message(client, request_, code, message):
    received, details = refused(client.prediction.MultiInference, request_, SECONDS)
    assert (received, message in details) == (code, True), details


# -- metadata and status -----------------------------------------------------------------------------------------------


def metadata_request(model: str = "", *fields: str) -> get_model_metadata_pb2.GetModelMetadataRequest:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    if model:
        request.model_spec.name = model
    return request


def test_metadata_holds_the_signatures_and_names_the_version(client):
    answer = client.prediction.GetModelMetadata(metadata_request("several", "signature_def"), SECONDS)
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("several", 1)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(signatures)
    signature = signatures.signature_def["serving_default"]
    assert signature.inputs["a"].dtype == types_pb2.DT_FLOAT
    assert [dim.size for dim in signature.inputs["a"].tensor_shape.dim] == [-1]
    assert set(signature.outputs) == {"sum", "product"}


METADATA_ERRORS = {
    "no model spec": (metadata_request("", "signature_def"), "INVALID_ARGUMENT", "Missing ModelSpec"),
    "no field": (
        metadata_request("several"),
        "INVALID_ARGUMENT",
        "GetModelMetadataRequest must specify at least one metadata_field",
    ),
    "an unknown field": (
        metadata_request("several", "signature_def", "weights"),
        "INVALID_ARGUMENT",
        "Metadata field weights is not supported",
    ),
    "an unknown model": (
        metadata_request("foo", "signature_def"),
        "NOT_FOUND",
        "Servable not found for request: Latest(",
    ),
}


@pytest.mark.parametrize(("request_", "code", "message"), METADATA_ERRORS.values(), ids=METADATA_ERRORS)
def test_metadata_is_refused_with_tensorflow_servings_code_and_message(client, request_, code, message):
    received, details = refused(client.prediction.GetModelMetadata, request_, SECONDS)
    assert (received, message in details) == (code, True), details


def test_status_needs_a_model_spec(client):
    request = get_model_status_pb2.GetModelStatusRequest()
    assert refused(client.models.GetModelStatus, request, SECONDS) == ("INVALID_ARGUMENT", "Missing ModelSpec")


# -- health and reflection ---------------------------------------------------------------------------------------------

HEALTH_NAMES = (
    "",
    "tensorflow.serving.PredictionService",
    "tensorflow.serving.ModelService",
    "PredictionService",
    "ModelService",
)
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


def health(channel: grpc.Channel, name: str = "") -> int:
    return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), SECONDS).status


@pytest.mark.parametrize("name", HEALTH_NAMES)
def test_a_ready_server_is_serving(client, name):
    assert health(client.channel, name) == SERVING


def test_the_health_of_an_unknown_service_is_not_found(client):
    assert refused(health, client.channel, "Nope")[0] == "NOT_FOUND"


def test_reflection_lists_the_services(client):
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    requests_ = [reflection_pb2.ServerReflectionRequest(list_services="")]
    (answer,) = stub.ServerReflectionInfo(iter(requests_), timeout=SECONDS)
    assert {each.name for each in answer.list_services_response.service} == {
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


def test_reflection_describes_the_services(client):
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol="tensorflow.serving.PredictionService")
    (answer,) = stub.ServerReflectionInfo(iter([symbol]), timeout=SECONDS)
    assert answer.file_descriptor_response.file_descriptor_proto


def test_health_follows_the_models_and_is_sent_to_watching_clients(start_server, tmp_path):
    server = start_server(tmp_path, "--poll-seconds", "0.2", wait=False).wait_until_ready("/healthz")
    with connected(server.grpc_port) as client:
        assert [health(client.channel, name) for name in HEALTH_NAMES] == [NOT_SERVING] * len(HEALTH_NAMES)
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest(), SECONDS)
        assert next(watch).status == NOT_SERVING
        tiny_models.half_plus(2, tmp_path / "half_plus_two" / "1")
        assert next(watch).status == SERVING
        assert requests.get(f"{server.url}/readyz", timeout=SECONDS).status_code == 200
        assert health(client.channel) == SERVING
        watch.cancel()


# -- load, deadlines, cancelled calls, stopping ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow(start_server, sleeper):
    """Runs one request, lets one wait, and holds 1 MiB of messages; for one it waits 5 seconds."""
    bounds = "--run-threads", "1", "--queue-size", "1", "--max-held-mb", "1", "--receive-seconds", "5"
    return start_server(sleeper, *bounds)


def sleep(client: Client, seconds: float, timeout: float = SECONDS) -> grpc.Future:
    return client.prediction.Predict.future(predict_request("sleeper", x=[seconds]), timeout)


def test_a_full_queue_is_unavailable_and_a_cancelled_call_gives_its_place_back(narrow):
    with connected(narrow.grpc_port) as client:
        running = sleep(client, 8.0)
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


def test_the_deadline_of_the_client_ends_its_wait_and_its_place_in_the_queue(narrow):
    with connected(narrow.grpc_port) as client:
        running = sleep(client, 8.0)
        wait_until(lambda: held(narrow) == 1)
        late = sleep(client, 0.0, timeout=0.5)
        assert late.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: held(narrow) == 1)
        assert not running.done()
        assert running.result()


def test_the_deadline_of_the_server_holds_for_a_client_without_one(start_server, sleeper):
    server = start_server(sleeper, "--deadline-ms", "500")
    with connected(server.grpc_port) as client:
        late = sleep(client, 2.0, timeout=None)
        assert late.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert "the request's deadline" in late.details()


def test_a_stopped_server_finishes_its_calls_refuses_new_ones_and_does_not_wait_for_watchers(start_server, sleeper):
    server = start_server(sleeper, "--drain-seconds", "3600")  # for which a watcher left alone would hold it
    with connected(server.grpc_port) as client, ThreadPoolExecutor(1) as pool:
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest(), SECONDS)
        assert next(watch).status == SERVING
        running = sleep(client, 10.0)
        wait_until(lambda: held(server) == 1)
        stopped = pool.submit(server.stop)
        assert next(watch).status == NOT_SERVING
        with connected(server.grpc_port) as other:
            # Until it is told, it answers; a call in the instant that it stops listening is cancelled by grpcio..
            while (code := sleep(other, 0.0).code()) in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
                assert not running.done()
            assert code == grpc.StatusCode.UNAVAILABLE
        assert values(running.result().outputs) == {"y": [10.0]}
        assert stopped.result() == 0
    assert "Traceback" not in server.log()


def test_a_flood_of_calls_is_refused_at_once_and_does_not_pile_up(start_server, sleeper, tmp_path):
    server = start_server(sleeper, "--run-threads", "1", "--queue-size", "1")
    threads = 1 + 1 + SPARE_THREADS
    (tmp_path / "half_copied" / "1").mkdir(parents=True)
    waits = reload_request(("sleeper", sleeper / "sleeper"), ("half_copied", tmp_path / "half_copied"))
    with connected(server.grpc_port) as client:
        calls = [client.models.HandleReloadConfigRequest.future(waits, 60) for _ in range(threads + 5)]
        wait_until(lambda: sum(call.done() for call in calls) == 5)
        turned_away = [sleep(client, 0.0), *(call for call in calls if call.done())]
        assert {call.code() for call in turned_away} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        says = f"the server answers at most {threads} calls at once and this is one more; try again later"
        assert {call.details() for call in turned_away} == {says}
        for call in calls:
            call.cancel()
        wait_until(lambda: sleep(client, 0.0).code() == grpc.StatusCode.OK)


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
    "a probe": lambda channel, stream: channel.stream_unary("/grpc.health.v1.Health/Check").future(stream),
    "reflection": lambda channel, stream: channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    )(stream),
}


@pytest.mark.parametrize("begin", WAITING_FOR_THEIR_CLIENT.values(), ids=WAITING_FOR_THEIR_CLIENT)
def test_calls_whose_clients_send_nothing_make_room_for_other_calls(narrow, silent, begin):
    with connected(narrow.grpc_port) as client, connected(narrow.grpc_port) as other:
        calls = []
        while not any(call.done() for call in calls):  # one was refused, or made room: the server is full
            calls.append(begin(other.channel, silent()))
            time.sleep(0.02)
        assert len(calls) > 10
        assert health(client.channel) == SERVING
        wait_until(lambda: sleep(client, 0.0).code() == grpc.StatusCode.OK, 4)
        wait_until(lambda: all(call.done() for call in calls))
        assert {call.code() for call in calls} <= {grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert health(client.channel) == SERVING


def test_a_call_that_ends_before_its_message_or_sends_something_else_is_an_invalid_argument(client):
    for stream, says in (((), "received the end of the call"), ([b"\xff\xff"], "received 2 bytes of something else")):
        code, details = refused(client.channel.stream_unary(PREDICT), iter(stream), SECONDS)
        assert (code, says in details) == ("INVALID_ARGUMENT", True), details


def test_messages_that_are_being_answered_take_a_bounded_part_of_the_memory(narrow):
    large = predict_request("sleeper", x=np.full(180_000, 8.0 / 180_000, np.float32))  # 8 seconds in 0.7 MB
    with connected(narrow.grpc_port) as client:
        running = client.prediction.Predict.future(large, SECONDS)
        wait_until(lambda: held(narrow) == 1)
        code, details = refused(client.prediction.Predict, large, SECONDS)
        assert (code, "may take 1 MiB together (DOGSNAP_MAX_HELD_MB)" in details) == ("RESOURCE_EXHAUSTED", True)
        assert not running.done()
        assert sleep(client, 0.0, timeout=0.5).code() == grpc.StatusCode.DEADLINE_EXCEEDED  # a small one may wait
        assert running.result()
        large.inputs["x"].CopyFrom(tf.make_tensor_proto(np.zeros(180_000, np.float32)))
        wait_until(lambda: client.prediction.Predict.future(large, SECONDS).code() == grpc.StatusCode.OK)


def test_many_clients_at_once_all_get_their_own_answer(server):
    def ask(number: int) -> float:
        return values(client.predict("half_plus_two", x=[float(number)]).outputs)["y"][0]

    with connected(server.grpc_port) as client, ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(200))) == [number / 2 + 2 for number in range(200)]


# -- configuration -----------------------------------------------------------------------------------------------------


def reload_request(*configs: tuple[str, Path], **more) -> model_management_pb2.ReloadConfigRequest:
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.SetInParent()
    for name, path in configs:
        request.config.model_config_list.config.add(name=name, base_path=str(path), model_platform="tensorflow", **more)
    return request


@pytest.fixture(scope="module")
def halves(tmp_path_factory) -> Path:
    """The model half with versions 1 (x / 2 + 2) and 2 (x / 2 + 3), and the model other (x / 2 + 4)."""
    models = tmp_path_factory.mktemp("grpc_halves")
    tiny_models.half_plus(2, models / "half" / "1")
    tiny_models.half_plus(3, models / "half" / "2")
    tiny_models.half_plus(4, models / "other" / "1")
    return models


@pytest.fixture
def broken(tmp_path) -> Path:
    """A model folder whose version cannot be loaded."""
    version = tmp_path / "broken" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"\xff broken")
    return version.parent


@pytest.fixture(scope="module")
def reloading(start_server, halves, tmp_path_factory):
    """A server that follows a configuration file."""
    file = tmp_path_factory.mktemp("grpc_config") / "models.config"
    file.write_text(f'model_config_list {{ config {{ name: "half" base_path: "{halves}/half" }} }}', encoding="utf-8")
    return start_server(halves, "--model-config-file", str(file), "--poll-seconds", "0.2")


@pytest.fixture
def configured(reloading, halves):
    """A client of a server that serves the model half, and no other."""
    with connected(reloading.grpc_port) as client:
        client.models.HandleReloadConfigRequest(reload_request(("half", halves / "half")), SECONDS)
        yield client


def test_a_new_configuration_replaces_the_old_one(reloading, configured, halves):
    assert values(configured.predict("half", x=[2.0]).outputs) == {"y": [4.0]}
    answer = configured.models.HandleReloadConfigRequest(reload_request(("other", halves / "other")), SECONDS)
    assert answer.status.error_code == 0
    assert values(configured.predict("other", x=[2.0]).outputs) == {"y": [5.0]}
    assert refused(configured.predict, "half")[0] == "NOT_FOUND"
    time.sleep(1)  # several scans of the folders
    assert refused(configured.predict, "half")[0] == "NOT_FOUND"
    assert requests.get(f"{reloading.url}/readyz", timeout=SECONDS).status_code == 200
    names = requests.get(f"{reloading.url}/api/models", timeout=SECONDS).json()["models"]
    assert [each["name"] for each in names] == ["other"]
    back = reload_request(("half", halves / "half"), ("other", halves / "other"))
    configured.models.HandleReloadConfigRequest(back, SECONDS)
    assert values(configured.predict("half", x=[2.0]).outputs) == {"y": [4.0]}
    assert values(configured.predict("other", x=[2.0]).outputs) == {"y": [5.0]}


@pytest.mark.parametrize(("policy", "served"), [("latest", {"2"}), ("all", {"1", "2"})])
def test_a_new_configuration_without_a_policy_has_that_of_the_server(start_server, halves, policy, served):
    server = start_server(halves, "--version-policy", policy)
    with connected(server.grpc_port) as client:
        client.models.HandleReloadConfigRequest(reload_request(("half", halves / "half")), SECONDS)
    states = requests.get(f"{server.url}/v1/models/half", timeout=SECONDS).json()["model_version_status"]
    assert {each["version"] for each in states if each["state"] == "AVAILABLE"} == served


def test_a_new_configuration_is_logged_with_its_author_and_its_changes_and_is_undone_by_one_command(
    reloading, configured, halves
):
    by = [("by", "alice")]
    request = reload_request(("other", halves / "other"))
    configured.models.HandleReloadConfigRequest(request, SECONDS, metadata=by)
    newest = next(each for each in switches(reloading) if each["kind"] == "configuration")
    assert newest["by"] == {"name": "alice", "address": "127.0.0.1"}
    assert newest["text"] == f"configuration: half in {halves}/half, all -> other in {halves}/other, all"
    assert [each["name"] for each in newest["to"]] == ["other"]
    assert datetime.now(UTC) - datetime.fromisoformat(newest["at"]) < timedelta(minutes=10)
    command = [DOGSNAP, "models", "undo", str(newest["id"]), "--url", reloading.url]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert said.startswith(f"configuration: other in {halves}/other, all -> half in {halves}/half, all (switch ")
    wait_until(lambda: "half" in served(reloading))
    wait_until(lambda: refused_or_answered(configured, "half") == {"y": [4.0]})
    assert refused(configured.predict, "other")[0] == "NOT_FOUND"
    (undo,) = [each for each in switches(reloading) if each["undoes"] == newest["id"]]
    assert undo["by"]["address"] == "127.0.0.1"


def switches(server) -> list[dict]:
    return requests.get(f"{server.url}/api/admin/switches", timeout=SECONDS).json()["switches"]


def served(server) -> list[str]:
    models = requests.get(f"{server.url}/api/models", timeout=SECONDS).json()["models"]
    return [each["name"] for each in models if each["default_version"] is not None]


def refused_or_answered(client: Client, model: str) -> dict | None:
    """What `model` makes of 2, or None while it does not answer."""
    try:
        return values(client.predict(model, x=[2.0]).outputs)
    except grpc.RpcError:
        return None


def test_a_model_moves_to_a_new_base_path_and_answers_all_the_while(configured, halves, tmp_path):
    tiny_models.half_plus(7, tmp_path / "half" / "1")
    tiny_models.half_plus(8, tmp_path / "half" / "2")
    stop, answers = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(lambda: [answers.append(refused_or_answered(configured, "half")) for _ in until(stop)])
        configured.models.HandleReloadConfigRequest(reload_request(("half", tmp_path / "half")), SECONDS)
        assert values(configured.predict("half", x=[2.0]).outputs) == {"y": [9.0]}
        stop.set()
        asking.result()
    assert {each["y"][0] for each in answers} <= {4.0, 9.0}


def until(stop: threading.Event) -> Iterator[None]:
    while not stop.is_set():
        yield


def test_a_new_configuration_sets_policy_and_labels(configured, halves):
    request = reload_request(("half", halves / "half"), version_labels={"stable": 1})
    request.config.model_config_list.config[0].model_version_policy.specific.versions.append(1)
    configured.models.HandleReloadConfigRequest(request, SECONDS)
    assert values(configured.predict("half", x=[2.0]).outputs) == {"y": [3.0]}
    labelled = predict_request("half", x=[2.0])
    labelled.model_spec.version_label = "stable"
    assert configured.prediction.Predict(labelled, SECONDS).model_spec.version.value == 1


def test_a_configuration_that_cannot_be_served_is_refused_and_changes_nothing(configured, halves, tmp_path):
    twice = reload_request(("half", halves / "half"), ("half", halves / "other"))
    custom = model_management_pb2.ReloadConfigRequest()
    custom.config.custom_model_config.SetInParent()
    specific = reload_request(("half", halves / "half"))
    specific.config.model_config_list.config[0].model_version_policy.specific.versions.append(9)
    before = values(configured.predict("half", x=[2.0]).outputs)
    wrong = {
        "Illegal to list model half multiple times in config list": twice,
        "Only ModelConfigList is currently supported": custom,
        "ServerModelConfig type not supported": model_management_pb2.ReloadConfigRequest(),
        "expected a name and a base_path": reload_request(("", halves / "half")),
        "No versions of servable x found under base path": reload_request(("x", tmp_path / "nothing")),
        "selects none of the existing versions: 1, 2": specific,
    }
    for message, request in wrong.items():
        code, details = refused(configured.models.HandleReloadConfigRequest, request, SECONDS)
        assert (code, message in details) == ("INVALID_ARGUMENT", True), details
    assert values(configured.predict("half", x=[2.0]).outputs) == before


def test_a_model_that_cannot_be_loaded_is_told_with_its_reason(configured, halves, broken):
    request = reload_request(("half", halves / "half"), ("broken", broken))
    before = values(configured.predict("half", x=[2.0]).outputs)
    code, details = refused(configured.models.HandleReloadConfigRequest, request, SECONDS)
    assert code == "UNKNOWN"
    assert details.startswith("Some models did not become available: broken version 1: ")
    assert values(configured.predict("half", x=[2.0]).outputs) == before
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "broken"
    (version,) = configured.models.GetModelStatus(status, SECONDS).model_version_status
    assert version.state == get_model_status_pb2.ModelVersionStatus.END
    assert version.status.error_code == 2
    assert version.status.error_message


def test_configuring_takes_the_token_where_there_is_one(start_server, halves):
    server = start_server(halves, "--admin-token", "open-sesame-0123456789")
    request = reload_request(("other", halves / "other"))
    with connected(server.grpc_port) as client:
        assert refused(client.models.HandleReloadConfigRequest, request, SECONDS)[0] == "UNAUTHENTICATED"
        client.models.HandleReloadConfigRequest(
            request, SECONDS, metadata=[("authorization", "Bearer open-sesame-0123456789")]
        )
        assert values(client.predict("other", x=[2.0]).outputs) == {"y": [5.0]}


def test_configuring_a_server_for_everybody_without_a_token_is_not_permitted(start_server, halves):
    server = start_server(halves, "--host", "0.0.0.0")
    with connected(server.grpc_port) as client:
        code, details = refused(client.models.HandleReloadConfigRequest, reload_request(), SECONDS)
        assert (code, "has no token" in details) == ("PERMISSION_DENIED", True)
        assert values(client.predict("other", x=[2.0]).outputs) == {"y": [5.0]}


# -- the port ----------------------------------------------------------------------------------------------------------


def test_grpc_port_0_opens_no_port(start_server, sleeper):
    server = start_server(sleeper, "--grpc-port", "0")
    assert requests.get(f"{server.url}/readyz", timeout=SECONDS).status_code == 200
    assert listening_ports(server.process.pid) == {server.port}
    assert server.stop() == 0


def listening_ports(parent: int) -> set[int]:
    """The TCP ports on which a process and its children listen."""
    links = [link for pid in (parent, *children(parent)) for link in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = set()
    for link in links:
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].split(":")[1], 16) for line in lines if line[3] == "0A" and line[9] in sockets}


def test_a_taken_port_is_told_in_one_sentence_before_anything_starts(start_server, sleeper, server):
    second = start_server(sleeper, "--grpc-port", str(server.grpc_port), wait=False)
    assert second.process.wait(600) == 1
    assert (
        second.log()
        .strip()
        .startswith(
            f"Error: cannot listen for gRPC on 127.0.0.1 port {server.grpc_port}: Address already in use; choose another"
        )
    )


def test_the_address_of_a_peer_is_read_from_grpcs_name_for_it():
    assert peer_address("ipv4:127.0.0.1:5000") == "127.0.0.1"
    assert peer_address("ipv6:%5B::1%5D:5000") == "::1"
    assert peer_address("unix:/tmp/socket") == ""


def test_metadata_is_read_like_headers():
    metadata = [("authorization", "Bearer x"), ("x-forwarded-for", "10.0.0.1"), ("trace-bin", b"\0")]
    assert headers_of(metadata) == {"Authorization": "Bearer x", "X-Forwarded-For": "10.0.0.1"}
