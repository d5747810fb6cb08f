"""Answers have a bound, and count as memory that the server holds."""

import grpc
import pytest
import tiny_models
from grpc_client import connected
from process_readings import memory, worker_of
from refusals import assert_refused

MILLION = 1_000_000


@pytest.fixture(scope="module")
def zeros_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zeros_models")
    tiny_models.zeros(folder / "zeros" / "1")
    return folder


@pytest.fixture(scope="module")
def server(start_server, zeros_models):
    return start_server(zeros_models, "--max-answer-mb", "8", "--max-held-mb", "32")


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
    assert "at most 8 MiB are given (DOGSNAP_MAX_ANSWER_MB)" in message
    response = ask(server, count, signature)
    assert_refused(response, 413, "at most 8 MiB are given (DOGSNAP_MAX_ANSWER_MB)")
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
        response, 413, "15.3 MiB as JSON; at most 8 MiB are given (DOGSNAP_MAX_ANSWER_MB)"
    )
    assert_refused(ask(server, 100 * MILLION, "empty"), 413, "DOGSNAP_MAX_ANSWER_MB")


def test_answers_count_as_memory_that_is_held_until_they_are_sent(start_server, zeros_models):
    small = start_server(zeros_models, "--max-held-mb", "2")
    for _ in range(5):
        assert call(small, 300_000) == ("OK", "300000")
        assert ask(small, 100_000).status_code == 200
    code, message = call(small, MILLION)
    assert (code, "DOGSNAP_MAX_HELD_MB" in message) == ("RESOURCE_EXHAUSTED", True)
    assert_refused(ask(small, MILLION), 503, "DOGSNAP_MAX_HELD_MB")
    assert call(small, 300_000) == ("OK", "300000")


def test_behind_a_gateway_the_bound_is_the_same(start_server, server, zeros_models):
    engine = f"grpc://127.0.0.1:{server.grpc_port}"
    gateway = start_server(zeros_models, "--engine", engine, "--max-answer-mb", "2")
    assert call(gateway, 1000) == ("OK", "1000")
    for count in (MILLION, 20 * MILLION):
        code, message = call(gateway, count)
        assert (code, "DOGSNAP_MAX_ANSWER_MB" in message) == ("INVALID_ARGUMENT", True), message
