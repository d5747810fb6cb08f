"""The app's API under /api: classifies a photo, lists breeds and models."""

from typing import Any

from flask import Blueprint, Response, g, request

from backend.errors import InvalidArgument, Unavailable
from backend.middleware.content_check import ContentCheck
from backend.middleware.http_messages import (
    check_form_size,
    contents_of,
    json_response,
    parse_json,
    read_body,
    sticky_key,
)
from backend.middleware.overload import PROTOCOLS
from backend.protocols.fields import TEXT, WHOLE
from backend.serving.inference.predictor import Predictor
from backend.serving.photos.base64_text import decode_base64
from backend.serving.photos.photo import check
from backend.serving.repository.model import ModelSpec
from backend.serving.repository.repository import Repository
from backend.settings import Settings

PROTOCOL = PROTOCOLS["app_api"]
BREEDS_FILE = "breeds.json"
# The fields beside the photo, in the JSON object, the form or the query.
FIELDS = {"top_k": WHOLE, "model": TEXT, "version": WHOLE, "label": TEXT}


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    content_check = ContentCheck(settings.content_check) if settings.content_check else None
    routes = Blueprint("app_api", __name__, url_prefix="/api")

    @routes.post("/classify")
    def classify() -> Response:
        photo, received = _photo_and_fields(settings)
        fields = {name: kind.check(name, received.get(name)) for name, kind in FIELDS.items()}
        if content_check is not None:
            content_check.require_passed(check(photo, predictor.photo_limits))
        result = predictor.classify(photo, _spec(fields, predictor), fields["top_k"], PROTOCOL)
        return json_response({**result.to_json(), "request_id": g.request_id})

    @routes.get("/breeds")
    def breeds() -> Response:
        file = settings.models / BREEDS_FILE
        if not file.is_file():
            raise Unavailable(f"the breeds are missing: expected {BREEDS_FILE} in the models folder")
        body = b'{"breeds": ' + file.read_bytes() + b"}"  # the file is the list itself
        response = Response(body, mimetype="application/json", headers={"Cache-Control": "no-cache"})
        response.add_etag()
        return response.make_conditional(request)

    @routes.get("/models")
    def models() -> Response:
        repository = predictor.repository
        return json_response({"models": [describe(repository, name) for name in repository.models()]})

    return routes


def describe(repository: Repository, name: str) -> dict[str, Any]:
    """A model's versions with their states, its labels, and its default version.

    `classes`: how many breeds a version names, 0 for one that `/api/classify` refuses, null if that is unknown.
    """
    labels, pending = repository.labels(name)
    return {
        "name": name,
        "default_version": repository.default_version(name),
        "versions": [
            {
                "version": each.version,
                "state": each.state,
                "error": each.error,
                "load_seconds": each.load_seconds,
                "runtime": each.runtime,
                "classes": each.classes,
            }
            for each in repository.status(ModelSpec(name))
        ],
        "labels": labels,
        "pending_labels": pending,
    }


def _photo_and_fields(settings: Settings) -> tuple[bytes, dict[str, Any]]:
    """The photo's bytes and the other fields, from JSON, a raw image, or a multipart form with the field `image`."""
    kind = request.mimetype
    if kind.startswith("image/") or kind == "application/octet-stream":
        return _body(settings), request.args.to_dict()
    if kind == "multipart/form-data":
        return _from_form(settings), {**request.args.to_dict(), **request.form.to_dict()}
    fields = parse_json(_body(settings))
    return _from_text(fields), fields


def _body(settings: Settings) -> bytes:
    return read_body(settings.max_body_mb, "DOGSNAP_MAX_BODY_MB")


def _from_form(settings: Settings) -> bytes:
    check_form_size(settings.max_body_mb, "DOGSNAP_MAX_BODY_MB")
    files = request.files.getlist("image")
    if not files and "image" in request.form:
        return decode_base64(request.form["image"])
    if len(files) != 1:
        raise InvalidArgument(f"expected one file in the form's field image, received {len(files)}")
    return contents_of(files[0])


def _from_text(fields: dict[str, Any]) -> bytes:
    text = fields.pop("image", None)  # removed, since the decoded photo is a second copy
    if not isinstance(text, str):
        received = "nothing" if text is None else f"a {type(text).__name__}"
        raise InvalidArgument(
            f'expected "image": the photo as base64 text, received {received}; fields are image, {", ".join(FIELDS)}'
        )
    return decode_base64(text)


def _spec(fields: dict[str, Any], predictor: Predictor) -> ModelSpec:
    name = fields["model"] or predictor.default_model()
    return ModelSpec(name, fields["version"], fields["label"] or None, sticky_key())
