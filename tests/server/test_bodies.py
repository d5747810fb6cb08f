"""Memory for bodies: what is inflated counts before it is inflated."""

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from support.process_readings import memory, worker_of

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
    return server.post(
        "/v1/models/half:predict", data=body, headers=headers, timeout=120
    ).status_code


@contextmanager
def at_most_more(server, most: float) -> Iterator[None]:
    """Fails if the worker takes more than `most` MiB above what it has now, or ends, while the block lasts."""
    worker = worker_of(server)
    before = memory(worker)
    Path(f"/proc/{worker}/clear_refs").write_text(
        "5", encoding="ascii"
    )  # from here on the peak is counted (proc(5))
    yield
    more = memory(worker, "VmHWM") - before
    print(f"{more:.0f} MiB more")
    assert more < most
    assert worker_of(server) == worker
    assert predict(server, b'{"instances": [1.0]}', {}) == 200


def statuses(server, body: bytes) -> list[int]:
    """The answers to BODIES gzipped bodies at once."""
    with ThreadPoolExecutor(BODIES) as pool:
        return [
            *pool.map(lambda _: predict(server, body, {"Content-Encoding": "gzip"}), range(BODIES))
        ]


@pytest.mark.long
def test_bodies_that_inflate_to_more_than_there_is_room_for_are_refused(server, limit):
    body = gzip.compress(b" " * (INFLATED - 1000), 9)
    assert len(body) < 110_000
    with at_most_more(server, limit + COPY):
        answers = statuses(server, body)
    print(f"{BODIES} gzipped bodies at {limit} MiB: {sorted(set(answers))}")
    assert set(answers) <= {400, 413, 503}  # 400: it is no JSON
    assert answers.count(503) > BODIES / 2


@pytest.mark.long
def test_bodies_that_declare_to_be_smaller_than_they_are_take_no_more_than_they_declare(server):
    request = b'{"instances": [1.0]}'  # would be answered if the blanks behind it were cut off
    body = gzip.compress(request.ljust(INFLATED - 1000), 9)[:-4] + len(request).to_bytes(
        4, "little"
    )
    with at_most_more(server, COPY / 2):
        assert set(statuses(server, body)) == {400}


@pytest.mark.long
def test_grpc_messages_that_inflate_to_more_than_there_is_room_for_are_refused(server, limit):
    message = bytes(INFLATED - 1000)

    def code(_: int) -> str:
        return call.future(message, timeout=120, compression=grpc.Compression.Gzip).code().name

    with (
        at_most_more(server, limit + COPY),
        grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel,
    ):
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        with ThreadPoolExecutor(CALLS) as pool:
            codes = [*pool.map(code, range(BODIES))]
    print(f"{BODIES} compressed messages at {limit} MiB: {sorted(set(codes))}")
    assert set(codes) <= {"UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
