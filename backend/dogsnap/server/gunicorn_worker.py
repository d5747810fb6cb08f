"""The worker's application, and how one process takes another's place.

TensorFlow is imported after the fork.
"""

import gc
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from functools import partial
from mmap import mmap
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from dogsnap.addresses import local_url
from dogsnap.errors import DogsnapError, FailedPrecondition
from dogsnap.server.gunicorn_config import CANNOT_START, gunicorn_options
from dogsnap.server.tracing import Tracing
from dogsnap.settings import Settings

log = logging.getLogger("dogsnap")

# Environment variable with the id of the process that gunicorn's master is.
MASTER = "_DOGSNAP_MASTER"
CHECK_SECONDS = 0.05


def replaced_process() -> int | None:
    """The id of the server that started this process at SIGUSR2, to be replaced
    by it; None for an ordinary start.
    """
    parent = os.getppid()
    return parent if os.environ.get(MASTER) == str(parent) else None


class Server(BaseApplication):
    """Our settings in gunicorn's terms; `load` runs in the worker, after the fork."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.predictor: Any = None
        self.grpc: Any = None
        self.feedback: Any = None
        self.tracing: Tracing | None = None
        self._access_control: Any = None
        self._replaced = replaced_process()
        self._has_taken_over = mmap(-1, 1)  # a byte that master and workers share
        self._starts = 0  # of workers
        self._is_serving = self._is_stopping = False
        os.environ[MASTER] = str(os.getpid())  # before gunicorn keeps the environment for SIGUSR2
        super().__init__()

    def load_config(self) -> None:
        hooks = {
            "pre_fork": self._count_start,
            "post_worker_init": self._serve,
            "worker_exit": self._close,
        }
        for name, value in {**gunicorn_options(self.settings), **hooks}.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """The application; its models are loaded by a thread of their own."""
        try:
            app = self._create_app()
        except (DogsnapError, OSError, sqlite3.Error) as error:
            log.error("the server cannot start: %s", error)
            if self._starts == 1 or self._replaced:
                sys.exit(CANNOT_START)
            time.sleep(1)  # the cause may last, and gunicorn starts the next worker at once
            sys.exit(1)
        # Exempts the libraries' 280,000 objects from garbage collection, during which
        # all threads wait. Nothing is collected first: importing leaves nothing to
        # collect, and to look at every object takes 0.2 s.
        gc.freeze()
        announce = partial(log.info, "ready: open %s/", local_url(self.settings))
        self.predictor.repository.start(self.settings.poll_seconds, announce)
        self.predictor.series.start()
        return app

    def _create_app(self) -> Flask:
        from dogsnap.server.app import ACCESS_CONTROL, FEEDBACK, create_app

        # It would end like the first one, or be killed again after ten minutes.
        if self._replaced and self._starts > 1:
            raise FailedPrecondition(
                "the new server stopped while loading the models (see its log); the "
                "running one goes on"
            )
        if self.settings.engine:
            # Read when gRPC is imported; our log reports failures.
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")
            from dogsnap.gateway.gateway_predictor import create_gateway as create_predictor
        else:
            from dogsnap.serving.assembly import create_predictor
        self.predictor = create_predictor(self.settings)
        if self.settings.otlp_endpoint:
            self.tracing = Tracing(self.settings.otlp_endpoint)
        app = create_app(self.settings, self.predictor, self.tracing)
        self.feedback = app.extensions[FEEDBACK]
        self._access_control = app.extensions[ACCESS_CONTROL]
        return app

    def _count_start(self, _server: Any, _worker: Any) -> None:
        self._starts += 1
        if self._has_taken_over[0] or os.getppid() != self._replaced:  # or it has ended
            self._replaced = None

    def _serve(self, _worker: Any) -> None:
        """A worker that takes another's place first loads its models: clients
        wait for it, or the old server answers them.
        """
        self._drain_at_sigterm()
        if self._replaced or self._starts > 1:
            self._wait()
        if self.settings.grpc_port:
            from dogsnap.server.grpc_server import GrpcServer

            self.grpc = GrpcServer(
                self.settings, self.predictor, self._access_control, self.tracing
            )
            self.grpc.start()
        self._is_serving = True
        if self._replaced and not self._is_stopping:
            log.info(
                "this server takes the place of process %d, which finishes its requests",
                self._replaced,
            )
            self._has_taken_over[0] = 1
            os.kill(self._replaced, signal.SIGTERM)

    def _close(self, _server: Any, _worker: Any) -> None:
        for part in (self.grpc, self.predictor, self.feedback, self.tracing):
            if part is not None:
                part.close()
        if self._is_serving:  # otherwise gunicorn needs the exit status of the failed start
            logging.shutdown()
            # Skips TensorFlow's clean-up of memory, which takes seconds.
            os._exit(0)

    def _drain_at_sigterm(self) -> None:
        """Refuse new gRPC calls as soon as gunicorn stops, too, which has no
        hook for it.
        """
        gunicorns = signal.getsignal(signal.SIGTERM)

        def stop(number: int, frame: Any) -> None:
            self._is_stopping = True
            if self.grpc is not None:
                # In a separate thread: the signal may interrupt this one while it holds
                # a lock that draining needs.
                threading.Thread(target=self.grpc.drain, name="drain").start()
            gunicorns(number, frame)

        signal.signal(signal.SIGTERM, stop)
        signal.siginterrupt(signal.SIGTERM, False)

    def _wait(self) -> None:
        """Wait until every model is loaded or has failed to; a worker that
        would replace a server by less exits.
        """
        repository, master = self.predictor.repository, os.getppid()
        while not repository.started and not self._is_stopping and os.getppid() == master:
            time.sleep(CHECK_SECONDS)
        reason = repository.not_ready()
        if self._replaced and reason and not self._is_stopping:
            log.error("the new server gives up: %s", reason)
            sys.exit(CANNOT_START)
