"""Watches the connections of queued HTTP requests and cancels a request whose client has disconnected."""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from flask import Flask, current_app, request

from backend.serving.inference.executor import OnDisconnect

# A client that closed its side counts as disconnected, as for nginx: one that only stops sending looks the same.
GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR | select.EPOLLONESHOT
EXTENSION = "dogsnap.disconnects"


class DisconnectWatcher:
    """One thread for all connections; it starts with the first."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._tell: dict[int, Callable[[], object]] = {}
        self._lock = threading.Lock()
        self._started = False

    def on_disconnect(self, connection: socket.socket, tell: Callable[[], object]) -> bool:
        """Call `tell` once if the client disconnects; False if the connection is closed already."""
        number = connection.fileno()
        with self._lock:
            try:
                self._watch(number)
            except (OSError, ValueError):
                return False
            self._tell[number] = tell
            self._start()
        return True

    def forget(self, connection: socket.socket) -> None:
        with self._lock:
            if self._tell.pop(connection.fileno(), None) is not None:
                with suppress(OSError, ValueError):
                    self._epoll.unregister(connection.fileno())

    def _watch(self, number: int) -> None:
        try:
            self._epoll.register(number, GONE)
        except FileExistsError:
            self._epoll.modify(number, GONE)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="disconnects", daemon=True).start()

    def _run(self) -> None:
        while True:
            for number, _ in self._epoll.poll():
                with self._lock:
                    tell = self._tell.get(number) if _is_disconnected(number) else None
                if tell is not None:
                    tell()


def _is_disconnected(number: int) -> bool:
    """Whether an event of a file descriptor is its connection's: it may have been closed, and be another client's by now."""
    poll = select.poll()
    poll.register(number, select.POLLRDHUP)
    return bool(poll.poll(0))


def init_app(app: Flask) -> None:
    app.extensions[EXTENSION] = DisconnectWatcher()
    app.teardown_request(_forget)


def disconnect_callback() -> OnDisconnect | None:
    """What registers a callback for the disconnect of this request's client; None without an HTTP connection."""
    connection = request.environ.get("gunicorn.socket")
    if connection is None:
        return None
    watcher = current_app.extensions[EXTENSION]
    return lambda tell: watcher.on_disconnect(connection, tell)


def _forget(_: BaseException | None) -> None:
    connection = request.environ.get("gunicorn.socket")
    if connection is not None:
        current_app.extensions[EXTENSION].forget(connection)
