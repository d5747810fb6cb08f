"""The worker's application: Flask and the gRPC server beside it.

It does not import TensorFlow before the fork.
"""

import dataclasses
import gc
import logging
import os
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import click
from flask import Flask
from gunicorn.app.base import BaseApplication

from backend.addresses import local_url
from backend.errors import DogsnapError
from backend.http_server.arbiter import Arbiter
from backend.http_server.config import gunicorn_options
from backend.settings import Settings, flag
from backend.tracing import Tracing

log = logging.getLogger("dogsnap")

# Settings that SIGHUP cannot change: the sockets stay open.
FIXED = ("host", "port", "grpc_port")


def refuse_wrong_models(settings: Settings) -> None:
    """Exit if the configuration cannot be read; at the first start gunicorn exits too."""
    from backend.serving.assembly import check_configuration

    try:
        check_configuration(settings)
    except DogsnapError as error:
        log.error("the server cannot start: %s", error.message)
        sys.exit(Arbiter.APP_LOAD_ERROR)


def _leave_libraries_alone() -> None:
    """Exempt the libraries' 280,000 objects from garbage collection, during which all threads wait.

    Nothing is collected first: importing leaves nothing to collect, and to look at every object takes 0.2 s.
    """
    gc.freeze()


class Server(BaseApplication):
    """Our settings in gunicorn's terms; `load` runs in the worker, after the fork."""

    def __init__(self, settings: Settings, reread: Callable[[], Settings]):
        """`reread` returns the current settings, and raises click.ClickException if they are wrong."""
        self.settings = self._last_good = settings
        self._reread = reread
        self.predictor: Any = None
        self.grpc: Any = None
        self.feedback: Any = None
        self.tracing: Tracing | None = None
        self._early: Any = None
        super().__init__()

    def load_config(self) -> None:
        for name, value in gunicorn_options(self.settings).items():
            self.cfg.set(name, value)

    def run(self) -> None:
        Arbiter(self).run()

    def reread(self) -> bool:
        """Reload the settings; if they are wrong, keep the old ones and return False. Addresses and ports stay."""
        try:
            new = self._reread()
        except click.ClickException as error:
            log.error("the settings are wrong and the old ones stay in use: %s", error.format_message())
            return False
        fixed = {name: getattr(self.settings, name) for name in FIXED}
        moved = [flag(name) for name in FIXED if getattr(new, name) != fixed[name]]
        if moved:
            log.error("%s cannot change without a restart", ", ".join(moved))
        self.settings = dataclasses.replace(new, **fixed)
        log.info("settings reloaded; a new worker takes over when its models are loaded")
        return True

    def keep(self) -> None:
        """The current settings are good: a worker serves with them."""
        self._last_good = self.settings

    def give_up(self) -> None:
        """Go back to the last settings with which a worker served."""
        self.settings = self._last_good
        self.do_load_config()

    def is_started(self) -> bool:
        """Whether every model has been loaded or has failed to load."""
        return self.predictor is not None and self.predictor.repository.has_started()

    def load(self) -> Flask:
        from backend.app import ACCESS_CONTROL, FEEDBACK, create_app
        from backend.middleware.overload import EarlyRefusal

        refuse_wrong_models(self.settings)
        self.predictor = self.create_predictor()
        if self.settings.otlp_endpoint:
            self.tracing = Tracing(self.settings.otlp_endpoint)
        try:
            app = create_app(self.settings, self.predictor, self.tracing)
        except (DogsnapError, OSError, sqlite3.Error) as error:
            log.error("the server cannot start: %s", error)
            sys.exit(Arbiter.APP_LOAD_ERROR)
        self.feedback = app.extensions[FEEDBACK]
        self._early = EarlyRefusal(app, self.predictor)
        self.grpc = self.open_grpc(app.extensions[ACCESS_CONTROL])
        _leave_libraries_alone()
        self.predictor.repository.start(self.settings.poll_seconds, self.announce)
        return app

    def create_predictor(self) -> Any:
        """A predictor that runs the models, or the gateway's."""
        if self.settings.engine:
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when gRPC is imported; our log reports failures
            from backend.gateway.assembly import create_gateway

            return create_gateway(self.settings)
        from backend.serving.assembly import create_predictor

        return create_predictor(self.settings)

    def open_grpc(self, access_control: Any) -> Any:
        if not self.settings.grpc_port:
            return None
        from backend.protocols.tf_serving_grpc import GrpcServer

        return GrpcServer(self.settings, self.predictor, access_control, self.tracing)

    def start_grpc(self) -> None:
        """Answer gRPC calls from now on; gunicorn handles HTTP."""
        if self.grpc is not None:
            self.grpc.start()

    def refusal_if_full(self, method: str, path: str) -> str | None:
        """Why a request that has just begun to arrive is refused; None if it is not."""
        if self.settings.enable_cors:  # pages of other origins need the CORS headers of the application
            return None
        return self._early.refusal(method, path)

    def announce(self) -> None:
        log.info("ready: open %s/", local_url(self.settings))

    def drain(self) -> None:
        """Refuse new gRPC calls; gunicorn handles HTTP."""
        if self.grpc is not None:
            self.grpc.drain()

    def close(self) -> None:
        for part in (self.grpc, self.predictor, self.feedback, self.tracing):
            if part is not None:
                part.close()
