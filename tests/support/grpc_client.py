"""The unmodified stubs of tensorflow-serving-api, and the cases of the REST contract as calls of them."""

import base64
import re
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import grpc
import numpy as np
import tensorflow as tf
from contract_table import Case
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_status_pb2,
    input_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

SECONDS = 60
PATH = re.compile(r"([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?(?::(predict|classify|regress))?")
# The dtypes of the models in the contract's table that take no float32.
DTYPES = {("several", "b"): tf.int32, ("texts", "bin"): tf.string}


class Client:
    """A channel to a server, and the stubs on it."""

    def __init__(self, port: int):
        self.target = f"127.0.0.1:{port}"
        self.channel = grpc.insecure_channel(self.target)
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def predict(self, model: str, output_filter: tuple[str, ...] = (), signature: str = "", **inputs: Any) -> Any:
        """Ask for a prediction; every input is what tf.make_tensor_proto takes."""
        return self.prediction.Predict(predict_request(model, output_filter, signature, **inputs), SECONDS)


@contextmanager
def connected(port: int):
    client = Client(port)
    with client.channel:
        yield client


def predict_request(model: str, output_filter: tuple[str, ...] = (), signature: str = "", **inputs: Any) -> Any:
    request = predict_pb2.PredictRequest(output_filter=output_filter)
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    for alias, value in inputs.items():
        proto = value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value)
        request.inputs[alias].CopyFrom(proto)
    return request


def values(outputs: Any) -> dict[str, Any]:
    """The outputs of a prediction as nested lists."""
    return {alias: tf.make_ndarray(proto).tolist() for alias, proto in outputs.items()}


# -- cases of the REST contract ----------------------------------------------------------------------------------------


def has_grpc_form(case: Case) -> bool:
    """Whether a case is about the models and not about JSON or paths: its answer, or the lack of model, version or label."""
    if not PATH.fullmatch(case.path) or isinstance(case.body, bytes) or "UNIMPLEMENTED" in case.error:
        return False
    if case.method == "GET":
        return ":" not in case.path
    if case.status == 200:
        return ":" in case.path
    return case.body == {} and case.path.endswith(":predict") and "Failed to convert" not in case.error


def ask(client: Client, case: Case) -> Any:
    """The answer to a case in the form the REST contract writes it; raises grpc.RpcError."""
    model, version, label, method = PATH.fullmatch(case.path).groups()
    spec = model_pb2.ModelSpec(name=unquote(model), signature_name=(case.body or {}).get("signature_name", ""))
    if version:
        spec.version.value = int(version)
    if label:
        spec.version_label = unquote(label)
    if method is None:
        return status(client, spec)
    return predict(client, spec, case.body) if method == "predict" else infer(client, spec, method, case.body)


def status(client: Client, spec: Any) -> dict[str, Any]:
    response = client.models.GetModelStatus(get_model_status_pb2.GetModelStatusRequest(model_spec=spec), SECONDS)
    return {
        "model_version_status": [
            {
                "version": str(each.version),
                "state": get_model_status_pb2.ModelVersionStatus.State.Name(each.state),
                "status": {
                    "error_code": {0: "OK"}.get(each.status.error_code),
                    "error_message": each.status.error_message,
                },
            }
            for each in response.model_version_status
        ]
    }


def predict(client: Client, spec: Any, body: dict[str, Any]) -> dict[str, Any]:
    request = predict_pb2.PredictRequest(model_spec=spec)
    for alias, value in columns(spec, body).items():
        request.inputs[alias].CopyFrom(tf.make_tensor_proto(from_json(value), dtype_of(spec, alias)))
    outputs = {
        alias: to_json(alias, proto) for alias, proto in client.prediction.Predict(request, SECONDS).outputs.items()
    }
    if "inputs" in body:
        return {"outputs": next(iter(outputs.values())) if len(outputs) == 1 else outputs}
    if len(outputs) == 1:
        return {"predictions": next(iter(outputs.values()))}
    return {"predictions": [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]}


def columns(spec: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The values of each input; an error case that sends none sends one all the same."""
    rows = body.get("instances", body.get("inputs", [1.0]))
    one = {"texts": "bin"}.get(spec.name, "x")
    if "inputs" in body:
        named = rows if isinstance(rows, dict) and set(rows) != {"b64"} else {one: rows}
        return {alias: value for alias, value in named.items() if (spec.name, alias) not in IGNORED}
    if isinstance(rows[0], dict) and set(rows[0]) != {"b64"}:
        return {alias: [row[alias] for row in rows] for alias in rows[0]}
    return {one: rows}


IGNORED = {("half_plus_two", "y"), ("several", "other")}  # columns that no input has, which only the REST API takes


def dtype_of(spec: Any, alias: str) -> tf.DType:
    if spec.name == "all_types":
        return tf.as_dtype(spec.signature_name)
    return DTYPES.get((spec.name, alias), tf.float32)


def from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if isinstance(value, dict):
        text = value["b64"].replace("-", "+").replace("_", "/")
        return base64.b64decode(text + "=" * (-len(text) % 4))
    return value


def to_json(alias: str, proto: Any) -> Any:
    return json_value(alias, tf.make_ndarray(proto).tolist())


def json_value(alias: str, value: Any) -> Any:
    if isinstance(value, list):
        return [json_value(alias, each) for each in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if not isinstance(value, bytes):
        return value
    try:
        return {"b64": base64.b64encode(value).decode()} if alias.endswith("_bytes") else value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def infer(client: Client, spec: Any, method: str, body: dict[str, Any]) -> dict[str, Any]:
    examples = input_of(body["examples"], body.get("context"))
    if method == "regress":
        request = regression_pb2.RegressionRequest(model_spec=spec, input=examples)
        return {"results": [each.value for each in client.prediction.Regress(request, SECONDS).result.regressions]}
    request = classification_pb2.ClassificationRequest(model_spec=spec, input=examples)
    found = client.prediction.Classify(request, SECONDS).result.classifications
    return {"results": [[[each.label, each.score] for each in row.classes] for row in found]}


def input_of(examples: list[dict[str, Any]], context: dict[str, Any] | None = None) -> Any:
    """Examples as JSON writes them as an Input message, with what they share if there is any."""
    message = input_pb2.Input()
    if context is None:
        message.example_list.examples.extend(example(each) for each in examples)
    else:
        message.example_list_with_context.context.CopyFrom(example(context))
        message.example_list_with_context.examples.extend(example(each) for each in examples)
    return message


def example(features: dict[str, Any]) -> Any:
    message = tf.train.Example()
    for name, value in features.items():
        feature, values = message.features.feature[name], value if isinstance(value, list) else [value]
        if isinstance(values[0], dict):
            feature.bytes_list.value.extend(base64.b64decode(each["b64"]) for each in values)
        elif isinstance(values[0], str):
            feature.bytes_list.value.extend(each.encode() for each in values)
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(map(int, values))
        else:
            feature.float_list.value.extend(values)
    return message
