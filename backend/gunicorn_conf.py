"""gunicorn's configuration, from our settings: one worker, many threads, TensorFlow loaded after the fork.

It does not create the application: `commands/serve.py` does.
"""

import json
import logging
import os
import socket
import threading
import uuid
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker

from backend.settings import Settings

# Threads beyond those that can hold a running or waiting request, so that health checks and metrics answer at full load.
SPARE_THREADS = 8
KEEPALIVE_SECONDS = 75  # longer than the usual 60 s of proxies, so that the proxy closes first and loses no request
WORKER_TIMEOUT_SECONDS = 120  # importing TensorFlow on a cold, busy machine takes longer than gunicorn's usual 30


def write_json_error(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """The one error body, for requests that are no HTTP and so never reach the application."""
    error = f"{message or reason}; expected an HTTP/1.1 request"
    body = json.dumps({"error": error, "request_id": uuid.uuid4().hex}).encode()
    head = f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    util.write_nonblock(sock, head.encode("latin-1", "replace") + b"\r\n\r\n" + body)


util.write_error = write_json_error  # gunicorn has no setting for it, and would answer in HTML


class Worker(ThreadWorker):
    """gunicorn's threaded worker, which tells the application when it is to stop."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        # In a thread of its own: a signal may come while this one holds a lock that draining needs.
        threading.Thread(target=getattr(self.app, "drain", lambda: None), name="drain").start()
        super().handle_exit(sig, frame)


def gunicorn_options(settings: Settings) -> dict[str, Any]:
    """Options by gunicorn's names."""
    return {
        "bind": f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}",
        "workers": 1,  # one process holds one copy of each model
        "worker_class": f"{__name__}.Worker",
        "threads": settings.run_threads + settings.queue_size + SPARE_THREADS,
        "timeout": WORKER_TIMEOUT_SECONDS,
        "graceful_timeout": settings.drain_seconds,
        "keepalive": KEEPALIVE_SECONDS,
        "limit_request_line": 8190,
        "preload_app": False,  # TensorFlow does not survive a fork
        "control_socket_disable": True,
        "loglevel": "warning",
        "worker_exit": _close,
    }


def _close(server: Any, worker: Any) -> None:
    """The last step of a worker that drained: stop the room behind the doors."""
    close = getattr(worker.app, "close", None)
    if close is not None:
        close()
    if worker.booted:  # else gunicorn has to learn by the exit status that the application could not start
        logging.shutdown()
        os._exit(
            0
        )  # what is left is TensorFlow's clean-up of memory, which takes seconds and which the system does anyway
