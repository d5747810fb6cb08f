"""Refuses requests while the server is full, before their bodies are received or
parsed, and counts those whose bodies cannot be.
"""

from flask import Flask, Response, g, request

from dogsnap.errors import TooManyRequests, Unauthenticated
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.metrics import HTTP_PROTOCOLS

# Requests that run a model are POSTs of HTTP_PROTOCOLS; these are POSTs that run none.
NO_RUNS = ("api.upright", "api.give_feedback", "api.forget_feedback")


def init_app(app: Flask, predictor: Predictor) -> None:
    """Call it after `request_ids.init_app`, which sets the request id of error bodies."""

    @app.before_request
    def refuse_if_full() -> None:
        if request.method == "POST" and request.blueprint in HTTP_PROTOCOLS:
            predictor.refuse_if_full(request.blueprint)

    @app.after_request
    def count_unread(response: Response) -> Response:
        error = g.get("error")
        is_refused = isinstance(error, Unauthenticated | TooManyRequests)  # it has a counter
        runs_model = request.method == "POST" and request.endpoint not in NO_RUNS
        if error and runs_model and request.blueprint in HTTP_PROTOCOLS and not is_refused:
            predictor.metrics.count_unread(request.blueprint, error.code)
        return response
