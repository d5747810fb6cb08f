"""`dogsnap serve`: gunicorn in front of the application.

It does not import TensorFlow before the fork.
"""

import logging
import os
import socket
import sys
from typing import Any

import click
from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter

from backend.gunicorn_conf import gunicorn_options
from backend.settings import Settings, given, options

log = logging.getLogger("dogsnap")

LEAST_TOKEN = 16  # characters: 64 bits if they are random hexadecimal digits


@click.command()
@options()
def serve(**flags: Any) -> None:
    """Serve the models over HTTP and gRPC, and the app at /."""
    settings = Settings.from_environment(**given(flags))
    prepare_logging()
    refuse_taken_port(settings)
    refuse_guessable_token(settings)
    refuse_unwritable_log(settings)
    log.info("starting; loading models from %s", settings.model_config_file or settings.models)
    Server(settings).run()


def refuse_taken_port(settings: Settings) -> None:
    """gRPC would share a port that another server of its kind has; gunicorn refuses its own. Raises click.ClickException."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.grpc_port), family=family).close()
    except OSError as error:
        raise click.ClickException(
            f"the gRPC door cannot be opened on {settings.host} port {settings.grpc_port}: {_reason(error)}; "
            "choose another --grpc-port, or 0 to leave it closed"
        ) from error


def refuse_guessable_token(settings: Settings) -> None:
    """Nothing keeps anybody from trying tokens one after the other. Raises click.ClickException."""
    if 0 < len(settings.admin_token) < LEAST_TOKEN:
        raise click.ClickException(
            f"--admin-token has {len(settings.admin_token)} characters and can be guessed; expected at least {LEAST_TOKEN}, "
            "e.g. what `openssl rand -hex 16` prints"
        )


def refuse_unwritable_log(settings: Settings) -> None:
    """A log of switches that is found missing after a restart is found too late. Raises click.ClickException."""
    try:
        if settings.switch_log:
            open(settings.switch_log, "a", encoding="utf-8").close()
    except OSError as error:
        raise click.ClickException(
            f"the log of switches cannot be written to {settings.switch_log}: {_reason(error)}; choose another --switch-log"
        ) from error


def _reason(error: OSError) -> str:
    """Without the address, which Python adds on some systems."""
    return (error.strerror or str(error)).partition(" (while")[0]


def prepare_logging() -> None:
    """One line per event on standard error; TensorFlow's own chatter only from warnings up."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def refuse_wrong_models(settings: Settings) -> None:
    """End a worker whose configuration file cannot be read, and gunicorn with it; later such a file is only not followed."""
    from backend.errors import DogsnapError
    from backend.serving.configs import configured_models

    try:
        configured_models(settings.models, settings.model_config_file)
    except DogsnapError as error:
        log.error("the server cannot start: %s", error.message)
        sys.exit(Arbiter.APP_LOAD_ERROR)


class Server(BaseApplication):
    """Our settings in gunicorn's terms; `load` runs in the worker, after the fork."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.predictor: Any = None
        self.grpc: Any = None
        super().__init__()

    def load_config(self) -> None:
        for name, value in gunicorn_options(self.settings).items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        from backend.app import create_app
        from backend.serving.assembly import create_predictor

        refuse_wrong_models(self.settings)
        self.predictor = create_predictor(self.settings)
        self.grpc = self.open_grpc()
        self.predictor.repository.start(self.settings.poll_seconds, self.announce)
        return create_app(self.settings, self.predictor)

    def open_grpc(self) -> Any:
        if not self.settings.grpc_port:
            return None
        from backend.doors.grpc_server import GrpcServer

        return GrpcServer(self.settings, self.predictor)

    def announce(self) -> None:
        host = "localhost" if self.settings.host in ("0.0.0.0", "::", "127.0.0.1") else self.settings.host
        log.info("ready: open http://%s:%d/", host, self.settings.port)

    def drain(self) -> None:
        """Let nobody in any more by gRPC; gunicorn sees to HTTP."""
        if self.grpc is not None:
            self.grpc.drain()

    def close(self) -> None:
        if self.grpc is not None:
            self.grpc.close()
        if self.predictor is not None:
            self.predictor.close()
