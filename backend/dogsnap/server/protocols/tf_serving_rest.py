"""TensorFlow Serving's REST API under /v1/models: predict, classify, regress,
metadata and status.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

from flask import Blueprint, Response, request
from google.protobuf import json_format

from dogsnap.errors import InvalidArgument
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.bodies.json_bodies import (
    TensorDocument,
    hold_answer,
    json_response,
    read_tensor_body,
)
from dogsnap.server.bodies.request_fields import whole_number
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.middleware.request_ids import STICKY_KEY
from dogsnap.server.protocols import grpc_messages
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.inference.request_kinds import Examples, Task, Values
from dogsnap.serving.tensors import json_tensors
from dogsnap.serving.tensors.examples import examples_from_body
from dogsnap.serving.tensors.signatures import Arrays
from dogsnap.settings import MEBIBYTE, Settings

PROTOCOL = "rest"  # in the metrics, and of the blueprint
METHODS = ("classify", "regress", "predict")
WHICH = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
MODEL = rf"/v1/models/(?P<name>[^/:]+){WHICH}"
PATHS = {
    "POST": re.compile(rf"{MODEL}:(?P<method>{'|'.join(METHODS)})", re.IGNORECASE),
    "GET": re.compile(rf"{MODEL}(?:/(?P<metadata>metadata))?", re.IGNORECASE),
}
ORIGIN = re.compile(r"^https?://[^/?]*", re.IGNORECASE)


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    routes = Blueprint(PROTOCOL, __name__)
    options = {
        "methods": ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"],
        "provide_automatic_options": False,
    }

    @routes.route("/<any(v1, V1):prefix>/", defaults={"rest": ""}, **options)
    @routes.route("/<any(v1, V1):prefix>/<path:rest>", **options)
    def handle(prefix: str, rest: str) -> Response:
        # A preflight; CORS adds its headers to every response.
        if request.method == "OPTIONS" and settings.enable_cors:
            asked = re.match(r"https?://", request.headers.get("Origin", ""))
            return Response(status=200 if asked else 400, mimetype="application/json")
        spec, method = parse_path(request.method, _raw_path())
        if method == "status":
            versions = predictor.repository.status(spec)
            return json_response(_to_json(grpc_messages.status_response(versions)))
        if method == "metadata":
            return _metadata(predictor, spec)
        if method == "predict":
            with TensorDocument(read_tensor_body(settings)) as document:
                return predict(settings, predictor, spec, document)
        return _examples(settings, predictor, spec, method)

    return routes


def _raw_path() -> str:
    """The path before percent-decoding, also of a request target in absolute
    form (RFC 9112, section 3.2.2).
    """
    return ORIGIN.sub("", request.environ.get("RAW_URI", request.full_path)).partition("?")[0]


def parse_path(method: str, raw_path: str) -> tuple[ModelSpec, str]:
    """What a path names, and predict, classify, regress, metadata or status.

    Raises InvalidArgument for any other path.
    """
    match = PATHS[method].fullmatch(raw_path) if method in PATHS else None
    if match is None:
        raise InvalidArgument(f"Malformed request: {method} {raw_path}")
    found = match.groupdict()
    name = unquote(found["name"])
    label = None if found["label"] is None else unquote(found["label"])
    kind = found.get("method") or found.get("metadata") or "status"
    return ModelSpec(name, _version(found["version"]), label, STICKY_KEY.get()), kind.lower()


def _version(digits: str | None) -> int | None:
    try:
        return whole_number("version", digits)
    except InvalidArgument:
        raise InvalidArgument(f"Failed to convert version: {digits} to numeric.") from None


def predict(
    settings: Settings,
    predictor: Predictor,
    spec: ModelSpec,
    document: TensorDocument,
    read: Callable[..., Arrays] = json_tensors.from_body,
    of_columns: str = "outputs",
) -> Response:
    """The answer to rows, or to `inputs` under the name `of_columns`; `read` makes arrays
    of the body's fields.
    """
    by_rows = "inputs" not in document.fields
    work = Values(document.close_after(read), _signature_name(document.fields))
    (prediction,) = predictor.answer(
        spec, [work], request.blueprint or "", is_gone=client_is_gone()
    )
    hold_answer(prediction.outputs, settings, by_rows)
    if by_rows:
        answer = {"predictions": json_tensors.to_rows(prediction.outputs)}
    else:
        answer = {of_columns: json_tensors.to_columns(prediction.outputs)}
    return json_response(answer, answered_by=prediction.servable)


def _signature_name(fields: dict[str, Any]) -> str:
    name = fields.get("signature_name", "")
    if not isinstance(name, str):
        raise InvalidArgument(
            f"JSON Value: {json_tensors.show(fields)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return name


def _examples(settings: Settings, predictor: Predictor, spec: ModelSpec, method: str) -> Response:
    most = settings.max_tensor_body_mb * MEBIBYTE
    with TensorDocument(read_tensor_body(settings)) as document:
        task = Task(method, _signature_name(document.fields))
        read = document.close_after(partial(examples_from_body, method=method, max_bytes=most))
        work = Examples(task, read, request.environ["wsgi.input"].hold_answer)
        ((servable, rows),) = predictor.answer(spec, [work], PROTOCOL, is_gone=client_is_gone())
    return json_response({"results": rows}, answered_by=servable)


def _metadata(predictor: Predictor, spec: ModelSpec) -> Response:
    with predictor.repository.acquire(spec) as servable:
        answer = _to_json(grpc_messages.metadata_response(servable))
    del answer["metadata"]["signature_def"]["@type"]  # which TensorFlow Serving leaves out
    return json_response(answer, answered_by=servable.id)


def _to_json(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
