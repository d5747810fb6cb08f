"""Memory for bodies: what is inflated counts before it is inflated."""

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from process_readings import memory, worker_of

BODIES = 100
CALLS = 16  # at a time: the client holds each message before it compresses it
COPY = 100  # MiB: one body that is being made beside those that are counted
INFLATED = 100 * 2**20


@pytest.fixture(params=[16, 128])  # MiB
def limit(request) -> int:
    return request.param


@pytest.fixture
def server(start_server, half_models, limit):
    server = start_server(half_models, "--max-held-mb", str(limit))
    assert predict(server, b'{"instances": [1.0]}', {}) == 200
    return server


def predict(server, body: bytes, headers: dict[str, str]) -> int:
    return server.post("/v1/models/half:predict", data=body, headers=headers, timeout=120).status_code


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


@pytest.mark.long
def test_bodies_that_inflate_to_more_than_there_is_room_for_are_refused(server, limit):
    worker, body = worker_of(server), gzip.compress(b" " * (INFLATED - 1000), 9)
    assert len(body) < 110_000
    with Peak(server) as peak, ThreadPoolExecutor(BODIES) as pool:
        headers = {"Content-Encoding": "gzip"}
        statuses = [*pool.map(lambda _: predict(server, body, headers), range(BODIES))]
    print(f"{BODIES} gzipped bodies at {limit} MiB: {peak.more():.0f} MiB more, {sorted(set(statuses))}")
    assert set(statuses) <= {400, 413, 503}  # 400: it is no JSON
    assert statuses.count(503) > BODIES / 2
    assert peak.more() < limit + COPY
    assert worker_of(server) == worker
    assert predict(server, b'{"instances": [1.0]}', {}) == 200


@pytest.mark.long
def test_bodies_that_declare_to_be_smaller_than_they_are_take_no_more_than_they_declare(server):
    request = b'{"instances": [1.0]}'  # would be answered if the blanks behind it were cut off
    body = gzip.compress(request.ljust(INFLATED - 1000), 9)[:-4] + len(request).to_bytes(4, "little")
    with Peak(server) as peak, ThreadPoolExecutor(BODIES) as pool:
        headers = {"Content-Encoding": "gzip"}
        statuses = [*pool.map(lambda _: predict(server, body, headers), range(BODIES))]
    assert set(statuses) == {400}
    assert peak.more() < COPY / 2


@pytest.mark.long
def test_grpc_messages_that_inflate_to_more_than_there_is_room_for_are_refused(server, limit):
    worker, message = worker_of(server), bytes(INFLATED - 1000)

    def code(_: int) -> str:
        return call.future(message, timeout=120, compression=grpc.Compression.Gzip).code().name

    with Peak(server) as peak, grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        with ThreadPoolExecutor(CALLS) as pool:
            codes = [*pool.map(code, range(BODIES))]
    print(f"{BODIES} compressed messages at {limit} MiB: {peak.more():.0f} MiB more, {sorted(set(codes))}")
    assert set(codes) <= {"UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
    assert peak.more() < limit + COPY
    assert worker_of(server) == worker
    assert predict(server, b'{"instances": [1.0]}', {}) == 200
