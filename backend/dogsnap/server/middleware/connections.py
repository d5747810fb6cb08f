"""The connection behind a request: whether its client is there, time limits,
and an end that holds up no other connection.

gunicorn's `gthread` worker gives each request a thread, in which it may wait,
and the connection itself as `gunicorn.socket`, a variable of the server's own
(PEP 3333) that its documentation does not list: without it there would be no
time limits. It closes connections in the one thread that accepts new ones and
waits there for what the client still sends. So the request's own thread waits
before, and ends reading, after which gunicorn has nothing to wait for.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from flask import request

# The longest pause in which a client sends nothing of its body, or takes nothing of its answer.
PAUSE_SECONDS = 15
# For a client that still sends what nobody reads: after an immediate close it would not
# see the answer (RFC 9112, 9.6).
LINGER_SECONDS = 10.0
CHECK_SECONDS = 0.25  # interval of the check for overdue connections


class ReadingDeadlines:
    """Ends reading from overdue connections: their threads then find the end of
    the data. One thread for all of them.
    """

    def __init__(self) -> None:
        self._ends: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="deadlines", daemon=True).start()

    @contextmanager
    def until(self, end: float, connection: socket.socket | None) -> Iterator[None]:
        """Read within this block until `end`, a time of time.monotonic();
        without a connection, as in tests, nothing ends it.
        """
        if connection is None:
            yield
            return
        with self._lock:
            self._ends[connection] = end
        connection.settimeout(PAUSE_SECONDS)
        try:
            yield
        finally:
            connection.settimeout(None)
            with self._lock:
                self._ends.pop(connection, None)

    def _run(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            now = time.monotonic()
            # until reading is ended: after its block, a connection may wait for its next request
            with self._lock:
                for connection, end in list(self._ends.items()):
                    if end <= now:
                        del self._ends[connection]
                        end_reading(connection)


def end_reading(connection: socket.socket | None) -> None:
    """The thread that reads from the connection, or gunicorn's that is about to
    close it, finds the end of the data.
    """
    with suppress(OSError):
        if connection is not None:
            # That of a TLS connection would also end its encryption.
            socket.socket.shutdown(connection, socket.SHUT_RD)


def client_is_gone() -> Callable[[], bool] | None:
    """A function that returns whether this request's client has disconnected;
    None without a connection.

    A client that closed its side counts as disconnected, as for nginx: one that
    only stops sending looks the same.
    """
    connection = request.environ.get("gunicorn.socket")
    if connection is None:
        return None
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return lambda: bool(poll.poll(0))
