"""Refuses requests while the server is full, before their bodies are received or parsed."""

from functools import lru_cache

from flask import Flask, request
from werkzeug.exceptions import HTTPException

from backend.errors import Full
from backend.serving.inference.predictor import Predictor

# Blueprint -> its protocol in the metrics, for those that answer with or about models. Requests that run a model are POSTs.
PROTOCOL_OF_BLUEPRINT = {"app_api": "api", "simple": "simple", "tf_serving": "rest"}


def init_app(app: Flask, predictor: Predictor) -> None:
    """Call it after `http_messages.init_app`, which sets the request id of error bodies."""

    @app.before_request
    def refuse_if_full() -> None:
        if request.method == "POST" and request.blueprint in PROTOCOL_OF_BLUEPRINT:
            predictor.refuse_if_full(PROTOCOL_OF_BLUEPRINT[request.blueprint])


class EarlyRefusal:
    """Decides from a request's head whether it is refused before its body is received and without a thread.

    Requests that it does not see (chunked bodies), or that come when the last place was just taken, are refused in `init_app`.
    """

    def __init__(self, app: Flask, predictor: Predictor):
        self._routes = app.url_map.bind("")
        self._predictor = predictor
        self._protocol_of = lru_cache(1024)(self._match)

    def refusal(self, method: str, path: str) -> str | None:
        """Why the request is refused, which is counted in the metrics; None if it is accepted."""
        if method != "POST" or not self._predictor.is_full():
            return None
        protocol = self._protocol_of(path)
        try:
            if protocol is not None:
                self._predictor.refuse_if_full(protocol)
        except Full as error:
            return error.message
        return None

    def _match(self, path: str) -> str | None:
        try:
            endpoint, _ = self._routes.match(path, "POST")
        except HTTPException:
            return None
        return PROTOCOL_OF_BLUEPRINT.get(endpoint.rpartition(".")[0])
