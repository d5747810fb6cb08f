"""What all HTTP protocols share, where a server of its own would need minutes to show it."""

import json
import socket
import threading
import time

import pytest
import requests
import tiny_models
from flask import Flask, Response
from gunicorn import util
from gunicorn.config import Config

from backend.http_server.config import Logger
from backend.middleware import http_messages
from backend.settings import Settings

BODY = bytes(range(256)) * 32 * 1024  # 8 MiB
SEND_SECONDS = 0.5
READ_RATE = 300_000  # bytes a second


def read_slowly(connection: socket.socket, received: bytearray) -> None:
    """1 MiB each tenth of a second: 8 MiB take longer than SEND_SECONDS, no piece of them does."""
    while piece := connection.recv(1 << 20, socket.MSG_WAITALL):
        received += piece
        time.sleep(0.1)


def test_an_answer_is_sent_to_the_end_as_long_as_its_client_goes_on_reading(monkeypatch):
    monkeypatch.setattr(http_messages, "SEND_SECONDS", SEND_SECONDS)
    app = Flask("large")
    http_messages.init_app(app, Settings())
    app.add_url_rule("/", view_func=lambda: Response(BODY))
    ours, clients = socket.socketpair()
    received = bytearray()
    reader = threading.Thread(target=read_slowly, args=(clients, received))
    reader.start()
    begun = time.monotonic()
    with ours:
        answer = app.test_client().get("/", environ_overrides={"gunicorn.socket": ours}, buffered=False)
        for piece in answer.response:
            util.write(ours, piece)  # as gunicorn does with each piece of an application's answer
    reader.join()
    clients.close()
    assert received == BODY
    assert time.monotonic() - begun > SEND_SECONDS
    assert answer.content_length == len(BODY)


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


@pytest.mark.long
def test_a_server_sends_a_large_answer_to_a_client_that_takes_half_a_minute_to_read_it(start_server, tmp_path):
    tiny_models.half_plus(1, tmp_path / "half" / "1")
    server = start_server(tmp_path)
    body = json.dumps({"instances": [0.123456789] * 900_000}).encode()
    identity = {"Accept-Encoding": "identity"}
    answered = requests.post(
        f"{server.url}/v1/models/half:predict", data=body, headers=identity, stream=True, timeout=60
    )
    begun, received = time.monotonic(), 0
    while piece := answered.raw.read(64 * 1024):
        received += len(piece)
        time.sleep(max(0.0, begun + received / READ_RATE - time.monotonic()))
    assert received == int(answered.headers["Content-Length"])
    assert time.monotonic() - begun > 1.5 * http_messages.SEND_SECONDS
