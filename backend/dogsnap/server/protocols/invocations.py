"""What the clouds ask of a container: SageMaker's and MLflow's /ping and
/invocations, and the routes that Vertex AI names.
"""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

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
from dogsnap.serving.tensors import json_tensors
from dogsnap.serving.tensors.signatures import Arrays, Signature
from dogsnap.settings import MEBIBYTE, Settings

PROTOCOL = "invocations"  # in the metrics, and of the blueprint
JSON_LINES = (
    "application/jsonlines",
    "application/x-jsonlines",
    "application/jsons",
    "application/x-ndjson",
)
FORMS = ("instances", "inputs", "dataframe_split", "dataframe_records")  # of a body in JSON
BLANK_LINES = re.compile(rb"\n\s+")
BINARY = ("application/octet-stream", "application/x-image")
# Paths of other protocols, as /v1/models/half:predict, which name a model themselves. The
# readiness of the server goes before the status of a model, which may still load.
OF_MODELS = ("/v1/models/", "/V1/models/", "/v2/models/")
# SageMaker's TensorFlow containers name the model so: tfs-model-name=half,tfs-model-version=2.
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
ATTRIBUTE = re.compile(r"tfs-(model-name|model-version|method)=([^,]+)")

Table: TypeAlias = tuple[Sequence[str | int], list[list[Any]]]  # columns and rows


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
    with TensorDocument(body, _as_instances) as document:
        _read_parameters(document.fields)
        return predict(
            settings, predictor, _spec(predictor), document, _inputs_of, of_columns="predictions"
        )


def _as_instances(values: list[Any]) -> dict[str, Any]:
    """SageMaker's simplified JSON as a request: a list of lists or objects are instances,
    any other list is one.
    """
    is_batch = bool(values) and isinstance(values[0], list | dict)
    return {"instances": values if is_batch else [values]}


def _read_parameters(fields: dict[str, Any]) -> None:
    """Of Vertex AI's `parameters` the signature's name, unless it stands beside them."""
    parameters = fields.pop("parameters", None) or {}
    if not isinstance(parameters, dict):
        raise InvalidArgument('"parameters" is no object')
    if "signature_name" in parameters:
        fields.setdefault("signature_name", parameters["signature_name"])


def _inputs_of(fields: Mapping[str, Any], signature: Signature) -> Arrays:
    """The inputs of a body, as `json_tensors.from_body`, from MLflow's data frames and
    from an instance without "instances", too.

    A column is an input. Of a network with one input, which none of several columns, or
    of numbered ones, names, the values of a row are one value.
    """
    if len(given := [form for form in FORMS if form in fields]) > 1:
        raise InvalidArgument(f"expected one of {', '.join(FORMS)}, received {' and '.join(given)}")
    if "dataframe_records" in fields:
        columns, rows = _read_records(fields["dataframe_records"])
    elif "dataframe_split" in fields:
        columns, rows = _read_split(fields["dataframe_split"])
    elif given:
        return json_tensors.from_body(fields, signature)
    else:
        instance = {name: value for name, value in fields.items() if name != "signature_name"}
        return json_tensors.from_rows([instance], signature)
    is_row = len(columns) > 1 or any(isinstance(column, int) for column in columns)
    if is_row and len(signature.inputs) == 1 and not signature.inputs.keys() & set(columns):
        return json_tensors.from_columns(rows, signature)
    if twice := sorted({str(name) for name in columns if columns.count(name) > 1}):
        raise InvalidArgument(f"the dataframe has several columns {', '.join(twice):.200}")
    by_column = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    return json_tensors.from_columns(by_column, signature, "dataframe")


def _read_records(records: Any) -> Table:
    """Columns and rows of {"dataframe_records": [{...}]}. Raises InvalidArgument."""
    is_list = isinstance(records, list) and all(isinstance(record, dict) for record in records)
    if not is_list or not records or any(record.keys() != records[0].keys() for record in records):
        raise InvalidArgument('expected "dataframe_records": [objects, each with the same names]')
    columns = list(records[0])
    return columns, [[record[column] for column in columns] for record in records]


def _read_split(frame: Any) -> Table:
    """Those of {"dataframe_split": {"columns": [...], "data": [[...]]}}. Raises InvalidArgument."""
    frame = frame if isinstance(frame, dict) else {}
    columns, rows = frame.get("columns"), frame.get("data")
    if not _is_table(columns, rows):
        raise InvalidArgument(
            'expected "dataframe_split": {"columns": [names or numbers], "data": '
            "[rows as long as these]}"
        )
    return columns, rows


def _is_table(columns: Any, rows: Any) -> bool:
    """Whether these are names, or numbers as pandas gives them, and rows of as many values."""
    if not isinstance(columns, list) or not isinstance(rows, list) or not columns or not rows:
        return False
    if not all(isinstance(column, str | int) for column in columns):
        return False
    return all(isinstance(row, list) and len(row) == len(columns) for row in rows)
