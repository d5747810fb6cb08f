"""Eight times as many requests as the server can answer: the accepted are answered soon, the rest at once, none runs in vain."""

import base64
import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import tiny_models
from support.colour_photos import encode
from support.hostile_photos import textured
from support.loading import Load, percentile, span
from support.process_readings import held, most_seconds, sample
from support.real_model import built_models
from support.waiting import wait_until

pytestmark = pytest.mark.long

THREADS, QUEUE, STEP = (
    2,
    8,
    0.1,
)  # a step of a tenth of a second, two at a time: 20 requests a second
CAPACITY = THREADS / STEP
REFUSED_SECONDS = 0.05
DEADLINE = 2.0
PATH = "/v1/models/sleeper:predict"
GATE_PATH = "/v1/models/gate:predict"


@pytest.fixture(scope="module")
def server(start_server, sleeper):
    flags = (
        "--run-threads",
        str(THREADS),
        "--queue-size",
        str(QUEUE),
        "--deadline-ms",
        str(round(1000 * DEADLINE)),
    )
    return start_server(sleeper, *flags)


@pytest.fixture(scope="module")
def alone(server) -> float:
    """The 99th percentile of a request's seconds while there is no other."""
    Load(server, PATH, STEP, 1, clients=1).answers()  # whatever happens only once has happened
    return p99_alone(server, PATH, STEP, 5)


def p99_alone(server, path: str, value: object, seconds: float) -> float:
    answers = Load(server, path, value, seconds, clients=1).answers()
    assert {each.status for each in answers} == {200}
    return percentile(answers, 99)


def overload(
    server, path: str, value: object, capacity: float, seconds: float, alone: float
) -> bool:
    """Send 8 times what the server can answer, and print the figures; whether they are as they should be.

    A full server holds THREADS + QUEUE requests, each for as long as so many take at the rate at which they are answered
    (Little's law), however slow the machine is. The 99th percentile may be longer by three times that of a request `alone`,
    in seconds.
    """
    answers = Load(server, path, value, seconds, rate=8 * capacity).answers()
    accepted = [each for each in answers if each.status == 200]
    refused = [each for each in answers if each.status == 503]
    assert len(accepted) + len(refused) == len(answers)
    assert all(int(each.note) >= 1 for each in refused)
    slowest_accepted, slowest_refused = percentile(accepted, 99), percentile(refused, 99)
    most = 3 * alone + (THREADS + QUEUE) * span(accepted) / len(accepted)
    print(
        f"{8 * capacity:.0f} requests/s for {seconds} s; {len(accepted)} accepted, p99 {1000 * slowest_accepted:.0f} ms of at "
        f"most {1000 * most:.0f} ms; {len(refused)} refused, median {1000 * percentile(refused, 50):.1f} ms, "
        f"p99 {1000 * slowest_refused:.1f} ms, worst {1000 * percentile(refused, 100):.1f} ms"
    )
    in_time = slowest_accepted <= most and slowest_refused <= most_seconds(REFUSED_SECONDS)
    return in_time and len(accepted) >= 0.8 * capacity * seconds


def mostly_kept(*measurement: object) -> bool:
    """Whether `overload` holds in two of three attempts: a machine standing still for a moment is no fault of ours."""
    first, second = overload(*measurement), overload(*measurement)
    return (first and second) or ((first or second) and overload(*measurement))


def test_at_8_times_capacity_the_accepted_are_answered_in_time_and_the_rest_refused_at_once(
    server, alone
):
    print(f"alone p99 {1000 * alone:.0f} ms")
    assert mostly_kept(server, PATH, STEP, CAPACITY, 6, alone), "the figures are above"


def test_the_real_network_keeps_these_times_too(start_server):
    """`pytest -s -m long tests/server/test_overload.py` prints the figures; it needs a machine that does nothing else."""
    server = start_server(built_models(), "--run-threads", str(THREADS), "--queue-size", str(QUEUE))
    path, photo = (
        "/api/classify",
        {"image": base64.b64encode(encode(textured((640, 480)), "JPEG")).decode()},
    )
    Load(server, path, photo, 3, clients=THREADS).answers()
    capacity = len(Load(server, path, photo, 10, clients=THREADS).answers()) / 10
    alone = p99_alone(server, path, photo, 10)
    print(f"capacity {capacity:.1f} photos/s; alone p99 {1000 * alone:.0f} ms")
    assert mostly_kept(server, path, photo, capacity, 10, alone), "the figures are above"


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    """Requests run while this file has contents."""
    file = tmp_path_factory.mktemp("gate") / "shut"
    file.write_text("")
    return file


@pytest.fixture(scope="module")
def gated_server(start_server, tmp_path_factory, gate):
    models = tmp_path_factory.mktemp("gate_models")
    tiny_models.gate(models / "gate" / "1", gate)
    flags = ("--run-threads", str(THREADS), "--queue-size", str(QUEUE), "--deadline-ms", "600000")
    return start_server(models, *flags)


@pytest.fixture
def waiting(gated_server, gate):
    """Both threads run, and as many as may wait: their connections, which hang up afterwards."""
    body = b'{"instances": [0.1]}'
    message = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (
        GATE_PATH.encode(),
        len(body),
        body,
    )
    gate.write_text("shut")
    with ThreadPoolExecutor(THREADS) as pool, contextlib.ExitStack() as clients:
        clients.callback(gate.write_text, "")
        for _ in range(THREADS):
            pool.submit(gated_server.post, GATE_PATH, json={"instances": [0.1]})
        wait_until(lambda: held(gated_server) == THREADS)
        connections = [
            clients.enter_context(socket.create_connection(("127.0.0.1", gated_server.port)))
            for _ in range(QUEUE)
        ]
        for each in connections:
            each.sendall(message)
        wait_until(lambda: sample(gated_server, "dogsnap_queue_length") == QUEUE)
        yield connections
    wait_until(lambda: held(gated_server) == 0)


def counted_as_full(server) -> list[float]:
    """Requests turned away: as refused, as requests by their outcome, and among the times of requests."""
    no_model = 'door="rest",model="",{}version=""'
    return [
        sample(server, "dogsnap_refused_requests_total", 'door="rest",reason="full"'),
        sample(server, "dogsnap_requests_total", no_model.format('outcome="UNAVAILABLE",')),
        sample(server, "dogsnap_request_seconds_count", no_model.format("")),
    ]


def answer_of(client: socket.socket) -> str:
    answer = ""
    while not answer.endswith("}"):  # gunicorn sends the head by itself
        answer += client.recv(65536).decode()
    return answer


def test_a_full_server_refuses_a_large_body_before_it_has_come(gated_server, waiting):
    before = counted_as_full(gated_server)
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" % GATE_PATH.encode()
    with socket.create_connection(("127.0.0.1", gated_server.port), timeout=30) as client:
        client.sendall(head + b'{"instances"')
        answer = answer_of(client)
    assert answer.startswith("HTTP/1.1 503 ")
    assert "\r\nRetry-After: 1\r\n" in answer
    assert "the server is full" in json.loads(answer.partition("\r\n\r\n")[2])["error"]
    assert counted_as_full(gated_server) == [each + 1 for each in before]


@pytest.mark.parametrize(
    ("version", "header", "is_kept"),
    [("1.1", "", True), ("1.1", "Connection: close\r\n", False), ("1.0", "", False)],
)
def test_a_refused_client_asks_again_on_its_connection_if_it_wants_to(
    gated_server, waiting, version, header, is_kept
):
    body = b'{"instances": [0.1]}'
    head = (
        f"POST {GATE_PATH} HTTP/{version}\r\nHost: x\r\n{header}Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gated_server.port), timeout=30) as client:
        for _ in range(2 if is_kept else 1):
            client.sendall(head.encode() + body)
            answer = answer_of(client)
            assert answer.startswith(f"HTTP/{version} 503 ")
            assert "\r\nX-Content-Type-Options: nosniff\r\n" in answer
        assert is_kept or client.recv(1) == b""


def test_clients_that_hang_up_free_their_places_and_their_requests_are_not_run(
    gated_server, waiting, gate
):
    run = "dogsnap_step_seconds_count", 'model="gate",step="run",version="1"'
    before = sample(gated_server, *run)
    for each in waiting:
        each.close()
    wait_until(lambda: sample(gated_server, "dogsnap_queue_length") == 0)
    assert held(gated_server) == THREADS  # those two still run
    gate.write_text("")
    wait_until(lambda: held(gated_server) == 0)
    assert sample(gated_server, *run) == before + THREADS  # those two alone
