"""Simple TensorFlow Serving's API: POST / with JSON or photos in a form, the
list of models, and generated clients.

Its clients know only one version: without one, the largest that takes their
data answers. `preprocess`, `postprocess` and `run_profile` are ignored: they
ran code out of the model, or wrote files.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import tensorflow as tf
from flask import Blueprint, Response, request

from dogsnap.errors import DogsnapError, InvalidArgument, NotFound
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.bodies import photo_bodies
from dogsnap.server.bodies.json_bodies import (
    TensorDocument,
    hold_answer,
    json_response,
    read_tensor_body,
)
from dogsnap.server.bodies.receiving import too_large
from dogsnap.server.bodies.request_fields import text_field, whole_number, with_query
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.middleware.request_ids import STICKY_KEY
from dogsnap.server.pages import generated_clients
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.inference.request_kinds import Photos, Prediction, Values
from dogsnap.serving.tensors import json_tensors
from dogsnap.settings import MEBIBYTE, Settings

PROTOCOL = "simple"  # in the metrics, and of the blueprint
DEFAULT_NAME = "default"  # the name that clients use if there is only one model
PATH_OF_PROXY = re.compile(r"(/[\w.~-]+)*")


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    routes = Blueprint(PROTOCOL, __name__)

    @routes.post("/")
    def infer() -> Response:
        body = read_tensor_body(settings)
        if len(body) > settings.max_body_mb * MEBIBYTE and not photo_bodies.may_be_json(body):
            size = f"{len(body) / MEBIBYTE:.1f} MiB"
            raise too_large(size, settings.max_body_mb, "DOGSNAP_MAX_BODY_MB")
        boundary = request.mimetype_params.get("boundary", "")
        if received := photo_bodies.parse(body, request.mimetype, boundary):
            prediction = _from_photos(predictor, received)
        else:
            with TensorDocument(body) as document:
                del body
                prediction = _from_json(predictor, document)
        hold_answer(prediction.outputs, settings)
        answer = json_tensors.to_members(prediction.outputs)
        return json_response(answer, answered_by=prediction.servable)

    @routes.get("/health")
    def health() -> Response:
        return Response("healthy", mimetype="text/plain")

    @routes.get("/v1/models")
    def models() -> Response:
        return json_response(_details(predictor))

    @routes.get("/v1/models/<name>/gen_json")
    def gen_json(name: str) -> Response:
        fields = _find_example(predictor, name)
        return json_response(generated_clients.to_data(fields["data"]))

    @routes.get("/v1/models/<name>/gen_client")
    def gen_client(name: str) -> Response:
        fields = _find_example(predictor, name)
        language = request.args.get("language", "bash")
        source = generated_clients.write_client(language, _own_address(), fields)
        return Response(source, mimetype="text/plain")

    return routes


def _own_address() -> str:
    """Where the client reaches `POST /`: below the path that a proxy names in
    X-Forwarded-Prefix.
    """
    path = request.headers.get("X-Forwarded-Prefix", "").rstrip("/")
    return request.root_url + (f"{path[1:]}/" if PATH_OF_PROXY.fullmatch(path) and path else "")


def _from_json(predictor: Predictor, document: TensorDocument) -> Prediction:
    fields = document.fields
    if "data" not in fields:
        raise InvalidArgument('expected {"data": {input: value}}, received no "data"')
    chosen = with_query({name: value for name, value in fields.items() if name != "data"})
    signature_name = text_field("signature_name", chosen.get("signature_name"))
    base64_decode = _flag("base64_decode", chosen.get("base64_decode"))
    name = text_field("model_name", chosen.get("model_name"))
    spec = _spec(predictor, name, chosen.get("model_version"))
    if spec.version is None:
        spec = predictor.taking(
            spec,
            signature_name,
            lambda signature: json_tensors.takes(signature, fields["data"]),
        )
    read = document.close_after(
        lambda fields, signature: json_tensors.from_data(fields["data"], signature, base64_decode)
    )
    work = Values(read, signature_name)
    (prediction,) = predictor.answer(spec, [work], PROTOCOL, is_gone=client_is_gone())
    return prediction


def _flag(name: str, value: Any) -> bool:
    """A field that is true or false, also as text, as that server's clients
    send it. Raises InvalidArgument.
    """
    text = "" if value is None else str(value).lower()
    if text not in ("true", "false", ""):
        raise InvalidArgument(f"{name} is {value!r}; expected true or false")
    return text == "true"


def _from_photos(predictor: Predictor, received: photo_bodies.PhotoBody) -> Prediction:
    fields = with_query(received.fields)
    spec = _spec(predictor, fields.get("model_name", ""), fields.get("model_version"))
    work = Photos(received.photos, fields.get("signature_name", ""))
    (prediction,) = predictor.answer(spec, [work], PROTOCOL, is_gone=client_is_gone())
    return prediction


def _spec(predictor: Predictor, name: str, version: Any) -> ModelSpec:
    is_default = name in ("", DEFAULT_NAME) and name not in predictor.repository.models()
    return ModelSpec(
        predictor.default_model() if is_default else name,
        whole_number("model_version", version),
        sticky_key=STICKY_KEY.get(),
    )


def _find_example(predictor: Predictor, name: str) -> dict[str, Any]:
    """The fields of a request with the first example that the model answers; a very
    large one is not tried.

    Raises InvalidArgument if it refuses each.
    """
    spec = _spec(predictor, name, request.args.get("version"))
    with predictor.repository.acquire(spec) as servable:
        signature = servable.signature(request.args.get("signature_name", ""))
    exactly = ModelSpec(*servable.id)
    fields = {
        "model_name": exactly.name,
        "model_version": exactly.version,
        "signature_name": signature.name,
    }
    refusals = []
    for example in generated_clients.find_examples(signature):
        if generated_clients.count_values(example) > generated_clients.MOST_VALUES:
            return {**fields, "data": example}
        inputs = partial(json_tensors.from_data, generated_clients.to_data(example))
        work = Values(inputs, signature.name)
        try:
            predictor.answer(exactly, [work], PROTOCOL, is_gone=client_is_gone())
        except InvalidArgument as error:
            refusals.append(error.message)
        else:
            return {**fields, "data": example}
    raise InvalidArgument(
        f'no example is known that signature "{signature.name}" of {servable.id} answers; '
        f"it says of the simplest: {refusals[0]}"
    )


def _details(predictor: Predictor) -> list[dict[str, Any]]:
    """The models in that server's format.

    The base path is only the name: the server's folders are not disclosed.
    """
    details = []
    for name in predictor.repository.models():
        with suppress(NotFound):  # removed from the configuration meanwhile
            versions = [str(each) for each in reversed(predictor.repository.available(name))]
            signature = _default_signature(predictor, name)
            details.append(
                {
                    "model_name": name,
                    "model_base_path": name,
                    "model_version_list": versions,
                    "model_signature": signature,
                    "platform": "TensorFlow",
                }
            )
    return details


def _default_signature(predictor: Predictor, name: str) -> dict[str, list[dict[str, Any]]]:
    """Empty for a model without any, and for one that is not available now."""
    try:
        with predictor.repository.acquire(ModelSpec(name)) as servable:
            signature = servable.default_signature()
    except DogsnapError:
        return {"inputs": [], "outputs": []}
    return {"inputs": _tensors(signature.inputs), "outputs": _tensors(signature.outputs)}


def _tensors(specs: Mapping[str, tf.TensorSpec]) -> list[dict[str, Any]]:
    tensors = []
    for alias, spec in specs.items():
        shape = [dim.size for dim in spec.shape.as_proto().dim]  # -1 is any size
        tensors.append({"name": alias, "dtype": spec.dtype.as_datatype_enum, "shape": shape})
    return tensors
