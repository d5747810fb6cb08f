"""gunicorn's configuration from our settings: one worker, many threads, TensorFlow loaded after the fork."""

import logging
import os
import resource
import socket
import sys
import threading
import time
from typing import Any

from gunicorn import util
from gunicorn.glogging import Logger as GunicornLogger

from backend import addresses
from backend.http_server.arbiter import Flag
from backend.http_server.worker import MAX_LINGERING, WholeRequestWorker, json_error
from backend.settings import Settings

KEEPALIVE_SECONDS = 75  # longer than the usual 60 s of proxies: if the server closed first, a request could be lost
MAX_CONNECTIONS = 1000
# File descriptors that a worker uses itself: libraries, gRPC sockets, models while they load (measured: 40 to 70).
OWN_FILES = 150
MANY_FILES = 8192  # the limit on file descriptors is raised to this, if the system allows it
WORKER_TIMEOUT_SECONDS = 120  # importing TensorFlow on a cold, busy machine takes longer than gunicorn's usual 30


def write_json_error(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """The error body, for requests that are not valid HTTP and so never reach the application."""
    if status == 501:  # unknown transfer coding: the client's fault
        status, reason = 400, "Bad Request"
    util.write_nonblock(sock, json_error(status, f"{message or reason}; expected an HTTP/1.1 request"))


util.write_error = write_json_error  # gunicorn has no setting for it and would send HTML


class Logger(GunicornLogger):
    """gunicorn's log, in the form of all others."""

    def setup(self, cfg: object) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def exception(self, msg: object, *args: object, **kwargs: object) -> None:
        """Without a traceback for a client that stopped reading its answer, of which there may be any number."""
        if isinstance(sys.exc_info()[1], TimeoutError):
            self.warning("a client was disconnected: it stopped reading its answer")
        else:
            super().exception(msg, *args, **kwargs)


class Worker(WholeRequestWorker):
    """The worker, connected to the application's start, drain and stop."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.ready = Flag()

    def run(self) -> None:
        """A worker that replaces another one lets clients wait in the listen backlog until its models are loaded."""
        while self.age > 1 and self.alive and not self.app.is_started() and self.is_parent_alive():
            self.notify()
            time.sleep(0.05)
        self.app.start_grpc()
        self.ready.set()
        super().run()

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept the connections in the listen backlog before a stopping worker closes its listeners."""
        if not self.alive and self._accepting:
            for listener in self.sockets:
                while self.nr_conns < self.worker_connections and self.accept(listener):
                    pass
        super().set_accept_enabled(enabled)

    def handle_exit(self, sig: int, frame: Any) -> None:
        # In a separate thread: the signal may interrupt this one while it holds a lock that draining needs.
        threading.Thread(target=self.app.drain, name="drain").start()
        super().handle_exit(sig, frame)


def connections(threads: int) -> int:
    """How many connections the limit on file descriptors allows; in any case more than there are threads."""
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
        "http_parser": "python",  # the default depends on which packages are installed
        "forwarder_headers": "",  # by default SCRIPT_NAME, with which clients behind a local proxy could change paths
        "preload_app": False,  # TensorFlow does not survive a fork
        "control_socket_disable": True,
        "loglevel": "warning",
        "logger_class": "backend.http_server.config.Logger",
        "worker_exit": _close,
    }


def _close(server: Any, worker: Any) -> None:
    """The last step of a drained worker: close the application."""
    worker.app.close()
    if worker.booted:  # otherwise gunicorn needs the exit status of the failed start
        logging.shutdown()
        # Skips TensorFlow's clean-up of memory, which takes seconds.
        os._exit(0)
