"""Triton's extension of the Open Inference Protocol for administration: which versions
there are, and models that are loaded and unloaded.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from dogsnap.errors import DogsnapError, InvalidArgument
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switch_log import Who, check_author
from dogsnap.server.bodies.json_bodies import json_response
from dogsnap.server.middleware.admin_auth import check_request
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.protocols.openapi import read_fields
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.repository.model import State, VersionStatus
from dogsnap.settings import Settings

UNLOADING = ("unload_dependents",)  # no model here depends on another
# What Triton calls the states of versions.
STATES = {
    State.START: "LOADING",
    State.LOADING: "LOADING",
    State.AVAILABLE: "READY",
    State.UNLOADING: "UNLOADING",
    State.END: "UNAVAILABLE",
}


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    routes = Blueprint("model_repository", __name__, url_prefix="/v2/repository")
    routes.before_request(partial(check_request, settings))

    @routes.post("/index")
    def index() -> Response:
        return json_response(describe_index(predictor.repository, _fields().get("ready", False)))

    # Model names in a configuration may contain slashes, hence "path".
    @routes.post("/models/<path:model>/load")
    def load(model: str) -> Response:
        check_parameters(_fields().get("parameters", ()))
        is_gone = client_is_gone()
        predictor.switcher.load_model(
            model, _author(), math.inf, lambda: not (is_gone and is_gone())
        )
        return json_response({})

    @routes.post("/models/<path:model>/unload")
    def unload(model: str) -> Response:
        check_parameters(_fields().get("parameters", ()), UNLOADING)
        predictor.switcher.unload_model(model, _author())
        return json_response({})

    return routes


def _fields() -> dict[str, Any]:
    """Of the body, which may be empty, whatever its type: tritonclient names none."""
    return read_fields(is_empty_allowed=True)


def _author() -> Who:
    return check_author("", request.remote_addr or "")


def check_parameters(names: Iterable[str], known: Iterable[str] = (), repository: str = "") -> None:
    """Raises InvalidArgument for a parameter that would change what is loaded, and for
    the name of a repository.
    """
    if repository:
        raise InvalidArgument(
            f"repository_name is {repository!r:.100}; this server has one repository, without a name"
        )
    if unknown := sorted(set(names) - set(known)):
        raise InvalidArgument(
            f"the parameters {', '.join(unknown):.200} are not taken: a model is served as its "
            "folder and the server's configuration say; put the files there, and load it"
        )


def describe_index(repository: ModelRepository, is_ready: bool) -> list[dict[str, str]]:
    """The versions of each model, the largest first; with `is_ready` those that answer."""
    described = []
    for name in repository.models():
        try:
            versions = [_describe(name, each) for each in repository.status(ModelSpec(name))]
        except DogsnapError as error:  # as behind a gateway whose engines are away
            versions = [{"name": name, "state": "UNKNOWN", "reason": error.message}]
        described += versions or [{"name": name, "state": "UNAVAILABLE", "reason": "no version"}]
    return [each for each in described if not is_ready or each["state"] == "READY"]


def _describe(name: str, status: VersionStatus) -> dict[str, str]:
    state = "UNAVAILABLE" if status.error and status.state == State.START else STATES[status.state]
    reason = status.error or status.note or ("unloaded" if status.state == State.END else "")
    return {"name": name, "version": str(status.version), "state": state, "reason": reason}
