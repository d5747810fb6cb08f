"""Answers have a bound, and count as memory that the server holds."""

import grpc
import pytest
from dogsnap.server.protocols.open_inference import SERVICE
from google.protobuf.message_factory import GetMessageClass
from support import tiny_models
from support.grpc_client import connected
from support.process_readings import memory, worker_of
from support.refusals import assert_refused
from tensorflow_serving.apis import classification_pb2

MILLION = 1_000_000


@pytest.fixture(scope="module")
def zeros_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zeros_models")
    tiny_models.zeros(folder / "zeros" / "1")
    return folder


@pytest.fixture(scope="module")
def server(start_server, zeros_models):
    return start_server(zeros_models, "--max-tensor-body-mb", "4", "--max-held-mb", "32")


def ask(server, count: int, signature: str = "serving_default", rows: bool = False):
    body = {"signature_name": signature, "inputs": {"count": count}}
    return server.post("/v1/models/zeros:predict", json=body)


def call(server, count: int, signature: str = "serving_default") -> tuple[str, str]:
    """The status and message of a call by gRPC, or the number of values."""
    with connected(server.grpc_port) as client:
        try:
            outputs = client.predict("zeros", signature=signature, count=count).outputs
            return "OK", str(outputs["y"].tensor_shape.dim[0].size)
        except grpc.RpcError as error:
            return error.code().name, error.details()


@pytest.mark.parametrize(
    ("signature", "count"),
    [("serving_default", 20 * MILLION), ("pairs", 10 * MILLION), ("texts", 20_000)],
)
def test_a_larger_answer_is_refused_naming_the_limit(server, signature, count):
    code, message = call(server, count, signature)
    assert code == "INVALID_ARGUMENT"
    assert "at most 8 MiB are given, twice DOGSNAP_MAX_TENSOR_BODY_MB" in message
    response = ask(server, count, signature)
    assert_refused(response, 413, "at most 8 MiB are given, twice DOGSNAP_MAX_TENSOR_BODY_MB")
    once = memory(worker_of(server))
    for _ in range(3):
        call(server, count, signature)
    assert memory(worker_of(server)) - once < 100  # nothing of an answer that was refused is kept
    assert ask(server, 1000, signature).status_code == 200
    assert call(server, 1000, signature)[0] == "OK"


def test_json_that_is_longer_than_its_tensor_is_refused_before_it_is_written(server):
    assert call(server, MILLION) == ("OK", str(MILLION))
    response = ask(server, MILLION)
    assert_refused(
        response, 413, "15.3 MiB as JSON; at most 8 MiB are given, twice DOGSNAP_MAX_TENSOR_BODY_MB"
    )
    assert_refused(ask(server, 100 * MILLION, "empty"), 413, "DOGSNAP_MAX_TENSOR_BODY_MB")


def test_answers_count_as_memory_that_is_held_until_they_are_sent(start_server, zeros_models):
    small = start_server(zeros_models, "--max-held-mb", "2")
    for _ in range(5):
        assert call(small, 300_000) == ("OK", "300000")
        assert ask(small, 100_000).status_code == 200
    code, message = call(small, MILLION)
    assert (code, "DOGSNAP_MAX_HELD_MB" in message) == ("RESOURCE_EXHAUSTED", True)
    assert_refused(ask(small, MILLION), 503, "DOGSNAP_MAX_HELD_MB")
    assert call(small, 300_000) == ("OK", "300000")


@pytest.mark.parametrize(("signature", "count"), [("scores", 300_000), ("classes", 20_000)])
def test_classifications_count_as_memory_that_is_held_too(
    start_server, zeros_models, signature, count
):
    """A server with room for 8 MiB; they take 100 bytes and more for each class."""
    small = start_server(zeros_models, "--max-held-mb", "8")

    def classify(count: int) -> str:
        request = classification_pb2.ClassificationRequest()
        request.model_spec.name, request.model_spec.signature_name = "zeros", signature
        features = request.input.example_list.examples.add().features
        features.feature["count"].float_list.value.append(count)
        with connected(small.grpc_port) as client:
            try:
                client.prediction.Classify(request, timeout=60)
            except grpc.RpcError as error:
                return error.code().name
        return "OK"

    def by_http(count: int) -> int:
        body = {"signature_name": signature, "examples": [{"count": float(count)}]}
        return small.post("/v1/models/zeros:classify", json=body).status_code

    for _ in range(3):
        assert (classify(1000), by_http(1000)) == ("OK", 200)
        assert (classify(count), by_http(count)) == ("RESOURCE_EXHAUSTED", 503)


def test_the_open_inference_protocol_has_the_same_bounds(start_server, server, zeros_models):
    small = start_server(zeros_models, "--max-held-mb", "2")

    def infer(asked, count: int):
        tensor = {"name": "count", "datatype": "INT32", "shape": [], "data": [count]}
        return asked.post("/v2/models/zeros/infer", json={"inputs": [tensor]})

    assert_refused(infer(server, MILLION), 413, "15.3 MiB as JSON; at most 8 MiB")
    assert_refused(infer(small, MILLION), 503, "DOGSNAP_MAX_HELD_MB")
    for _ in range(5):
        assert infer(small, 100_000).status_code == 200
        assert call_open_inference(small, 300_000) == (
            "OK",
            [("y", "FP32", [300_000], 1_200_000)],
        )
    code, message = call_open_inference(small, MILLION)
    assert (code, "DOGSNAP_MAX_HELD_MB" in message) == ("RESOURCE_EXHAUSTED", True)


def call_open_inference(server, count: int, **fields):
    """The status and message of a call whose values are in the field of their type,
    or what the outputs are, with the number of their bytes.
    """
    tensor = {"name": "count", "datatype": "INT32", "contents": {"int_contents": [count]}}
    method = SERVICE.methods_by_name["ModelInfer"]
    request_class = GetMessageClass(method.input_type)
    request = request_class(model_name="zeros", inputs=[tensor], **fields)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_class.SerializeToString,
            GetMessageClass(method.output_type).FromString,
        )
        try:
            answer = infer(request, timeout=60)
        except grpc.RpcError as error:
            return error.code().name, error.details()
    described = []
    for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True):
        described.append((output.name, output.datatype, list(output.shape), len(raw)))
    return "OK", described


def test_a_version_number_of_any_length_is_refused_in_a_sentence(server):
    code, message = call_open_inference(server, 1, model_version="9" * 5000)
    assert (code, message[:14]) == ("INVALID_ARGUMENT", "version is '99")


def test_behind_a_gateway_the_bound_is_the_same(start_server, server, zeros_models):
    engine = f"grpc://127.0.0.1:{server.grpc_port}"
    gateway = start_server(zeros_models, "--engine", engine, "--max-tensor-body-mb", "1")
    assert call(gateway, 1000) == ("OK", "1000")
    for count in (MILLION, 20 * MILLION):
        code, message = call(gateway, count)
        assert (code, "DOGSNAP_MAX_TENSOR_BODY_MB" in message) == ("INVALID_ARGUMENT", True), (
            message
        )
