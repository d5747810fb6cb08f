"""The Open Inference Protocol over HTTP, under /v2: JSON, and its extension of
binary tensors behind the JSON.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from flask import Blueprint, Response, request

from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.server.bodies.json_bodies import (
    TensorDocument,
    hold_answer,
    json_response,
    read_tensor_body,
    version_header,
)
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.protocols.open_inference import (
    CLASSES,
    SERVER,
    classified,
    describe_model,
    spec_of,
    work_of,
)
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.inference.request_kinds import Prediction
from dogsnap.serving.tensors.open_inference_tensors import Tensor, describe_output, to_raw
from dogsnap.settings import Settings

PROTOCOL = "open_inference"  # in the metrics, and of the blueprint
JSON_LENGTH = "Inference-Header-Content-Length"  # of a body with binary tensors behind the JSON
MODEL = "/v2/models/<name>"
VERSION = f"{MODEL}/versions/<version>"
Fields = Mapping[str, Any]


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    routes = Blueprint(PROTOCOL, __name__)
    repository = predictor.repository

    @routes.get("/v2")
    def server() -> Response:
        return json_response(SERVER)

    @routes.get("/v2/health/live")
    def live() -> Response:
        return json_response({"live": True})

    @routes.get("/v2/health/ready")
    def ready() -> Response:
        if reason := repository.not_ready():
            raise Unavailable(f"not ready: {reason}")
        return json_response({"ready": True})

    @routes.get(MODEL)
    @routes.get(VERSION)
    def model(**which: str) -> Response:
        return json_response(describe_model(repository, spec_of(**which)))

    @routes.get(f"{MODEL}/ready")
    @routes.get(f"{VERSION}/ready")
    def model_ready(**which: str) -> Response:
        with repository.acquire(spec_of(**which)) as servable:
            return json_response({"name": servable.id.name, "ready": True})

    @routes.post(f"{MODEL}/infer")
    @routes.post(f"{VERSION}/infer")
    def infer(**which: str) -> Response:
        spec = spec_of(**which)
        body = read_tensor_body(settings)
        length = _json_length(len(body))
        with TensorDocument(body[:length]) as document:
            fields = document.fields
            tensors = _tensors(fields, memoryview(body)[length:])
            parameters = _parameters(fields)
            signature_name = _text(parameters, "signature_name", "")
            wanted = _objects(fields, "outputs", [])
            names = [_text(output, "name") for output in wanted]
            head = {"id": fields["id"]} if isinstance(fields.get("id"), str) else {}
            work = work_of(repository, spec, tensors, signature_name, names, document.release)
            (prediction,) = predictor.answer(spec, [work], PROTOCOL, is_gone=client_is_gone())
        counts = {
            output["name"]: parameters_of[CLASSES]
            for output in wanted
            if CLASSES in (parameters_of := _parameters(output))
        }
        arrays = classified(repository, prediction, counts)
        answered = replace(prediction, outputs=arrays)
        return _response(answered, head, wanted, parameters, settings)

    return routes


def _json_length(body_length: int) -> int:
    """How many bytes of the body are JSON. Raises InvalidArgument."""
    text = request.headers.get(JSON_LENGTH, str(body_length))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= body_length):
        expected = f"expected a number of bytes up to the body's {body_length}"
        raise InvalidArgument(f"{JSON_LENGTH} is {text[:40]!r}; {expected}")
    return int(text)


def _field(
    fields: Fields,
    name: str,
    kind: type,
    expected: str,
    default: Any = None,
    item_kind: type | None = None,
) -> Any:
    """A field of this type, in a list values of that type; null is as good as none.
    Raises InvalidArgument.
    """
    value = default if fields.get(name) is None else fields[name]
    is_right = type(value) is kind
    if is_right and item_kind:
        is_right = all(type(item) is item_kind for item in value)
    if not is_right:
        raise InvalidArgument(f'expected "{name}": {expected}, received {value!r:.100}')
    return value


def _text(fields: Fields, name: str, default: str | None = None) -> str:
    return _field(fields, name, str, "a text", default)


def _objects(fields: Fields, name: str, default: list[Any] | None = None) -> list[dict[str, Any]]:
    return _field(fields, name, list, "a list of objects, each with a name", default, dict)


def _parameters(fields: Fields) -> dict[str, Any]:
    return _field(fields, "parameters", dict, "an object", {})


def _tensors(fields: Fields, binary: memoryview) -> list[Tensor]:
    """The inputs; those with a binary_data_size take so many bytes behind the
    JSON, in turn. Raises InvalidArgument.
    """
    tensors = []
    for given in _objects(fields, "inputs"):
        parameters = _parameters(given)
        if "binary_data_size" in parameters:
            size = parameters["binary_data_size"]
            if type(size) is not int or not 0 <= size <= len(binary):
                raise InvalidArgument(
                    f"binary_data_size is {size!r:.40}; expected a number up to the "
                    f"{len(binary)} bytes that are left"
                )
            data, binary = binary[:size], binary[size:]
        else:
            expected = "a list of values, or the parameter binary_data_size"
            data = _field(given, "data", list, expected)
        name = _text(given, "name")
        datatype = _text(given, "datatype")
        shape = _field(given, "shape", list, "a list of whole numbers", item_kind=int)
        is_base64 = parameters.get("content_type") == "base64"
        tensors.append(Tensor(name, datatype, shape, data, is_base64))
    if binary:
        raise InvalidArgument(
            f"{len(binary)} bytes behind the JSON belong to no input; give each its "
            "binary_data_size"
        )
    return tensors


def _response(
    prediction: Prediction,
    head: Fields,
    wanted: list[dict[str, Any]],
    parameters: Fields,
    settings: Settings,
) -> Response:
    """JSON, with those outputs behind it that the client wants in binary form."""
    outputs, parts = [], []
    for asked in wanted or [{"name": name} for name in prediction.outputs]:
        name = asked["name"]
        array = prediction.outputs[name]
        output = describe_output(name, array)
        if _parameters(asked).get("binary_data", parameters.get("binary_data_output")):
            parts.append(to_raw(array))
            output["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            hold_answer({name: array}, settings)
            output |= _data(array.reshape(-1))
        outputs.append(output)
    servable = prediction.servable
    answer = {"model_name": servable.name, "model_version": str(servable.version), **head}
    response = json_response({**answer, "outputs": outputs}, headers=version_header(servable))
    if parts:
        response.headers[JSON_LENGTH] = str(len(response.data))
        response.mimetype = "application/octet-stream"
        response.data = b"".join([response.data, *parts])
    return response


def _data(values: np.ndarray) -> dict[str, Any]:
    """The values as JSON: strings as text, or as base64 with that content_type
    where one of them is no text.
    """
    if values.dtype.name == "bfloat16":  # which JSON's writer does not know
        return {"data": values.astype(np.float32)}
    if values.dtype != object:
        return {"data": values}
    try:
        return {"data": [value.decode() for value in values]}
    except UnicodeDecodeError:
        texts = [base64.b64encode(value).decode("ascii") for value in values]
        return {"data": texts, "parameters": {"content_type": "base64"}}
