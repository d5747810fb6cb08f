"""gunicorn's settings from ours: one worker, a thread for each connection,
TensorFlow loaded after the fork.
"""

import os
import resource
import ssl
import sys
from typing import Any

from gunicorn.glogging import Logger as GunicornLogger

from dogsnap import addresses
from dogsnap.server import thread_counts
from dogsnap.settings import Settings

# gunicorn waits 5 s for the first byte of a connection, in a thread: a thousand that
# send nothing leave threads to others.
MAX_THREADS = 1500
# File descriptors that a worker uses itself: libraries, gRPC sockets, models while they
# load (measured: 40 to 70).
OWN_FILES = 150
MANY_FILES = 8192  # the limit on file descriptors is raised to this, if the system allows it
SHARED_MEMORY = "/dev/shm"
# With this exit status of a worker gunicorn ends, too; with any other it starts the next one.
CANNOT_START = 4


class Logger(GunicornLogger):
    """gunicorn's log, in the form of all others."""

    def setup(self, cfg: object) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def error(self, msg: object, *args: object, **kwargs: object) -> None:
        """Silent from the end of a worker that has said why it cannot start:
        gunicorn only ends then, in three lines.
        """
        if args[-1:] == (CANNOT_START,):
            self.error_log.disabled = True
        super().error(msg, *args, **kwargs)

    def warning(self, msg: object, *args: object, **kwargs: object) -> None:
        """Without a client's address and what it sent, which may be a key."""
        if str(msg).startswith("Invalid request"):
            msg = "a request was refused whose head is no valid HTTP"
        super().warning(msg, *args, **kwargs)

    def exception(self, msg: object, *args: object, **kwargs: object) -> None:
        """Without a traceback for a client that stopped reading its answer, of
        which there may be any number.
        """
        if isinstance(sys.exc_info()[1], TimeoutError):
            self.warning("a client was disconnected: it stopped reading its answer")
        elif str(msg).startswith("Error handling request"):
            super().exception("a request failed before it was answered")
        else:
            super().exception(msg, *args, **kwargs)


def threads_and_connections(least: int) -> tuple[int, int]:
    """At least `least` threads, at most MAX_THREADS, and as the limit on file
    descriptors allows, which is raised first.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = max(soft, MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, MANY_FILES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    room = files - OWN_FILES - thread_counts.grpc_connections(files)
    threads = max(least, min(MAX_THREADS, room // 2))
    # A thread waits for each connection that sends a request or reads an answer; as
    # many more may wait for their next one.
    return threads, min(2 * threads, max(threads + thread_counts.SPARE_THREADS, room))


def tls_options(settings: Settings) -> dict[str, Any]:
    """With the certificate as it is now: gunicorn reads it for each connection, also while
    it is renewed, or when it may no longer be read.
    """
    if not settings.tls_cert:
        return {}
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings.tls_cert, settings.tls_key)
    return {
        "certfile": settings.tls_cert,
        "keyfile": settings.tls_key,
        "ssl_context": lambda _config, _make_default: context,
    }


def gunicorn_options(settings: Settings) -> dict[str, Any]:
    threads, connections = threads_and_connections(thread_counts.count_threads(settings))
    return {
        "bind": addresses.format_address(settings.host, settings.port),
        "workers": 1,  # one process holds one copy of each model
        "worker_class": "gthread",
        "threads": threads,
        "worker_connections": connections,
        **tls_options(settings),
        # gunicorn's master ends where it can make no file for the next worker, such as in a
        # folder for temporary files that was cleaned away
        "worker_tmp_dir": SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None,
        # a worker that takes another's place answers only when its models are loaded
        "timeout": 600,
        "graceful_timeout": settings.drain_seconds,
        # longer than the usual 60 s of proxies: if the server closed first, a request could be lost
        "keepalive": 75,
        "limit_request_line": 8190,
        "http_parser": "python",  # the default depends on which packages are installed
        # by default SCRIPT_NAME, with which clients behind a local proxy could change paths
        "forwarder_headers": "",
        "preload_app": False,  # TensorFlow does not survive a fork
        "control_socket_disable": True,
        "loglevel": "warning",
        "logger_class": f"{__name__}.Logger",
    }
