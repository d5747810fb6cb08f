"""What the clouds ask of a container: SageMaker's and MLflow's /ping and
/invocations, and the routes that Vertex AI names.
"""

import io
import re
from typing import Any

from flask import Blueprint, Response, request

from dogsnap.errors import InvalidArgument, UnsupportedMediaType
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.bodies.json_bodies import TensorDocument, json_response, read_tensor_body
from dogsnap.server.bodies.receiving import read_body
from dogsnap.server.bodies.request_fields import refuse_choice_in_query, whole_number
from dogsnap.server.middleware.connections import client_is_gone
from dogsnap.server.middleware.request_ids import STICKY_KEY
from dogsnap.server.protocols.http_health import require_ready
from dogsnap.server.protocols.tf_serving_rest import predict
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.settings import MEBIBYTE, Settings

PROTOCOL = "invocations"  # in the metrics, and of the blueprint
JSON_LINES = ("application/jsonlines", "application/x-jsonlines", "application/x-ndjson")
BLANK_LINES = re.compile(rb"\n\s+")
BINARY = ("application/octet-stream", "application/x-image")
# Paths of other protocols, as /v1/models/half:predict, which name a model themselves. The
# readiness of the server goes before the status of a model, which may still load.
OF_MODELS = ("/v1/models/", "/V1/models/", "/v2/models/")
# SageMaker's TensorFlow containers name the model so: tfs-model-name=half,tfs-model-version=2.
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
ATTRIBUTE = re.compile(r"tfs-(model-name|model-version|method)=([^,]+)")


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    routes = Blueprint(PROTOCOL, __name__)

    @routes.get("/ping", endpoint="ping")
    def ping() -> Response:
        require_ready(predictor.repository)
        return json_response({"status": "ready"})

    @routes.post("/invocations", endpoint="invoke")
    def invoke() -> Response:
        kind = request.mimetype
        if kind.startswith("image/") or kind in BINARY:
            return _classify(settings, predictor)
        if kind in JSON_LINES:
            return _predict(settings, predictor, _rows_of(read_tensor_body(settings)))
        if kind not in ("application/json", ""):
            raise UnsupportedMediaType(
                f"expected application/json, application/jsonlines or a photo (image/*, "
                f"application/octet-stream), received {kind[:80]!r}"
            )
        return _predict(settings, predictor, read_tensor_body(settings))

    if settings.health_route:
        routes.add_url_rule(settings.health_route, "health", ping)
    if settings.predict_route and not settings.predict_route.startswith(OF_MODELS):
        routes.add_url_rule(settings.predict_route, "predict", invoke, methods=["POST"])
    return routes


def _rows_of(lines: bytes) -> bytes:
    """The JSON of a request whose instances stand on these lines; blank ones are left out.

    They are never one list: 50 million short ones would take 2 GB.
    """
    rows = []
    with io.BytesIO(lines.replace(b"\r", b"\n")) as stream:
        while some := stream.read(MEBIBYTE) + stream.readline():
            rows.append(BLANK_LINES.sub(b"\n", some.strip()).replace(b"\n", b","))
    return b'{"instances": [' + b",".join(filter(None, rows)) + b"]}"


def _spec(predictor: Predictor) -> ModelSpec:
    """The model that SageMaker's attributes name, else the default one."""
    named = dict(ATTRIBUTE.findall(request.headers.get(ATTRIBUTES, "")))
    if (method := named.get("method", "predict").strip()) != "predict":
        raise InvalidArgument(
            f"tfs-method is {method[:40]!r}; expected predict, others are asked by "
            "POST /v1/models/NAME:classify or :regress"
        )
    version = whole_number("tfs-model-version", named.get("model-version", "").strip())
    name = named.get("model-name", "").strip() or predictor.default_model()
    return ModelSpec(name, version, sticky_key=STICKY_KEY.get())


def _classify(settings: Settings, predictor: Predictor) -> Response:
    """A photo's bytes: the answer of /api/classify."""
    refuse_choice_in_query()
    photo = read_body(settings.max_body_mb, "DOGSNAP_MAX_BODY_MB")
    answer = predictor.classify([photo], _spec(predictor), None, PROTOCOL, client_is_gone())
    return json_response(answer.to_json())


def _predict(settings: Settings, predictor: Predictor, body: bytes) -> Response:
    with TensorDocument(body) as document:
        fields = document.fields
        _read_data_frame(fields)
        _read_parameters(fields)
        return predict(settings, predictor, _spec(predictor), document, of_columns="predictions")


def _read_parameters(fields: dict[str, Any]) -> None:
    """Of Vertex AI's `parameters` the signature's name, unless it stands beside them."""
    parameters = fields.pop("parameters", None) or {}
    if not isinstance(parameters, dict):
        raise InvalidArgument('"parameters" is no object')
    if "signature_name" in parameters:
        fields.setdefault("signature_name", parameters["signature_name"])


def _read_data_frame(fields: dict[str, Any]) -> None:
    """MLflow's {"dataframe_split": {"columns": [...], "data": [[...]]}} and
    {"dataframe_records": [{...}]} become instances.
    """
    if "dataframe_records" in fields:
        fields["instances"] = fields.pop("dataframe_records")
    if "dataframe_split" not in fields:
        return
    frame = fields.pop("dataframe_split")
    frame = frame if isinstance(frame, dict) else {}
    columns: Any = frame.get("columns")
    rows: Any = frame.get("data")
    if not _is_table(columns, rows):
        raise InvalidArgument(
            'expected "dataframe_split": {"columns": [names], "data": [rows as long as these]}'
        )
    fields["instances"] = [dict(zip(columns, row, strict=True)) for row in rows]


def _is_table(columns: Any, rows: Any) -> bool:
    """Whether these are names and rows of as many values."""
    if not isinstance(columns, list) or not isinstance(rows, list):
        return False
    if not all(isinstance(column, str) for column in columns):
        return False
    return all(isinstance(row, list) and len(row) == len(columns) for row in rows)
