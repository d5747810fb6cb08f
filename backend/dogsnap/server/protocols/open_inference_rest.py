"""The Open Inference Protocol over HTTP, under /v2: JSON, and its extension of
binary tensors behind the JSON.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from flask import Blueprint, Response, request

from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.server.middleware.bodies import read_body
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.middleware.json_bodies import json_response, version_header
from dogsnap.server.middleware.request_ids import own_sticky_key
from dogsnap.server.protocols import open_inference
from dogsnap.server.protocols.open_inference import BYTES, TYPES, InferRequest, Tensor
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.inference.request_kinds import Prediction
from dogsnap.serving.photos.base64_text import decode_base64
from dogsnap.serving.tensors.json_parsing import reading
from dogsnap.serving.tensors.json_tensors import to_array
from dogsnap.settings import Settings

PROTOCOL = "open_inference"  # in the metrics, and of the blueprint
JSON_LENGTH = "Inference-Header-Content-Length"  # of a body with binary tensors behind the JSON
MODEL = "/v2/models/<name>"
VERSION = f"{MODEL}/versions/<version>"


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    routes = Blueprint(PROTOCOL, __name__)

    @routes.get("/v2")
    def server() -> Response:
        return json_response(open_inference.SERVER)

    @routes.get("/v2/health/live")
    def live() -> Response:
        return json_response({"live": True})

    @routes.get("/v2/health/ready")
    def ready() -> Response:
        if reason := predictor.repository.not_ready():
            raise Unavailable(f"not ready: {reason}")
        return json_response({"ready": True})

    @routes.get(MODEL)
    @routes.get(VERSION)
    def model(name: str, version: str = "") -> Response:
        spec = open_inference.spec_of(name, version, own_sticky_key())
        return json_response(open_inference.describe_model(predictor, spec))

    @routes.get(f"{MODEL}/ready")
    @routes.get(f"{VERSION}/ready")
    def model_ready(name: str, version: str = "") -> Response:
        spec = open_inference.spec_of(name, version, own_sticky_key())
        with predictor.repository.acquire(spec) as servable:
            return json_response({"name": servable.id.name, "ready": True})

    @routes.post(f"{MODEL}/infer")
    @routes.post(f"{VERSION}/infer")
    def infer(name: str, version: str = "") -> Response:
        spec = open_inference.spec_of(name, version, own_sticky_key())
        body = read_body(settings.max_tensor_body_mb, "DOGSNAP_MAX_TENSOR_BODY_MB")
        length = _json_length(len(body))
        binary = memoryview(body)[length:]
        with reading(body[:length], settings.max_json_depth, settings.max_json_values) as fields:
            wanted = _objects(fields, "outputs") if "outputs" in fields else []
            names = [_text(output, "name") for output in wanted]
            signature_name = _parameters(fields).get("signature_name", "")
            if not isinstance(signature_name, str):
                raise InvalidArgument("the parameter signature_name is no text")
            asked = InferRequest(spec, _tensors(fields, binary), names, signature_name)
            given = open_inference.infer(predictor, asked, PROTOCOL, is_gone=client_is_gone())
            return _response(given, fields, wanted)

    return routes


def _json_length(body_length: int) -> int:
    """How many bytes of the body are JSON. Raises InvalidArgument."""
    text = request.headers.get(JSON_LENGTH, str(body_length))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= body_length):
        raise InvalidArgument(
            f"{JSON_LENGTH} is {text[:40]!r}; expected a number of bytes up to the "
            f"body's {body_length}"
        )
    return int(text)


def _objects(fields: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    objects = fields.get(name)
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise InvalidArgument(
            f'expected "{name}": a list of objects, each with a name, received '
            f"{type(objects).__name__}"
        )
    return objects


def _text(fields: Mapping[str, Any], name: str) -> str:
    text = fields.get(name)
    if not isinstance(text, str):
        raise InvalidArgument(f'expected "{name}": a text, received {type(text).__name__}')
    return text


def _parameters(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = fields.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InvalidArgument(
            f'expected "parameters": an object, received {type(parameters).__name__}'
        )
    return parameters


def _tensors(fields: Mapping[str, Any], binary: memoryview) -> list[Tensor]:
    """The inputs; those with a binary_data_size take so many bytes behind the
    JSON, in turn.
    """
    tensors = []
    start = 0
    for fields_of_input in _objects(fields, "inputs"):
        shape = fields_of_input.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise InvalidArgument(f'expected "shape": a list of numbers, received {shape!r:.100}')
        size = _parameters(fields_of_input).get("binary_data_size", 0)
        if type(size) is not int or not 0 <= size <= len(binary) - start:
            raise InvalidArgument(
                f"binary_data_size is {size!r:.40}; expected a number up to the "
                f"{len(binary) - start} bytes that are left"
            )
        raw = binary[start : start + size]
        start += size
        tensors.append(_tensor(fields_of_input, tuple(shape), raw))
    if start != len(binary):
        raise InvalidArgument(
            f"{len(binary) - start} bytes behind the JSON belong to no input; give each "
            "its binary_data_size"
        )
    return tensors


def _tensor(fields: Mapping[str, Any], shape: tuple[int, ...], raw: memoryview) -> Tensor:
    name, datatype = _text(fields, "name"), _text(fields, "datatype")
    parameters = _parameters(fields)

    def read() -> np.ndarray:
        if "binary_data_size" in parameters:
            count = int(np.prod(shape, dtype=object))
            return open_inference.from_raw(name, datatype, count, bytes(raw))
        if "data" not in fields:
            raise InvalidArgument(f'input "{name}": expected "data" or binary_data_size')
        values = to_array(fields["data"], TYPES[datatype]).reshape(-1)
        if datatype == BYTES and parameters.get("content_type") == "base64":
            return np.fromiter(map(decode_base64, values), object, values.size)
        return values

    return Tensor(name, datatype, shape, read)


def _response(
    prediction: Prediction, fields: Mapping[str, Any], wanted: list[dict[str, Any]]
) -> Response:
    """JSON, with those outputs behind it that the client wants in binary form."""
    is_binary = {name: _parameters(fields).get("binary_data_output") for name in prediction.outputs}
    for output in wanted:
        chosen = _parameters(output).get("binary_data")
        is_binary[output["name"]] = is_binary[output["name"]] if chosen is None else chosen
    outputs, binary = [], []
    for name, array in prediction.outputs.items():
        datatype = open_inference.datatype_of(name, array)
        output = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if is_binary[name]:
            binary.append(open_inference.to_raw(array))
            output["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            output |= _data(datatype, array.reshape(-1))
        outputs.append(output)
    servable = prediction.servable
    answer = {"model_name": servable.name, "model_version": str(servable.version)}
    if isinstance(fields.get("id"), str):
        answer["id"] = fields["id"]
    answer["outputs"] = outputs
    if not binary:
        return json_response(answer, headers=version_header(servable))
    head = orjson.dumps(answer)
    headers = {JSON_LENGTH: str(len(head)), **version_header(servable)}
    body = b"".join([head, *binary])
    return Response(body, headers=headers, mimetype="application/octet-stream")


def _data(datatype: str, values: np.ndarray) -> dict[str, Any]:
    """The values as JSON: strings as text, or as base64 with that content_type
    where one of them is no text.
    """
    if datatype != BYTES:
        return {"data": values.astype(np.float32) if datatype == "BF16" else values}
    try:
        return {"data": [value.decode() for value in values]}
    except UnicodeDecodeError:
        texts = [base64.b64encode(value).decode("ascii") for value in values]
        return {"data": texts, "parameters": {"content_type": "base64"}}
