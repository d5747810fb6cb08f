"""gunicorn's configuration from our settings: one worker, many threads, TensorFlow loaded after the fork."""

import logging
import os
import resource
import socket
import threading
import time
from typing import Any

from gunicorn import util

from backend import addresses
from backend.http_server.arbiter import Flag
from backend.http_server.worker import MAX_LINGERING, WholeRequestWorker, json_error
from backend.settings import Settings

KEEPALIVE_SECONDS = 75  # longer than the usual 60 s of proxies, so that the proxy closes first and loses no request
MAX_CONNECTIONS = 1000
# Files that a worker opens for itself: libraries, sockets of gRPC, models while they load (measured: 40 to 70).
OWN_FILES = 150
MANY_FILES = 8192  # as many as the system allows, up to this
WORKER_TIMEOUT_SECONDS = 120  # importing TensorFlow on a cold, busy machine takes longer than gunicorn's usual 30


def write_json_error(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """The one error body, for requests that are no HTTP and so never reach the application."""
    if status == 501:  # a transfer coding that nobody uses: the request is wrong, not the server
        status, reason = 400, "Bad Request"
    util.write_nonblock(sock, json_error(status, reason, f"{message or reason}; expected an HTTP/1.1 request"))


util.write_error = write_json_error  # gunicorn has no setting for it, and would answer in HTML


class Worker(WholeRequestWorker):
    """gunicorn's threaded worker, which waits for whole requests, and tells the application when it is to stop."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.ready, self.since = Flag(), time.monotonic()

    def run(self) -> None:
        """A worker that takes over, after a crash or for new settings, lets clients wait until it can answer them."""
        while self.age > 1 and self.alive and not self.app.is_started() and self.is_parent_alive():
            self.notify()
            time.sleep(0.05)
        getattr(self.app, "let_in", lambda: None)()
        self.ready.set()
        super().run()

    def set_accept_enabled(self, enabled: bool) -> None:
        """Before a stopping worker closes its door, it lets in who has knocked."""
        if not self.alive and self._accepting:
            for listener in self.sockets:
                while self.nr_conns < self.worker_connections and self.accept(listener):
                    pass
        super().set_accept_enabled(enabled)

    def handle_exit(self, sig: int, frame: Any) -> None:
        # In a thread of its own: a signal may come while this one holds a lock that draining needs.
        threading.Thread(target=getattr(self.app, "drain", lambda: None), name="drain").start()
        super().handle_exit(sig, frame)


def connections(threads: int) -> int:
    """How many connections fit into the files that this process may open; more than there are threads in any case."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(threads + 1, min(MAX_CONNECTIONS, max(soft, most) - OWN_FILES - MAX_LINGERING))


def gunicorn_options(settings: Settings) -> dict[str, Any]:
    """Options by gunicorn's names."""
    threads = addresses.threads(settings)
    return {
        "bind": addresses.address(settings.host, settings.port),
        "workers": 1,  # one process holds one copy of each model
        "worker_class": f"{__name__}.Worker",
        "threads": threads,
        "worker_connections": connections(threads),
        "certfile": settings.tls_cert or None,
        "keyfile": settings.tls_key or None,
        "timeout": WORKER_TIMEOUT_SECONDS,
        "graceful_timeout": settings.drain_seconds,
        "keepalive": KEEPALIVE_SECONDS,
        "limit_request_line": 8190,
        "http_parser": "python",  # by default gunicorn takes another one, of a package that may happen to be there
        "forwarder_headers": "",  # by default SCRIPT_NAME, with which a client behind a proxy on this machine moves paths
        "preload_app": False,  # TensorFlow does not survive a fork
        "control_socket_disable": True,
        "loglevel": "warning",
        "logger_class": "backend.logs.Logger",
        "worker_exit": _close,
    }


def _close(server: Any, worker: Any) -> None:
    """The last step of a worker that drained: stop the room behind the doors."""
    close = getattr(worker.app, "close", None)
    if close is not None:
        close()
    if worker.booted:  # else gunicorn has to learn by the exit status that the application could not start
        logging.shutdown()
        # What is left is TensorFlow's clean-up of memory, which takes seconds and which the system does anyway.
        os._exit(0)
