"""Memory for bodies: what is inflated counts before it is inflated, by HTTP and by gRPC."""

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import requests
from server_process import memory, worker_of
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

BODIES = 100
LIMIT = 16  # MiB
COPY = 100  # MiB: one body that is being made beside those that are counted
INFLATED = 100 * 2**20
MESSAGE = 12 * 2**20
CALLERS = 30  # at a time: their messages are in this process before they are compressed


@pytest.fixture(scope="module")
def server(start_server, half_models):
    server = start_server(half_models, "--max-held-mb", str(LIMIT))
    assert predict(server, b'{"instances": [1.0]}', {}) == 200
    return server


def predict(server, body: bytes, headers: dict[str, str]) -> int:
    return requests.post(f"{server.url}/v1/models/half:predict", data=body, headers=headers, timeout=120).status_code


class Peak:
    """The most memory that the worker takes while the block lasts, in MiB above what it has at its start."""

    def __init__(self, server):
        self._worker, self._ended = worker_of(server), threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._start = self.most = memory(self._worker)

    def _look(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, memory(self._worker))

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def more(self) -> float:
        return self.most - self._start


@pytest.mark.alone
def test_bodies_that_inflate_to_more_than_there_is_room_for_are_refused(server):
    worker, body = worker_of(server), gzip.compress(b" " * (INFLATED - 1000), 9)
    assert len(body) < 110_000
    with Peak(server) as peak, ThreadPoolExecutor(BODIES) as pool:
        headers = {"Content-Encoding": "gzip"}
        statuses = [*pool.map(lambda _: predict(server, body, headers), range(BODIES))]
    print(f"{BODIES} gzipped bodies: {peak.more():.0f} MiB more, {sorted(set(statuses))}")
    assert set(statuses) <= {400, 413, 503}  # 400: it is no JSON
    assert statuses.count(503) > BODIES / 2
    assert peak.more() < LIMIT + COPY
    assert worker_of(server) == worker
    assert predict(server, b'{"instances": [1.0]}', {}) == 200


def code_of(stub, request) -> grpc.StatusCode:
    return stub.Predict.future(request, 120, compression=grpc.Compression.Gzip).code()


@pytest.mark.alone
def test_compressed_messages_that_inflate_to_more_than_there_is_room_for_are_refused(server):
    worker = worker_of(server)
    request = predict_pb2.PredictRequest(model_spec={"name": "half"})
    request.inputs["x"].tensor_content = b"\0" * MESSAGE
    request.inputs["x"].dtype = 1
    options = [("grpc.max_send_message_length", -1)]
    with Peak(server) as peak, grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with ThreadPoolExecutor(CALLERS) as pool:
            codes = {*pool.map(lambda _: code_of(stub, request), range(BODIES))}
    print(f"{BODIES} compressed messages: {peak.more():.0f} MiB more, {sorted(code.name for code in codes)}")
    assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.CANCELLED}
    assert peak.more() < LIMIT + COPY
    assert worker_of(server) == worker
