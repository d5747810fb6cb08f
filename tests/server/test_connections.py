"""Connections of clients that are slow, silent or hostile: they delay no others, and each gets an answer or is closed."""

import contextlib
import io
import json
import re
import resource
import select
import socket
import threading
import time
from pathlib import Path

import grpc
import pytest
import requests
import tiny_models
from flask import Flask, Response
from grpc_health.v1 import health_pb2, health_pb2_grpc
from gunicorn.config import Config
from process_readings import memory, most_seconds, worker_of
from waiting import wait_until

from backend.addresses import grpc_connections
from backend.app import init_messages
from backend.errors import DogsnapError
from backend.http_server.config import MANY_FILES, Logger, gunicorn_options
from backend.middleware import bodies, connections
from backend.middleware.connections import LINGER_SECONDS
from backend.settings import Settings

SLOW_CLIENTS = 200
PREDICT = "/v1/models/half_plus_two:predict"
BODY = b'{"instances": [1.0]}'


def post(*headers: str, body: bytes = b"", path: str = PREDICT) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode() + body


def connected(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    tiny_models.half_plus(2, models / "half_plus_two" / "1")
    return models


@pytest.fixture(scope="module")
def server(start_server, models):
    return start_server(models, "--receive-seconds", "6", "--max-tensor-body-mb", "1", "--max-held-mb", "16")


class Slow:
    """Clients that send a request byte by byte, four bytes a second, until `stop`."""

    def __init__(self, server, request: bytes, count: int):
        self.sockets = [connected(server) for _ in range(count)]
        self._request, self._stop = request, threading.Event()
        self._thread = threading.Thread(target=self._drip)

    def _drip(self) -> None:
        for place in range(len(self._request)):
            for each in self.sockets:
                try:
                    each.send(self._request[place : place + 1])
                except OSError:
                    continue  # cut off by the server
            if self._stop.wait(0.25):
                return

    def __enter__(self) -> "Slow":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for each in self.sockets:
            each.close()


def predict_seconds(server) -> float:
    begun = time.monotonic()
    assert server.post(PREDICT, data=BODY).json() == {"predictions": [2.5]}
    return time.monotonic() - begun


@pytest.mark.long
def test_two_hundred_slow_clients_do_not_delay_the_others(server):
    with Slow(server, post("Content-Length: 500", body=b" " * 500), SLOW_CLIENTS):
        time.sleep(1)
        seconds = [predict_seconds(server) for _ in range(100)]
        with requests.Session() as session:
            assert session.get(f"{server.url}/healthz", timeout=5).status_code == 200
        time.sleep(6)  # they are all told the limit meanwhile
        seconds += [predict_seconds(server) for _ in range(100)]
    print(f"{SLOW_CLIENTS} slow clients; the slowest of {len(seconds)} other answers took {1000 * max(seconds):.0f} ms")
    assert max(seconds) < most_seconds(0.5)


def answer(client: socket.socket) -> tuple[bytes, dict]:
    """Status line and body; waits until the server closes."""
    head, _, body = b"".join(iter(lambda: client.recv(65536), b"")).partition(b"\r\n\r\n")
    return head.splitlines()[0], json.loads(body)


def test_a_client_that_drips_its_body_is_told_the_limit(server):
    with Slow(server, post("Content-Length: 500", body=b" " * 500), 1) as slow:
        status, error = answer(slow.sockets[0])
    assert status.startswith(b"HTTP/1.1 408 ")
    assert "6 seconds (DOGSNAP_RECEIVE_SECONDS)" in error["error"]
    assert error["request_id"]


def test_requests_that_would_fill_the_memory_are_refused_and_the_server_goes_on(server):
    half = post("Content-Length: 1000000", body=b" " * 900_000)
    clients = [connected(server) for _ in range(20)]
    for client in clients:
        client.sendall(half)
    refused, _, _ = select.select(clients, [], [], 60)  # whose bytes came last
    status, body = answer(refused[0])
    assert b" 503 " in status
    assert "16 MiB together (DOGSNAP_MAX_HELD_MB)" in body["error"]
    for client in clients:
        client.close()
    predict_seconds(server)


def test_the_memory_of_answered_requests_can_be_used_again(server):
    with requests.Session() as session:
        for _ in range(20):  # in all more than DOGSNAP_MAX_HELD_MB
            response = session.post(server.url + PREDICT, data=BODY + b" " * 900_000, timeout=60)
            assert response.json() == {"predictions": [2.5]}


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(server):
    with connected(server) as client:
        client.sendall(post(f"Content-Length: {len(BODY)}", "Expect: 100-continue", "Connection: close"))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(BODY)
        status, body = answer(client)
    assert status == b"HTTP/1.1 200 OK"
    assert body == {"predictions": [2.5]}


def test_requests_sent_one_behind_the_other_are_answered_in_turn(server):
    long = BODY + b" " * 20_000  # more than gunicorn's parser reads at once
    one = post(f"Content-Length: {len(long)}", body=long)
    last = post(f"Content-Length: {len(BODY)}", "Connection: close", body=BODY)
    with connected(server) as client:
        client.sendall(one + one + last[:70])
        time.sleep(0.2)
        client.sendall(last[70:])
        received = b"".join(iter(lambda: client.recv(65536), b""))
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert received.count(b'{"predictions":[2.5]}') == 3


@pytest.mark.parametrize(
    ("framing", "half", "sentence"),
    [
        ("Content-Length: 500", b'{"secret-photo', "500 bytes were promised, 14 came"),
        ("Transfer-Encoding: chunked", b'14\r\n{"secret-photo', "ended early"),
    ],
)
def test_half_a_request_is_refused_with_what_is_missing_and_no_piece_of_it_is_logged(server, framing, half, sentence):
    with connected(server) as client:
        client.sendall(post(framing, body=half))
        client.shutdown(socket.SHUT_WR)
        status, body = answer(client)
    assert status.startswith(b"HTTP/1.1 400 ")
    assert sentence in body["error"]
    assert "secret-photo" not in server.log()


def test_a_body_or_a_head_over_the_limit_is_refused_while_it_is_still_being_sent(server):
    response = server.post(PREDICT, data=b" " * 20_000_000)
    assert response.status_code == 413
    assert "DOGSNAP_MAX_TENSOR_BODY_MB" in response.json()["error"]
    assert exchange(server, b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 120_000).startswith(b"HTTP/1.1 431 ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
        (post("Transfer-Encoding: chunked", body=b"5\r\nhelloXX\r\n"), 400),
    ],
    ids=["answered", "broken body"],
)
def test_a_client_that_leaves_its_connection_open_delays_no_other(server, request_, status):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(20)]
        begun = time.monotonic()
        for client in clients:
            client.sendall(request_)
        for client in clients:
            assert client.recv(1000).startswith(b"HTTP/1.1 %d" % status)
        assert predict_seconds(server) < most_seconds(2)
        assert time.monotonic() - begun < most_seconds(5)


class FailsOnce(io.BytesIO):
    """A body like gunicorn's: reading fails once, and goes on after that."""

    def __init__(self, error: Exception):
        super().__init__(b"the rest")
        self._errors = [error]

    def read(self, size: int | None = -1) -> bytes:
        if self._errors:
            raise self._errors.pop()
        return super().read(size)


@pytest.mark.parametrize("error", [TimeoutError("timed out"), ValueError("a chunk without an end")])
def test_nothing_more_is_read_from_a_connection_whose_body_failed(error):
    ours, clients = socket.socketpair()
    with ours, clients:
        environ = {"gunicorn.socket": ours, "wsgi.input": FailsOnce(error), "SERVER_PROTOCOL": "HTTP/1.1"}
        body = bodies.ReceivedBody(environ, bodies.HeldMemory(1), connections.ReadingDeadlines(), seconds=60)
        with pytest.raises(DogsnapError):
            body.read(100)
        body.finish()
        ours.settimeout(1)
        assert ours.recv(1) == b""


def test_a_deadline_ends_no_connection_whose_request_has_ended_meanwhile(monkeypatch):
    """Two are overdue at once; the second one's request ends while the deadline of the first is dealt with."""
    events, first_is_ended, second_has_left = [], threading.Event(), threading.Event()

    def end_reading(connection: socket.socket) -> None:
        events.append(names[connection])
        first_is_ended.set()
        second_has_left.wait(0.5)

    monkeypatch.setattr(connections, "end_reading", end_reading)
    deadlines, end = connections.ReadingDeadlines(), time.monotonic() + 0.3
    ours, others = socket.socketpair()
    names = {ours: "first", others: "second"}

    def read() -> None:
        with deadlines.until(end, others):
            first_is_ended.wait(10)
        events.append("the second has left")
        second_has_left.set()

    with ours, others, deadlines.until(end, ours):
        reader = threading.Thread(target=read)
        reader.start()
        reader.join()
        time.sleep(2 * connections.CHECK_SECONDS)
    assert "first" in events
    assert events[-1] == "the second has left"


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
    "chunks that are not the last coding": post("Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
    "identity": post("Transfer-Encoding: identity", "Content-Length: 20", body=BODY),
    "an unknown coding": post("Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "a coding behind a control character": post("Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
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
    """All that comes back until the server closes the connection."""
    with connected(server) as client:
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("case", UNCLEAR)
def test_a_request_with_an_unclear_end_is_refused_and_what_follows_it_is_not_read(server, case):
    received = exchange(server, UNCLEAR[case] + BEHIND)
    head, _, body = received.partition(b"\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", received)[1:] == [], received
    assert head.split()[1] in (b"400", b"408", b"413", b"414", b"417", b"431", b"501")
    if b"application/json" in head:  # else gunicorn has refused it, before there is a request to answer
        assert set(json.loads(body)) == {"error", "request_id"}


CLEAR = {
    "chunks with extensions and a trailer": post(
        CHUNKED, body=b'14;a=b;c="d"\r\n' + BODY + b"\r\n0;x\r\nX-A: b\r\n\r\n"
    ),
    "a target that names its host": post("Content-Length: 20", body=BODY, path=f"http://x:1{PREDICT}"),
    "an offer of another protocol": post("Connection: Upgrade", "Upgrade: h2c", "Content-Length: 20", body=BODY),
    "an expectation in HTTP/1.0": post(
        "Expect: 100-continue", "Connection: keep-alive", "Content-Length: 20", body=BODY
    ).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a header that would move its path": post("SCRIPT_NAME: /x", "PATH_INFO: /y", "Content-Length: 20", body=BODY),
    "an empty line before it": b"\r\n" + post("Content-Length: 20", body=BODY),
    "a header that looks like a length": post("Content_Length: 3", "Content-Length: 20", body=BODY),
}


@pytest.mark.parametrize("case", CLEAR)
def test_an_unusual_request_with_a_clear_end_is_answered_and_so_is_the_next(server, case):
    received = exchange(server, CLEAR[case] + BEHIND.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert re.findall(rb"HTTP/1\.[01] (\d+)", received) == [b"200", b"200"], received
    assert b'{"predictions":[2.5]}' in received
    assert received.endswith(b"healthy")


@pytest.mark.parametrize(
    ("queue", "threads", "held"),
    [
        (100, 309, 618),  # of 1,024 files, 256 are for gRPC and 150 for what the worker opens itself
        (400, 410, 618),
        (700, 710, 718),  # more than there is room for
    ],
)
def test_connections_leave_files_for_models_and_grpc_also_with_a_long_queue(queue, threads, held, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    options = gunicorn_options(Settings(run_threads=2, queue_size=queue))
    assert options["threads"] == threads
    assert options["worker_connections"] == held


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
def test_a_thousand_idle_connections_delay_no_other_and_take_little_memory(start_server, models, many_files):
    server = start_server(models)
    predict_seconds(server)
    before = memory(worker_of(server))
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(connected(server))
        seconds = [predict_seconds(server) for _ in range(20)]
        more = memory(worker_of(server)) - before
    print(f"1,000 idle connections: {more:.0f} MiB more, the slowest other answer took {1000 * max(seconds):.0f} ms")
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
    runtime = requests.get(f"http://127.0.0.1:{server.port}/runtime.js", timeout=60)
    if runtime.status_code == 503:
        pytest.skip("the app is not built: make setup builds its runtime.js, a large file to send")
    assert len(runtime.content) > 100_000
    with contextlib.ExitStack() as stack:
        for _ in range(SLOW_CLIENTS):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET /runtime.js HTTP/1.1\r\nHost: x\r\n\r\n")  # 195 kB
        time.sleep(1)
        assert predict_seconds(server) < most_seconds(2)


@pytest.mark.long
def test_silent_grpc_connections_leave_files_for_http_connections(server, many_files):
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.grpc_port), timeout=60))
            for _ in range(grpc_connections(MANY_FILES) + 50)
        ]
        for client in clients[-20:]:
            assert client.recv(100) == b""  # closed at once; the first would be greeted
        assert predict_seconds(server) < most_seconds(2)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        assert check(health_pb2.HealthCheckRequest(), 60, wait_for_ready=True).status == 1


def test_a_client_counts_as_gone_when_it_has_closed_its_connection():
    app = Flask("gone")
    ours, clients = socket.socketpair()
    with ours, app.test_request_context(environ_overrides={"gunicorn.socket": ours}):
        is_gone = connections.client_is_gone()
        clients.send(b"the next request")
        assert not is_gone()
        clients.close()
        assert is_gone()
    with app.test_request_context():
        assert connections.client_is_gone() is None


# -- answers -------------------------------------------------------------------------------------------------------------

LARGE = bytes(range(256)) * 64 * 1024  # 16 MiB, more than Linux buffers


@pytest.fixture
def pair(monkeypatch):
    """Both ends of a connection: the server's, which ends after a pause of a second, and the client's."""
    monkeypatch.setattr(bodies, "PAUSE_SECONDS", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as clients,
    ):
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


def read_slowly(connection: socket.socket, received: bytearray) -> None:
    """16 MiB in more than 3 s."""
    while piece := connection.recv(1 << 20, socket.MSG_WAITALL):
        received += piece
        time.sleep(0.2)


def test_an_answer_is_sent_to_the_end_as_long_as_its_client_goes_on_reading(pair):
    ours, clients = pair
    received = bytearray()
    reader = threading.Thread(target=read_slowly, args=(clients, received))
    reader.start()
    send_large(ours)
    reader.join()
    assert received == LARGE


def test_a_client_that_stops_reading_its_answer_is_disconnected(pair):
    ours, _ = pair
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        send_large(ours)
    assert time.monotonic() - begun < most_seconds(5)


@pytest.mark.parametrize("error", [TimeoutError("timed out"), OSError("no route to host")])
def test_a_client_that_stopped_reading_is_a_line_in_the_log_and_no_traceback(error, caplog):
    logger = Logger(Config())
    try:
        raise error
    except OSError:
        logger.exception("Socket error processing request.")
    (record,) = caplog.records
    assert (record.exc_info is None) == isinstance(error, TimeoutError)
    assert ("it stopped reading its answer" in record.message) == isinstance(error, TimeoutError)
