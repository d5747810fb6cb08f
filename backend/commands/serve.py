"""`dogsnap serve`: gunicorn in front of the application.

It does not import TensorFlow before the fork.
"""

import logging
import os
from typing import Any

import click
from flask import Flask
from gunicorn.app.base import BaseApplication

from backend.gunicorn_conf import gunicorn_options
from backend.settings import Settings, given, options

log = logging.getLogger("dogsnap")


@click.command()
@options()
def serve(**flags: Any) -> None:
    """Serve the models over HTTP and gRPC, and the app at /."""
    settings = Settings.from_environment(**given(flags))
    prepare_logging()
    log.info("starting; loading models from %s", settings.model_config_file or settings.models)
    Server(settings).run()


def prepare_logging() -> None:
    """One line per event on standard error; TensorFlow's own chatter only from warnings up."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


class Server(BaseApplication):
    """Our settings in gunicorn's terms; `load` runs in the worker, after the fork."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.predictor: Any = None
        super().__init__()

    def load_config(self) -> None:
        for name, value in gunicorn_options(self.settings).items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        from backend.app import create_app
        from backend.serving.assembly import create_predictor

        self.predictor = create_predictor(self.settings)
        self.predictor.repository.start(self.settings.poll_seconds, self.announce)
        return create_app(self.settings, self.predictor)

    def announce(self) -> None:
        host = "localhost" if self.settings.host in ("0.0.0.0", "::", "127.0.0.1") else self.settings.host
        log.info("ready: open http://%s:%d/", host, self.settings.port)

    def close(self) -> None:
        if self.predictor is not None:
            self.predictor.close()
