"""Connections of clients that are slow, silent or hostile: they delay no others, and each gets an answer or is closed."""

import contextlib
import json
import re
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import requests
from dogsnap.server.app import init_messages
from dogsnap.server.bodies import receiving
from dogsnap.server.gunicorn_config import MANY_FILES, Logger
from dogsnap.server.middleware import connections
from dogsnap.server.middleware.connections import LINGER_SECONDS
from dogsnap.server.thread_counts import grpc_connections
from dogsnap.settings import Settings
from flask import Flask, Response
from grpc_health.v1 import health_pb2, health_pb2_grpc
from gunicorn.config import Config
from support.process_readings import memory, most_seconds, worker_of
from support.refusals import assert_refused
from support.waiting import wait_until

SLOW_CLIENTS = 200
PREDICT = "/v1/models/half:predict"
BODY = b'{"instances": [1.0]}'


def post(*headers: str, body: bytes = b"", path: str = PREDICT) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode() + body


def connected(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


@pytest.fixture(scope="module")
def server(start_server, half_models):
    constants = {"dogsnap.server.bodies.receiving.RECEIVE_SECONDS": 6}
    flags = ("--max-tensor-body-mb", "1", "--max-held-mb", "16")
    return start_server(half_models, *flags, constants=constants)


@contextlib.contextmanager
def slow_clients(server, count: int) -> Iterator[list[socket.socket]]:
    """Clients that send a body of 500 bytes byte by byte, four bytes a second, while the block lasts."""
    head, over = post("Content-Length: 500"), threading.Event()

    def drip(clients: list[socket.socket]) -> None:
        for _ in range(500):
            for each in clients:
                with contextlib.suppress(OSError):  # cut off by the server
                    each.send(b" ")
            if over.wait(0.25):
                return

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        clients = [stack.enter_context(connected(server)) for _ in range(count)]
        for each in clients:
            each.sendall(head)
        pool.submit(drip, clients)
        try:
            yield clients
        finally:
            over.set()


def predict_seconds(server) -> float:
    begun = time.monotonic()
    assert server.post(PREDICT, data=BODY).json() == {"predictions": [1.5]}
    return time.monotonic() - begun


@pytest.mark.long
def test_two_hundred_slow_clients_do_not_delay_the_others(server):
    with slow_clients(server, SLOW_CLIENTS):
        time.sleep(1)
        seconds = [predict_seconds(server) for _ in range(100)]
        with requests.Session() as session:
            assert session.get(f"{server.url}/healthz", timeout=5).status_code == 200
        time.sleep(6)  # they are all told the limit meanwhile
        seconds += [predict_seconds(server) for _ in range(100)]
    print(
        f"{SLOW_CLIENTS} slow clients; the slowest of {len(seconds)} other answers took {1000 * max(seconds):.0f} ms"
    )
    assert max(seconds) < most_seconds(0.5)


def received_from(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def answer(client: socket.socket) -> tuple[bytes, dict]:
    """Status line and body."""
    head, _, body = received_from(client).partition(b"\r\n\r\n")
    return head.splitlines()[0], json.loads(body)


def test_a_client_that_drips_its_body_is_told_the_limit(server):
    with slow_clients(server, 1) as (client,):
        status, error = answer(client)
    assert status.startswith(b"HTTP/1.1 408 ")
    assert "did not arrive in 6 seconds" in error["error"]
    assert error["request_id"]


def test_requests_that_would_fill_the_memory_are_refused_and_the_server_goes_on(server):
    half = post("Content-Length: 1000000", body=b" " * 900_000)
    clients = [connected(server) for _ in range(20)]
    for client in clients:
        client.sendall(half)
    refused, _, _ = select.select(clients, [], [], 60)  # whose bytes came last
    status, body = answer(refused[0])
    assert b" 503 " in status
    assert "(limit 16 MiB, DOGSNAP_MAX_HELD_MB)" in body["error"]
    for client in clients:
        client.close()
    with requests.Session() as session:  # what was answered or refused leaves its memory to others
        for _ in range(20):
            response = session.post(server.url + PREDICT, data=BODY + b" " * 900_000, timeout=60)
            assert response.json() == {"predictions": [1.5]}


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(server):
    with connected(server) as client:
        client.sendall(
            post(f"Content-Length: {len(BODY)}", "Expect: 100-continue", "Connection: close")
        )
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(BODY)
        assert answer(client) == (b"HTTP/1.1 200 OK", {"predictions": [1.5]})


def test_requests_sent_one_behind_the_other_are_answered_in_turn(server):
    long = BODY + b" " * 20_000  # more than gunicorn's parser reads at once
    one = post(f"Content-Length: {len(long)}", body=long)
    last = post(f"Content-Length: {len(BODY)}", "Connection: close", body=BODY)
    with connected(server) as client:
        client.sendall(one + one + last[:70])
        time.sleep(0.2)
        client.sendall(last[70:])
        received = received_from(client)
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert received.count(b'{"predictions":[1.5]}') == 3


def test_half_a_request_is_refused_with_what_is_missing_and_no_piece_of_it_is_logged(server):
    for framing, half, sentence in (
        (
            "Content-Length: 500",
            b'{"secret-photo',
            "expected 500 bytes (Content-Length), received 14",
        ),
        ("Transfer-Encoding: chunked", b'14\r\n{"secret-photo', "ended early"),
    ):
        with connected(server) as client:
            client.sendall(post(framing, body=half))
            client.shutdown(socket.SHUT_WR)
            status, body = answer(client)
        assert status.startswith(b"HTTP/1.1 400 ")
        assert sentence in body["error"]
    assert "secret-photo" not in server.log()


def test_a_body_or_a_head_over_the_limit_is_refused_while_it_is_still_being_sent(server):
    assert_refused(server.post(PREDICT, data=b" " * 20_000_000), 413, "DOGSNAP_MAX_TENSOR_BODY_MB")
    assert exchange(server, b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 120_000).startswith(
        b"HTTP/1.1 431 "
    )
    assert exchange(server, post("Content-Length: " + "9" * 30, body=BODY)).startswith(
        b"HTTP/1.1 413 "
    )


@pytest.mark.long
def test_a_client_that_leaves_its_connection_open_delays_no_other(server):
    for request, status in (
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (post("Transfer-Encoding: chunked", body=b"5\r\nhelloXX\r\n"), 400),
    ):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(connected(server)) for _ in range(20)]
            begun = time.monotonic()
            for client in clients:
                client.sendall(request)
            for client in clients:
                assert client.recv(1000).startswith(b"HTTP/1.1 %d" % status)
            assert predict_seconds(server) < most_seconds(2)
            assert time.monotonic() - begun < most_seconds(5)


def test_a_deadline_ends_no_connection_whose_request_has_ended_meanwhile(monkeypatch):
    """Such a block cannot end before those that are overdue are dealt with."""
    begun, has_left, left_early = threading.Event(), threading.Event(), []

    def end_reading(_: socket.socket) -> None:
        begun.set()
        left_early.append(has_left.wait(0.5))

    monkeypatch.setattr(connections, "end_reading", end_reading)
    deadlines, (ours, others) = connections.ReadingDeadlines(), socket.socketpair()
    with ours, others:
        with deadlines.until(time.monotonic(), ours):
            assert begun.wait(10)
        has_left.set()
    assert left_early == [False]


# Where a request ends has one meaning here, or none: what could mean two things to two servers is refused, and nothing
# behind it on its connection is read as a request.
BEHIND = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"
ONE_CHUNK = b"14\r\n" + BODY + b"\r\n"
UNCLEAR = {
    "the same length twice": post("Content-Length: 20", "Content-Length: 20", body=BODY),
    "two lengths": post("Content-Length: 20", "Content-Length: 0", body=BODY),
    "a list of lengths": post("Content-Length: 20, 20", body=BODY),
    "a length with a sign": post("Content-Length: +20", body=BODY),
    "a negative length": post("Content-Length: -20", body=BODY),
    "a length in hexadecimal": post("Content-Length: 0x14", body=BODY),
    "a length with an underscore": post("Content-Length: 2_0", body=BODY),
    "a blank before the colon": post("Content-Length : 20", body=BODY),
    "a length and chunks": post("Content-Length: 4", CHUNKED, body=b"0\r\n\r\n"),
    "chunks and a length": post(CHUNKED, "Content-Length: 20", body=ONE_CHUNK + b"0\r\n\r\n"),
    "chunks twice": post(CHUNKED, CHUNKED, body=ONE_CHUNK + b"0\r\n\r\n"),
    "chunks that are not the last coding": post(
        "Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"
    ),
    "identity": post("Transfer-Encoding: identity", "Content-Length: 20", body=BODY),
    "an unknown coding": post("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "a coding behind a control character": post(
        "Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"
    ),
    "chunks in HTTP/1.0": post(CHUNKED, body=b"0\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a folded header": post("X-A: b\r\n c", "Content-Length: 20", body=BODY),
    "a folded coding": post("Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"),
    "a fold before any header": b"POST / HTTP/1.1\r\n X-A: b\r\nHost: x\r\n\r\n",
    "lines that end with LF alone": post().replace(b"\r\n", b"\n"),
    "LF within a header": post("X-A: b\nContent-Length: 20", body=BODY),
    "CR within a header": post("X-A: b\rContent-Length: 20", body=BODY),
    "a zero byte within a header": post("X-A: b\0c"),
    "two hosts": post("Host: y"),
    "no version": b"GET /health\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a proxy's greeting": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + post(),
    "a chunk size with 0x": post(CHUNKED, body=b"0x14\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk size with a sign": post(CHUNKED, body=b"+14\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk size after a blank": post(CHUNKED, body=b" 14\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk size beyond all": post(CHUNKED, body=b"FFFFFFFFFFFFFFFF0\r\n" + BODY),
    "a chunk longer than it says": post(CHUNKED, body=b"14\r\n" + BODY + b"xx\r\n0\r\n\r\n"),
    "chunks whose lines end with LF alone": post(CHUNKED, body=b"14\n" + BODY + b"\n0\n\n"),
    "a chunk extension that ends with LF": post(CHUNKED, body=b"14;a\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk extension with CR": post(CHUNKED, body=b"14;a\rb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a length in a trailer": post(CHUNKED, body=ONE_CHUNK + b"0\r\nContent-Length: 5\r\n\r\n"),
    "a request as a trailer": post(CHUNKED, body=ONE_CHUNK + b"0\r\n" + BEHIND),
    "an expectation that nobody knows": post("Expect: 200-ok", "Content-Length: 20", body=BODY),
    "a request line that is too long": post(path="/" + "a" * 9000),
    "a header that is too long": post("X-A: " + "a" * 9000),
    "too many headers": post(*[f"X-{number}: a" for number in range(120)]),
}


def exchange(server, data: bytes) -> bytes:
    with connected(server) as client:
        client.sendall(data)
        return received_from(client)


@pytest.mark.parametrize("case", UNCLEAR)
def test_a_request_with_an_unclear_end_is_refused_and_what_follows_it_is_not_read(server, case):
    received = exchange(server, UNCLEAR[case] + BEHIND)
    head, _, body = received.partition(b"\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", received)[1:] == [], received
    assert head.split()[1] in (b"400", b"408", b"413", b"414", b"417", b"431", b"501")
    if (
        b"application/json" in head
    ):  # else gunicorn has refused it, before there is a request to answer
        assert set(json.loads(body)) == {"error", "request_id"}


LENGTH = "Content-Length: 20"
EXTENDED = b'14;a=b;c="d"\r\n' + BODY + b"\r\n0;x\r\nX-A: b\r\n\r\n"
EXPECTING = post("Expect: 100-continue", "Connection: keep-alive", LENGTH, body=BODY)
CLEAR = {
    "chunks with extensions and a trailer": post(CHUNKED, body=EXTENDED),
    "a target that names its host": post(LENGTH, body=BODY, path=f"http://x:1{PREDICT}"),
    "an offer of another protocol": post("Connection: Upgrade", "Upgrade: h2c", LENGTH, body=BODY),
    "an expectation in HTTP/1.0": EXPECTING.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a header that would move its path": post(
        "SCRIPT_NAME: /x", "PATH_INFO: /y", LENGTH, body=BODY
    ),
    "an empty line before it": b"\r\n" + post(LENGTH, body=BODY),
    "a header that looks like a length": post("Content_Length: 3", LENGTH, body=BODY),
}


@pytest.mark.parametrize("case", CLEAR)
def test_an_unusual_request_with_a_clear_end_is_answered_and_so_is_the_next(server, case):
    received = exchange(
        server, CLEAR[case] + BEHIND.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    )
    assert re.findall(rb"HTTP/1\.[01] (\d+)", received) == [b"200", b"200"], received
    assert b'{"predictions":[1.5]}' in received
    assert received.endswith(b"healthy")


@pytest.fixture
def many_files():
    """Lets this process open more than a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip(f"this machine lets a process open {hard} files at most; the test needs 4096")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
def test_a_thousand_idle_connections_delay_no_other_and_take_little_memory(
    start_server, half_models, many_files
):
    server = start_server(half_models)
    predict_seconds(server)
    before = memory(worker_of(server))
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connected(server))
        seconds = [predict_seconds(server) for _ in range(20)]
        more = memory(worker_of(server)) - before
    print(
        f"1,000 idle connections: {more:.0f} MiB more, the slowest other answer took {1000 * max(seconds):.0f} ms"
    )
    assert more < 150
    assert max(seconds) < most_seconds(0.5)


def test_answered_clients_that_do_not_close_are_closed(server):
    files = Path(f"/proc/{worker_of(server)}/fd")
    before = len(list(files.iterdir()))
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(connected(server))
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        wait_until(lambda: len(list(files.iterdir())) < before + 20, 2 * LINGER_SECONDS)


@pytest.mark.long
def test_clients_that_do_not_read_their_answers_delay_no_other(server):
    """They have the segment size of a slow network, for which Linux buffers little by itself."""
    app = requests.get(f"http://127.0.0.1:{server.port}/app.js", timeout=60)
    if app.status_code == 503:
        pytest.skip("the app is not built: make setup builds its app.js, a large file to send")
    assert len(app.content) > 100_000
    with contextlib.ExitStack() as stack:
        for _ in range(SLOW_CLIENTS):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET /app.js HTTP/1.1\r\nHost: x\r\n\r\n")  # 320 kB
        time.sleep(1)
        assert predict_seconds(server) < most_seconds(2)


@pytest.mark.long
def test_silent_grpc_connections_leave_files_for_http_connections(server, many_files):
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", server.grpc_port), timeout=60)
            )
            for _ in range(grpc_connections(MANY_FILES) + 50)
        ]
        for client in clients[-20:]:
            assert client.recv(100) == b""  # closed at once; the first would be greeted
        assert predict_seconds(server) < most_seconds(2)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        assert check(health_pb2.HealthCheckRequest(), 60, wait_for_ready=True).status == 1


LARGE = bytes(range(256)) * 64 * 1024  # 16 MiB, more than Linux buffers


@pytest.fixture
def pair(monkeypatch):
    """Both ends of a connection: the server's, which ends after a pause of a second, and the client's."""
    monkeypatch.setattr(receiving, "PAUSE_SECONDS", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as clients:
        ours, _ = listener.accept()
        with ours:
            yield ours, clients


def send_large(ours: socket.socket) -> None:
    """Send LARGE as gunicorn sends an answer."""
    app = Flask("large")
    init_messages(app, Settings())
    app.add_url_rule("/", view_func=lambda: Response(LARGE))
    answer = app.test_client().get("/", environ_overrides={"gunicorn.socket": ours}, buffered=False)
    assert answer.content_length == len(LARGE)
    for piece in answer.response:
        ours.sendall(piece)
    ours.shutdown(socket.SHUT_WR)


def read_slowly(connection: socket.socket) -> bytearray:
    """16 MiB in more than 3 s."""
    received = bytearray()
    while piece := connection.recv(1 << 20, socket.MSG_WAITALL):
        received += piece
        time.sleep(0.2)
    return received


def test_an_answer_is_sent_to_the_end_as_long_as_its_client_goes_on_reading(pair):
    ours, clients = pair
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(read_slowly, clients)
        send_large(ours)
        assert received.result() == LARGE


@pytest.mark.measures
def test_a_client_that_stops_reading_its_answer_is_disconnected(pair):
    ours, _ = pair
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        send_large(ours)
    assert time.monotonic() - begun < most_seconds(5)


def test_a_client_that_stopped_reading_is_a_line_in_the_log_and_no_traceback(caplog):
    logger = Logger(Config())
    for error in (TimeoutError("timed out"), OSError("no route to host")):
        try:
            raise error
        except OSError:
            logger.exception("Socket error processing request.")
        assert (caplog.records[-1].exc_info is None) == isinstance(error, TimeoutError)
        assert ("it stopped reading its answer" in caplog.messages[-1]) == isinstance(
            error, TimeoutError
        )
