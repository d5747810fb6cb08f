"""Refuses requests while the server is full, before their bodies are received or parsed."""

from functools import lru_cache

from flask import Flask, request
from werkzeug.exceptions import HTTPException

from backend.errors import Full
from backend.serving.inference.predictor import Predictor

# What answers with or about models, by blueprint, and what metrics call it. What runs a model is sent by POST.
DOORS = {"app_api": "api", "simple": "simple", "tf_serving": "rest"}


def prepare(app: Flask, predictor: Predictor) -> None:
    """Needs the request id, which the error body carries: call it after `http.prepare`."""

    @app.before_request
    def refuse_if_full() -> None:
        if request.method == "POST" and request.blueprint in DOORS:
            predictor.refuse_if_full(DOORS[request.blueprint])


class EarlyRefusal:
    """Says of a request, once its head is here, whether its body need not come and no thread need look at it.

    What it is not asked about (a body in chunks), or what fills the last place meanwhile, `prepare` refuses.
    """

    def __init__(self, app: Flask, predictor: Predictor):
        self._routes = app.url_map.bind("")
        self._predictor = predictor
        self._door_of = lru_cache(1024)(self._match)

    def sentence(self, method: str, path: str) -> str | None:
        """Why it is refused, which counts as such; None if it is not."""
        if method != "POST" or not self._predictor.is_full():
            return None
        door = self._door_of(path)
        try:
            if door is not None:
                self._predictor.refuse_if_full(door)
        except Full as error:
            return error.message
        return None

    def _match(self, path: str) -> str | None:
        try:
            endpoint, _ = self._routes.match(path, "POST")
        except HTTPException:
            return None
        return DOORS.get(endpoint.rpartition(".")[0])
