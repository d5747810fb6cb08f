"""The worker's application, and how one process takes another's place.

TensorFlow is imported after the fork.
"""

import gc
import logging
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from mmap import mmap
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

import dogsnap
from dogsnap.addresses import local_url
from dogsnap.admin_token import find_file, keep_token
from dogsnap.errors import DogsnapError, FailedPrecondition
from dogsnap.server.gunicorn_config import CANNOT_START, gunicorn_options
from dogsnap.server.health import is_alive
from dogsnap.server.service_manager import keep_socket, notify
from dogsnap.server.tracing import Tracing
from dogsnap.settings import Settings

log = logging.getLogger("dogsnap")

# Environment variable with the id of the process that gunicorn's master is.
MASTER = "_DOGSNAP_MASTER"
CHECK_SECONDS = 0.05
TOKEN_SECONDS = 2.0  # between two looks whether its file is there
RETRY_SECONDS = 1.0  # until a worker that could not start is started again
# The same where it needs another server: to start and to load models takes that some seconds.
REPLACE_SECONDS = 5.0


def replaced_process() -> int | None:
    """The id of the server that started this process at SIGUSR2, to be replaced
    by it; None for an ordinary start.
    """
    parent = os.getppid()
    return parent if os.environ.get(MASTER) == str(parent) else None


def code_on_disk() -> Mapping[str, tuple[int, int]]:
    """When each file of this package and of all modules that are imported was
    changed (in ns), and its size.
    """
    files = {str(file) for file in Path(dogsnap.__file__).parent.rglob("*.py")}
    files |= {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    found = {}
    for file in files:
        with suppress(OSError):
            status = os.stat(file)
            found[file] = (status.st_mtime_ns, status.st_size)
    return found


class CodeReplaced(FailedPrecondition):
    """A later worker would have code of two releases."""


class Server(BaseApplication):
    """Our settings in gunicorn's terms; `load` runs in the worker, after the fork."""

    def __init__(self, settings: Settings, keeps_token: bool = False):
        """`keeps_token`: the admin token is in a file that the server wrote."""
        self.settings = settings
        self._keeps_token = keeps_token
        self.predictor: Any = None
        self.grpc: Any = None
        self.feedback: Any = None
        self.tracing: Tracing | None = None
        self._access_control: Any = None
        self._replaced = replaced_process()
        # A byte each that master and workers share.
        self._has_taken_over, self._has_successor = mmap(-1, 1), mmap(-1, 1)
        self._starts = 0  # of workers
        self._is_serving = self._is_stopping = False
        # As they are now: a later worker, or SIGHUP, may find them changed, or may not read them.
        self._code, self._options = code_on_disk(), gunicorn_options(settings)
        self._certificate = None
        if settings.tls_cert:
            files = (Path(settings.tls_key), Path(settings.tls_cert))
            self._certificate = (files[0].read_bytes(), files[1].read_bytes())
        # Before gunicorn keeps the environment for SIGUSR2.
        os.environ[MASTER] = str(os.getpid())
        keep_socket()
        super().__init__()

    def load_config(self) -> None:
        hooks = {
            "pre_fork": self._count_start,
            "pre_exec": self._note_successor,
            "post_worker_init": self._serve,
            "worker_exit": self._close,
        }
        for name, value in {**self._options, **hooks}.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """The application; its models are loaded by a thread of their own."""
        with self._starting():
            tempfile.tempdir = None  # the master's may be gone: another one is looked for
            self._check_code()
            app = self._create_app()
        # Exempts the libraries' 280,000 objects from garbage collection, during which
        # all threads wait. Nothing is collected first: importing leaves nothing to
        # collect, and to look at every object takes 0.2 s.
        gc.freeze()
        self.predictor.start(self.settings.poll_seconds, self._announce)
        return app

    def _announce(self) -> None:
        log.info("ready: open %s/", local_url(self.settings))
        notify("READY=1")

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """A part of a worker's start.

        What the first one cannot do ends the server, with a sentence; a later one
        is started again and again, since the server has answered before.
        """
        try:
            yield
        except Exception as error:
            is_first = self._starts == 1 or self._replaced
            is_known = isinstance(error, (DogsnapError, OSError, sqlite3.Error))
            if is_first and not is_known:
                raise
            log.error("the server cannot start: %s", error, exc_info=not is_known)
            if is_first:
                sys.exit(CANNOT_START)
            # The cause may last, and gunicorn starts the next worker at once.
            time.sleep(REPLACE_SECONDS if isinstance(error, CodeReplaced) else RETRY_SECONDS)
            sys.exit(1)

    def _check_code(self) -> None:
        """Raises CodeReplaced, and tells the master to start a server of the new code,
        if it is another on disk than the master's: half of each would be neither.
        """
        if self._starts == 1 or self._replaced:
            return
        now = code_on_disk()
        if any(now.get(file) != found for file, found in self._code.items()):
            os.kill(os.getppid(), signal.SIGUSR2)
            raise CodeReplaced(
                "its code was replaced on disk since it started; a server with the new code "
                "takes its place"
            )

    def _create_app(self) -> Flask:
        from dogsnap.server.app import ACCESS_CONTROL, FEEDBACK, create_app
        from dogsnap.serving.metrics import Metrics

        # It would end like the first one, or be killed again after ten minutes.
        if self._replaced and self._starts > 1:
            raise FailedPrecondition(
                "the new server stopped while loading the models (see its log); the "
                "running one goes on"
            )
        metrics = Metrics()
        if self.settings.otlp_endpoint:
            self.tracing = Tracing(self.settings.otlp_endpoint)
            metrics = Metrics(self.tracing.record_step)
        if self.settings.engine:
            # Read when gRPC is imported; our log reports failures.
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")
            from dogsnap.gateway.gateway_predictor import create_gateway

            self.predictor = create_gateway(self.settings, metrics)
        else:
            from dogsnap.serving.assembly import create_predictor

            self.predictor = create_predictor(self.settings, metrics=metrics)
        app = create_app(self.settings, self.predictor, self.tracing, is_patient=self._starts > 1)
        self.feedback = app.extensions[FEEDBACK]
        self._access_control = app.extensions[ACCESS_CONTROL]
        return app

    def _count_start(self, _server: Any, _worker: Any) -> None:
        self._starts += 1
        if self._has_taken_over[0] or os.getppid() != self._replaced:  # or it has ended
            self._replaced = None

    def _note_successor(self, server: Any) -> None:
        """In the process that becomes the new server: gunicorn would end the running one's
        worker from here where it cannot.
        """
        for path in (server.START_CTX[0], server.START_CTX["cwd"]):
            if not os.access(path, os.X_OK):
                log.error("no new server is started, and the running one goes on: no %s", path)
                os._exit(1)
        self._has_successor[0] = 1

    def _serve(self, _worker: Any) -> None:
        """A worker that takes another's place first loads its models: clients
        wait for it, or the old server answers them.
        """
        self._drain_at_sigterm()
        if self._replaced or self._starts > 1:
            self._wait()
        with self._starting():
            self._serve_grpc()
        self._is_serving = True
        if self._keeps_token:
            threading.Thread(target=self._keep_token, name="token", daemon=True).start()
        if self._replaced and not self._is_stopping:
            log.info(
                "this server takes the place of process %d, which finishes its requests",
                self._replaced,
            )
            self._has_taken_over[0] = 1
            notify(f"MAINPID={os.getppid()}", "READY=1")
            os.kill(self._replaced, signal.SIGTERM)

    def _serve_grpc(self) -> None:
        if self.settings.grpc_port:
            from dogsnap.server.grpc_server import GrpcServer

            self.grpc = GrpcServer(
                self.settings,
                self.predictor,
                self._access_control,
                self.tracing,
                self._certificate,
            )
            self.grpc.start()

    def _keep_token(self) -> None:
        port, token = self.settings.port, self.settings.admin_token
        while True:
            time.sleep(TOKEN_SECONDS)
            with suppress(OSError):
                if keep_token(port, token):
                    log.info("the token for administration is now in %s", find_file(port))

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
        assert callable(gunicorns)  # gunicorn has set it

        def stop(number: int, frame: Any) -> None:
            self._is_stopping = True
            if not self._has_successor[0]:  # which goes on as the same service
                notify("STOPPING=1")
            if self.grpc is not None:
                # In a separate thread: the signal may interrupt this one while it holds
                # a lock that draining needs.
                threading.Thread(target=self.grpc.drain, name="drain").start()
            gunicorns(number, frame)

        signal.signal(signal.SIGTERM, stop)
        signal.siginterrupt(signal.SIGTERM, False)

    def _wait(self) -> None:
        """Wait until every model is loaded or has failed to; a worker that
        would replace a server that answers by less exits.
        """
        repository, master = self.predictor.repository, os.getppid()
        while not repository.started and not self._is_stopping and os.getppid() == master:
            time.sleep(CHECK_SECONDS)
        reason = repository.not_ready()
        if not self._replaced or not reason or self._is_stopping:
            return
        if is_alive(self.settings):
            log.error("the new server gives up: %s", reason)
            sys.exit(CANNOT_START)
