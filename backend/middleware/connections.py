"""The connection behind a request: whether its client is there, time limits, and an end that holds up no other connection.

gunicorn's `gthread` worker gives each request a thread, in which it may wait, and the connection itself as `gunicorn.socket`.
It closes connections in the one thread that accepts new ones and waits there for what the client still sends. So the request's
own thread waits before, and ends reading, after which gunicorn has nothing to wait for.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from flask import Flask, Response, request
from werkzeug.wsgi import ClosingIterator

from backend.settings import MEBIBYTE

# Longest pause in which a client sends nothing of its body, or reads nothing of a piece of its answer.
PAUSE_SECONDS, SEND_BYTES = 15.0, 64 * 1024
# For a client that still sends what nobody reads: after an immediate close it would not see the answer (RFC 9112, 9.6).
LINGER_SECONDS = 10.0
CHECK_SECONDS = 0.25  # interval of the check for overdue connections


class ReadingDeadlines:
    """Ends reading from overdue connections: their threads then find the end of the data. One thread for all of them."""

    def __init__(self) -> None:
        self._ends: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self._started = False

    @contextmanager
    def until(self, end: float, connection: socket.socket | None) -> Iterator[None]:
        """Read within this block until `end`, a time of time.monotonic(); without a connection, as in tests, nothing ends it."""
        if connection is None:
            yield
            return
        with self._lock:
            self._ends[connection] = end
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="deadlines", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._ends.pop(connection, None)

    def _run(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            now = time.monotonic()
            with self._lock:
                for connection in [each for each, end in self._ends.items() if end <= now]:
                    del self._ends[connection]
                    end_reading(connection)


DEADLINES = ReadingDeadlines()


def end_reading(connection: socket.socket | None) -> None:
    """The thread that reads from the connection, or gunicorn's that is about to close it, finds the end of the data."""
    with suppress(OSError):
        if connection is not None:
            socket.socket.shutdown(connection, socket.SHUT_RD)  # that of a TLS connection would also end its encryption


def client_is_gone() -> Callable[[], bool] | None:
    """What says whether this request's client has disconnected; None without a connection.

    A client that closed its side counts as disconnected, as for nginx: one that only stops sending looks the same.
    """
    connection = request.environ.get("gunicorn.socket")
    if connection is None:
        return None
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return lambda: bool(poll.poll(0))


def init_app(app: Flask) -> None:
    """Call it behind `bodies.init_app`: what is left of a body is discarded as it comes, and not counted any more."""
    app.wsgi_app = partial(_answer, app.wsgi_app)
    app.after_request(_send_in_pieces)


def _answer(wsgi_app: Callable[..., Any], environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
    connection = environ.get("gunicorn.socket")
    if connection is None:
        return wsgi_app(environ, start_response)
    connection.settimeout(PAUSE_SECONDS)
    body = environ["wsgi.input"]
    return ClosingIterator(wsgi_app(environ, start_response), partial(_finish, environ, body, connection))


def _send_in_pieces(response: Response) -> Response:
    """gunicorn sends each piece by a `sendall` of its own, whose timeout is for all that it is given."""
    if response.is_streamed or response.direct_passthrough:
        return response
    body = response.get_data()
    if len(body) > SEND_BYTES:
        response.response = (body[at : at + SEND_BYTES] for at in range(0, len(body), SEND_BYTES))
    return response


def _finish(environ: dict[str, Any], body: Any, connection: socket.socket) -> None:
    """Discard what is left of the body, so that the connection can be used again, or closed without losing the answer."""
    with DEADLINES.until(time.monotonic() + LINGER_SECONDS, connection):
        try:
            while body.read(MEBIBYTE):
                pass
            if _is_last(environ):
                end_reading(connection)
        except Exception:  # of gunicorn's parser, which names no common type: the body has no clear end
            end_reading(connection)


def _is_last(environ: dict[str, Any]) -> bool:
    """Whether the client wants the connection closed behind its answer."""
    wishes = environ.get("HTTP_CONNECTION", "").lower()
    return "close" in wishes or (environ.get("SERVER_PROTOCOL") == "HTTP/1.0" and "keep-alive" not in wishes)
