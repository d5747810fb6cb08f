"""Refuses requests while the server is full, before their bodies are received or parsed."""

from flask import Flask, request

from backend.serving.inference.predictor import Predictor

# Blueprint -> its protocol in the metrics, for those that answer with or about models. Requests that run a model are POSTs.
PROTOCOL_OF_BLUEPRINT = {"app_api": "api", "simple": "simple", "tf_serving": "rest"}


def init_app(app: Flask, predictor: Predictor) -> None:
    """Call it after `request_ids.init_app`, which sets the request id of error bodies."""

    @app.before_request
    def refuse_if_full() -> None:
        if request.method == "POST" and request.blueprint in PROTOCOL_OF_BLUEPRINT:
            predictor.refuse_if_full(PROTOCOL_OF_BLUEPRINT[request.blueprint])
