"""Refuses a request that would find no place before anything is done for it: no JSON parsed, no photo looked at.

It does not count places: the executor does, and it has the last word.
"""

from flask import Flask, request

from backend.doors import app_api, simple, tf_serving
from backend.serving.predictor import Predictor

# What answers with or about models, by blueprint, and what metrics call it. What runs a model is sent by POST.
DOORS = {"app_api": app_api.DOOR, "simple": simple.DOOR, "tf_serving": tf_serving.DOOR}


def prepare(app: Flask, predictor: Predictor) -> None:
    """Needs the request id, which the error body carries: call it after `http.prepare`."""

    @app.before_request
    def refuse_if_full() -> None:
        if request.method == "POST" and request.blueprint in DOORS:
            predictor.refuse_if_full(DOORS[request.blueprint])
