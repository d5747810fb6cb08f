"""The app's API under /api: classifies a photo, lists breeds and models."""

import base64
import logging
import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from flask import Blueprint, Response, g, request, send_from_directory
from werkzeug.wrappers import Response as ResponseBase

from dogsnap.errors import InvalidArgument, NotFound, Unavailable
from dogsnap.model_urls import local_folder
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.bodies import photo_bodies
from dogsnap.server.bodies.json_bodies import json_response, parse_json
from dogsnap.server.bodies.receiving import read_body
from dogsnap.server.bodies.request_fields import text_field, whole_number, with_query
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.middleware.request_ids import STICKY_KEY, new_id
from dogsnap.server.protocols.openapi import read_fields
from dogsnap.serving.answers.classification import Classification, require_labels
from dogsnap.serving.answers.levels import Level
from dogsnap.serving.answers.several_photos import MOST_PHOTOS, map_photos
from dogsnap.serving.feedback.feedback import Feedback
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.photos.base64_text import decode_base64
from dogsnap.serving.photos.content_check import ContentCheck
from dogsnap.serving.photos.photo import Photo
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.versions import phone_files
from dogsnap.settings import Settings

log = logging.getLogger("dogsnap.api")

PROTOCOL = "api"  # in the metrics, and of the blueprint
BREEDS_FILE = "breeds.json"
EXPECTED = f'expected {BREEDS_FILE} in the models folder, a list of objects with an "id"'
POPULARITY_FILE = "popularity.json"
FOR_GOOD = "private, max-age=31536000, immutable"  # a year: what has its digest in its address
# The fields beside the photo, in the JSON object, the form or the query.
FIELDS = {
    "top_k": whole_number,
    "model": text_field,
    "version": whole_number,
    "label": text_field,
}


def blueprint(settings: Settings, predictor: Predictor, feedback: Feedback | None) -> Blueprint:
    routes = Blueprint(PROTOCOL, __name__, url_prefix="/api")
    shipped_files = local_folder(settings.models)
    url = settings.content_check
    content_check = ContentCheck(url, settings.max_photo_pixels) if url else None

    @routes.post("/classify")
    def classify() -> Response:
        found, received = _photos_and_fields(settings, MOST_PHOTOS)
        spec = _find_spec(received, predictor)
        top_k = whole_number("top_k", received.get("top_k"))
        photos: Sequence[bytes | Photo] = found
        if content_check:
            photos = map_photos(content_check.require_passed, found)
        joined = predictor.classify(photos, spec, top_k, PROTOCOL, client_is_gone())
        result, answer = joined.answer, joined.to_json()
        # Of several labels it cannot be said which of them is right.
        if feedback and result.level is not Level.LABELS:
            answer = _with_feedback_ids(feedback, result, answer, spec)
        return _answer(answer)

    @routes.post("/upright")
    def upright() -> Response:
        (photo,), _ = _photos_and_fields(settings, 1)
        copy = predictor.upright_copy(photo, client_is_gone())
        return _answer({"image": base64.b64encode(copy).decode()})

    @routes.get("/breeds")
    def breeds() -> ResponseBase:
        shipped = _read_facts(shipped_files / BREEDS_FILE)
        with predictor.repository.acquire(_find_spec(with_query({}), predictor)) as servable:
            classes, taught = require_labels(servable), servable.description.read_taught_breeds()
        facts = {breed["id"]: breed for breed in taught} | shipped
        known = [{**facts.get(label["id"], {}), **label} for label in classes]
        ranks = _ranks(shipped_files / POPULARITY_FILE)
        # What people have most comes first.
        known.sort(key=lambda breed: ranks.get(breed["id"], math.inf))
        return _unless_known(json_response({"breeds": known}))

    @routes.get("/models")
    def models() -> Response:
        repository = predictor.repository
        breeds = _read_facts(shipped_files / BREEDS_FILE)
        return json_response(
            {
                "models": [_describe(repository, name, breeds) for name in repository.models()],
                "default_model": predictor.default_model(),
                "feedback_days": settings.feedback_days if feedback else None,
            }
        )

    _add_feedback(routes, feedback)
    _add_offline(routes, predictor)
    return routes


def _add_feedback(routes: Blueprint, feedback: Feedback | None) -> None:
    @routes.post("/feedback")
    def give_feedback() -> Response:
        fields = read_fields()
        note = require_feedback(feedback).give(
            fields["request_id"],
            fields.get("verdict", ""),
            fields.get("breed", ""),
            fields.get("text", ""),
        )
        return _answer({"kept": True, "note": note} if note else {"kept": True})

    @routes.post("/feedback/forget")
    def forget_feedback() -> Response:
        fields = read_fields()
        return _answer({"forgotten": require_feedback(feedback).forget(fields["request_ids"])})


def _add_offline(routes: Blueprint, predictor: Predictor) -> None:
    """The network that phones run without a connection."""

    @routes.get("/offline")
    def offline() -> ResponseBase:
        description = _phone_folder(predictor) / phone_files.DESCRIPTION
        return _unless_known(Response(description.read_bytes(), mimetype="application/json"))

    @routes.get("/offline/<digest>/<name>")
    def offline_file(digest: str, name: str) -> Response:
        folder = _phone_folder(predictor)
        stated = orjson.loads((folder / phone_files.DESCRIPTION).read_bytes())
        if digest != stated["digest"] or name not in stated["files"]:
            raise NotFound(
                f"expected one of {', '.join(stated['files'])} of {stated['digest']}, "
                f"received {name} of {digest}; GET /api/offline again"
            )
        response = send_from_directory(folder, name)
        response.headers["Cache-Control"] = FOR_GOOD
        return response


def _unless_known(response: Response) -> ResponseBase:
    """The answer, or 304 to a client that has it already."""
    response.headers["Cache-Control"] = "no-cache"
    response.add_etag()
    return response.make_conditional(request)


def _phone_folder(predictor: Predictor) -> Path:
    """With the network for phones of the version that answers the client.

    Raises NotFound where it has none.
    """
    with predictor.repository.acquire(_find_spec({}, predictor)) as servable:
        folder = servable.path and Path(os.path.realpath(servable.path)) / phone_files.FOLDER
        if folder is None or not (folder / phone_files.DESCRIPTION).is_file():
            raise NotFound(f"{servable.id} has no network for phones; `dogsnap export` writes it")
    return folder


def _answer(fields: Mapping[str, Any]) -> Response:
    return json_response({**fields, "request_id": g.request_id})


def _find_spec(received: Mapping[str, Any], predictor: Predictor) -> ModelSpec:
    """The version that a client asks by the fields `model`, `version` and
    `label`, else that which answers it by default.
    """
    name = text_field("model", received.get("model")) or predictor.default_model()
    version = whole_number("version", received.get("version"))
    label = text_field("label", received.get("label")) or None
    return ModelSpec(name, version, label, STICKY_KEY.get())


def _read_facts(file: Path) -> dict[str, dict[str, Any]]:
    """What there is to know of breeds, by id; nothing without the file.

    Raises Unavailable if it cannot be read.
    """
    if not file.is_file():
        return {}
    try:
        facts = {breed["id"]: breed for breed in orjson.loads(file.read_bytes())}
        if not all(isinstance(breed, str) for breed in facts):
            raise TypeError("an id is no text")
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.error("%s cannot be read: %r", file, error)
        raise Unavailable(f"the breeds cannot be read: {EXPECTED}") from None
    return facts


def _ranks(file: Path) -> dict[str, float]:
    """How far to the front breeds stand, by id; none where the file cannot be
    read, since an order is not worth the list.
    """
    if not file.is_file():
        return {}
    try:
        ranks = orjson.loads(file.read_bytes())["ranks"]
        return {breed: float(rank) for breed, rank in ranks.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s cannot be read, the breeds are listed without it: %r", file, error)
        return {}


def _describe(repository: ModelRepository, name: str, breeds: Collection[str]) -> dict[str, Any]:
    """A model with its versions; `breeds`: ids of classes that are known to be
    breeds of dogs.
    """
    labels, pending = repository.labels(name)
    versions = []
    for status in repository.status(ModelSpec(name)):
        dogs = status.description.tells_dogs(breeds) if status.description else None
        versions.append({**status.to_json(), "dogs": dogs})
    return {
        "name": name,
        "default_version": repository.default_version(name),
        "versions": versions,
        "labels": labels,
        "pending_labels": pending,
    }


def _with_feedback_ids(
    feedback: Feedback, result: Classification, answer: dict[str, Any], spec: ModelSpec
) -> dict[str, Any]:
    """The answer, `result` as JSON, with the id that takes feedback on it; each
    dog has an id, too.

    That id begins with the request's own, and takes its place in the answer and
    its header; logs have the request's own. A client's own X-Request-Id stays
    what it is: it may come again with another request.
    """
    is_clients = g.request_id == request.headers.get("X-Request-Id")
    signed = feedback.sign_answer(new_id() if is_clients else g.request_id, result, spec)
    if not is_clients:
        g.request_id = signed
    # The app asks about the first dog alone; a correction of another one is no vote.
    ids = [signed]
    for dog in result.dogs[1:]:
        ids.append(feedback.sign_answer(new_id(), dog, spec, asked=False))
    for dog, own in zip(answer["dogs"], ids, strict=False):
        dog["feedback_id"] = own
    return {**answer, "feedback_id": signed, "feedback_asked": True}


def require_feedback(feedback: Feedback | None) -> Feedback:
    """Raises NotFound where none is taken."""
    if feedback is None:
        raise NotFound("this server accepts no feedback; start it with --feedback FILE")
    return feedback


def _photos_and_fields(settings: Settings, most: int) -> tuple[list[bytes], dict[str, Any]]:
    """The bytes of one photo, or of up to `most` of one dog, and the other
    fields, from JSON or what else `photo_bodies` takes; the query may have
    fields, too.
    """
    body = read_body(settings.max_body_mb, "DOGSNAP_MAX_BODY_MB")
    boundary = request.mimetype_params.get("boundary", "")
    if received := photo_bodies.parse(body, request.mimetype, boundary):
        _check_count(len(received.photos), most)
        return received.photos, with_query(received.fields)
    if not photo_bodies.may_be_json(body):
        raise InvalidArgument(
            'expected a photo: {"image": "<base64>"} as JSON, the bytes of its file '
            "with Content-Type: image/jpeg, or a form "
            f"with the field image; received {len(body)} bytes of type "
            f"{request.mimetype or 'unknown'}"
        )
    fields = parse_json(body)
    del body  # as long as the photo, like its text, of which the decoded photo is a second copy
    photos = map_photos(decode_base64, _texts_of_photos(fields, most))
    return photos, with_query(fields)


def _texts_of_photos(fields: dict[str, Any], most: int) -> list[str]:
    """The base64 text of each photo, which is taken out of `fields`."""
    text, texts = fields.pop("image", None), fields.pop("images", None)
    if most > 1 and texts is not None and text is None:
        is_list = isinstance(texts, list) and all(isinstance(each, str) for each in texts)
        if not is_list:
            raise InvalidArgument('"images" is no list of photos, each as base64 text')
        _check_count(len(texts), most)
        return texts
    if not isinstance(text, str) or (most > 1 and texts is not None):
        kind = "nothing" if text is None else f"a {type(text).__name__}"
        if text is not None and texts is not None:
            kind = "both image and images"
        several = f', "images" (a list of up to {most} photos of one dog)' if most > 1 else ""
        raise InvalidArgument(
            f'expected "image": the photo as base64 text, received {kind}; fields are '
            f"image{several}, {', '.join(FIELDS)}"
        )
    return [text]


def _check_count(received: int, most: int) -> None:
    if not 1 <= received <= most:
        expected = "one photo" if most == 1 else f"one to {most} photos of one dog"
        raise InvalidArgument(f"expected {expected}, received {received or 'none'}")
