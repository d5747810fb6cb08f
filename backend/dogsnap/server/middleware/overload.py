"""Refuses requests while the server is full, before their bodies are received or parsed."""

from flask import Flask, request

from dogsnap.serving.inference.predictor import Predictor

# Protocols in the metrics, and blueprints, that answer with or about models. Requests
# that run a model are POSTs.
PROTOCOLS = ("api", "simple", "rest", "open_inference", "invocations")


def init_app(app: Flask, predictor: Predictor) -> None:
    """Call it after `request_ids.init_app`, which sets the request id of error bodies."""

    @app.before_request
    def refuse_if_full() -> None:
        if request.method == "POST" and request.blueprint in PROTOCOLS:
            predictor.refuse_if_full(request.blueprint)
