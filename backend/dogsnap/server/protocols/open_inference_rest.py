"""The Open Inference Protocol over HTTP, under /v2: JSON, and its extension of
binary tensors behind the JSON.
"""

import base64
from typing import Any

import numpy as np
from flask import Blueprint, Response, request

from dogsnap.errors import InvalidArgument
from dogsnap.server.bodies.json_bodies import (
    TensorDocument,
    hold_answer,
    json_response,
    read_tensor_body,
)
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.protocols.http_health import require_ready
from dogsnap.server.protocols.open_inference import (
    CLASSES,
    SERVER,
    Fields,
    classified,
    describe_model,
    refuse_shared_memory,
    spec_of,
    work_of,
)
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.tensors.open_inference_tensors import Tensor, describe_output, to_raw
from dogsnap.serving.tensors.signatures import Arrays, ServableId
from dogsnap.settings import Settings

PROTOCOL = "open_inference"  # in the metrics, and of the blueprint
JSON_LENGTH = "Inference-Header-Content-Length"  # of a body with binary tensors behind the JSON
MODEL = "/v2/models/<name>"
VERSION = f"{MODEL}/versions/<version>"
OBJECTS = (list, dict, "a list of objects, each with a name")
TEXT = (str, None, "a text")
# Of fields in JSON the type, that of the items in a list, and what is expected.
KINDS: dict[str, tuple[type, type | None, str]] = {
    "inputs": OBJECTS,
    "outputs": OBJECTS,
    "parameters": (dict, None, "an object"),
    "signature_name": TEXT,
    "name": TEXT,
    "datatype": TEXT,
    "shape": (list, int, "a list of whole numbers"),
    "data": (list, None, "a list of values, or the parameter binary_data_size"),
}


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
        require_ready(repository)
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
            wanted = _field(fields, "outputs", [])
            refuse_shared_memory(
                _field(each, "parameters", {}) for each in (*_field(fields, "inputs"), *wanted)
            )
            tensors = _tensors(fields, memoryview(body)[length:])
            parameters = _field(fields, "parameters", {})
            signature_name = _field(parameters, "signature_name", "")
            names = [_field(output, "name") for output in wanted]
            head = {"id": fields["id"]} if isinstance(fields.get("id"), str) else {}
            work = work_of(repository, spec, tensors, signature_name, names, document.close)
            (prediction,) = predictor.answer(spec, [work], PROTOCOL, is_gone=client_is_gone())
        counts = {
            output["name"]: parameters_of[CLASSES]
            for output in wanted
            if CLASSES in (parameters_of := _field(output, "parameters", {}))
        }
        arrays = classified(repository, prediction, counts)
        return _response(prediction.servable, arrays, head, wanted, parameters, settings)

    return routes


def _json_length(body_length: int) -> int:
    """How many bytes of the body are JSON. Raises InvalidArgument."""
    text = request.headers.get(JSON_LENGTH, str(body_length))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= body_length):
        expected = f"expected a number of bytes up to the body's {body_length}"
        raise InvalidArgument(f"{JSON_LENGTH} is {text[:40]!r}; {expected}")
    return int(text)


def _field(fields: Fields, name: str, default: Any = None) -> Any:
    """A field as KINDS says; null is as good as none. Raises InvalidArgument."""
    kind, kind_of_items, expected = KINDS[name]
    value = default if fields.get(name) is None else fields[name]
    is_right = type(value) is kind
    if is_right and kind_of_items:
        is_right = all(type(item) is kind_of_items for item in value)
    if not is_right:
        raise InvalidArgument(f'expected "{name}": {expected}, received {value!r:.100}')
    return value


def _tensors(fields: Fields, binary: memoryview) -> list[Tensor]:
    """The inputs; those with a binary_data_size take so many bytes behind the
    JSON, in turn. Raises InvalidArgument.
    """
    tensors = []
    for given in _field(fields, "inputs"):
        parameters = _field(given, "parameters", {})
        if "binary_data_size" in parameters:
            size = parameters["binary_data_size"]
            if type(size) is not int or not 0 <= size <= len(binary):
                raise InvalidArgument(
                    f"binary_data_size is {size!r:.40}; expected a number up to the "
                    f"{len(binary)} bytes that are left"
                )
            data, binary = binary[:size], binary[size:]
        else:
            data = _field(given, "data")
        name, datatype, shape = (_field(given, field) for field in ("name", "datatype", "shape"))
        is_base64 = parameters.get("content_type") == "base64"
        tensors.append(Tensor(name, datatype, shape, data, is_base64))
    if binary:
        raise InvalidArgument(
            f"{len(binary)} bytes behind the JSON belong to no input; give each its "
            "binary_data_size"
        )
    return tensors


def _response(
    servable: ServableId,
    arrays: Arrays,
    head: Fields,
    wanted: list[Fields],
    parameters: Fields,
    settings: Settings,
) -> Response:
    """JSON, with those outputs behind it that the client wants in binary form."""
    outputs, parts = [], []
    for asked in wanted or [{"name": name} for name in arrays]:
        name = asked["name"]
        array = arrays[name]
        output = describe_output(name, array)
        if _field(asked, "parameters", {}).get("binary_data", parameters.get("binary_data_output")):
            parts.append(to_raw(array))
            output["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            hold_answer({name: array}, settings)
            output |= _data(array.reshape(-1))
        outputs.append(output)
    answer = {"model_name": servable.name, "model_version": str(servable.version), **head}
    response = json_response({**answer, "outputs": outputs}, answered_by=servable)
    if parts:
        response.headers[JSON_LENGTH] = str(len(response.data))
        response.mimetype = "application/octet-stream"
        response.data = b"".join([response.data, *parts])
    return response


def _data(values: np.ndarray) -> Fields:
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
