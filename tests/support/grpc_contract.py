"""TensorFlow Serving's contract by gRPC as a table: what is asked of which model of `contract_table`, and what must come back."""

from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from grpc_client import SECONDS, Client, predict_request
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)


@dataclass(frozen=True)
class Call:
    """`says`: part of the answer, in protobuf's text format on one line, or of the message of an error."""

    name: str
    request: Any
    says: str
    code: str = "OK"


def ask(client: Client, request: Any) -> Any:
    """The answer of the method that takes this kind of request."""
    methods = {
        predict_pb2.PredictRequest: client.prediction.Predict,
        classification_pb2.ClassificationRequest: client.prediction.Classify,
        regression_pb2.RegressionRequest: client.prediction.Regress,
        inference_pb2.MultiInferenceRequest: client.prediction.MultiInference,
        get_model_metadata_pb2.GetModelMetadataRequest: client.prediction.GetModelMetadata,
        get_model_status_pb2.GetModelStatusRequest: client.models.GetModelStatus,
    }
    return methods[type(request)](request, SECONDS)


def outcome(client: Client, request: Any) -> tuple[str, str]:
    """The status code, and the answer in the form of `Call.says` or the error's message."""
    try:
        return "OK", text_format.MessageToString(ask(client, request), as_one_line=True)
    except grpc.RpcError as error:
        return error.code().name, error.details()


# -- requests ----------------------------------------------------------------------------------------------------------


def example(**features: float) -> tf.train.Example:
    message = tf.train.Example()
    for name, value in features.items():
        message.features.feature[name].float_list.value.append(value)
    return message


def of_examples(kind: type, signature: str, *examples: tf.train.Example) -> Any:
    """A request to classify or regress."""
    request = kind(model_spec={"name": "half_plus_two", "signature_name": signature})
    request.input.example_list.examples.extend(examples)
    return request


def with_context(signature: str) -> regression_pb2.RegressionRequest:
    request = of_examples(regression_pb2.RegressionRequest, signature)
    request.input.example_list_with_context.context.CopyFrom(example(x=80))
    request.input.example_list_with_context.examples.extend([example(y=1), example(x=20)])
    return request


def multi_inference(*tasks: tuple[str, str, str], examples: tuple = (example(x=2),)) -> Any:
    """`tasks`: model, signature and method of each."""
    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.extend(examples)
    for model, signature, method in tasks:
        request.tasks.add(model_spec={"name": model, "signature_name": signature}, method_name=method)
    return request


def metadata(model: str, *fields: str) -> get_model_metadata_pb2.GetModelMetadataRequest:
    return get_model_metadata_pb2.GetModelMetadataRequest(model_spec={"name": model}, metadata_field=fields)


def status(**spec: Any) -> get_model_status_pb2.GetModelStatusRequest:
    return get_model_status_pb2.GetModelStatusRequest(model_spec=spec)


def half(**spec: Any) -> predict_pb2.PredictRequest:
    """A prediction for 2; `spec`: version, label, or another name."""
    request = predict_request(spec.pop("name", "half_plus_two"), x=[2.0])
    request.model_spec.MergeFrom(type(request.model_spec)(**spec))
    return request


CLASSIFY, REGRESS = classification_pb2.ClassificationRequest, regression_pb2.RegressionRequest
REGRESS_TASK = ("half_plus_two", "regress_x_to_y", "tensorflow/serving/regress")
CLASSIFY_TASK = ("half_plus_two", "classify_x_to_y", "tensorflow/serving/classify")
HALF = 'model_spec { name: "half_plus_two" version { value: 123 } signature_name: "%s" }'
AVAILABLE = "model_version_status { version: 123 state: AVAILABLE status { } }"
INVALID, MISSING = "INVALID_ARGUMENT", "NOT_FOUND"

ANSWERED = [
    Call("predict", half(), "float_val: 3.0"),
    Call("the version that predicted", half(), HALF % "serving_default"),
    Call("predict by a version", half(version={"value": 123}), "float_val: 3.0"),
    Call("predict by a label", half(version_label="some_label"), "float_val: 3.0"),
    Call("names of any characters", half(name="a!#$&b/c", version_label="l:a b"), "float_val: 4.0"),
    Call("bytes", predict_request("texts", signature="as_text", bin=[b"a\0"]), r'string_val: "a\000"'),
    Call(
        "one output of two",
        predict_request("several", ("sum",), a=[1.0], b=[2]),
        'outputs { key: "sum" value { dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: 3.0 } } model_spec',
    ),
    Call("classify", of_examples(CLASSIFY, "classify_x_to_y", example(x=2)), "classes { score: 3.0 }"),
    Call(
        "the version that classified", of_examples(CLASSIFY, "classify_x_to_y", example(x=2)), HALF % "classify_x_to_y"
    ),
    Call(
        "classify with labels",
        of_examples(CLASSIFY, "classify_with_labels", example(x=20), example(x=0)),
        'classes { label: "plus" score: 12.0 } classes { label: "minus" score: -12.0 } }'
        ' classifications { classes { label: "plus" score: 2.0 }',
    ),
    Call("regress", of_examples(REGRESS, "regress_x_to_y", example(x=2)), "regressions { value: 3.0 }"),
    Call("the version that regressed", of_examples(REGRESS, "regress_x_to_y", example(x=2)), HALF % "regress_x_to_y"),
    Call("a context", with_context("regress_x_to_y"), "regressions { value: 42.0 } regressions { value: 12.0 }"),
    Call(
        "several tasks",
        multi_inference(REGRESS_TASK, CLASSIFY_TASK),
        f"results {{ {HALF % 'regress_x_to_y'} regression_result {{ regressions {{ value: 3.0 }} }} }} "
        f"results {{ {HALF % 'classify_x_to_y'} classification_result {{",
    ),
    Call("metadata", metadata("half_plus_two", "signature_def"), 'name: "half_plus_two" version { value: 123 }'),
    Call("status", status(name="half_plus_two"), AVAILABLE),
    Call("status of a version", status(name="half_plus_two", version={"value": 123}), AVAILABLE),
    Call("status of a label", status(name="half_plus_two", version_label="some_label"), AVAILABLE),
]

NO_SIGNATURE = 'Serving signature key "nope" not found.'
REFUSED = [
    *(
        Call(f"predict with {name}", request, says, INVALID)
        for name, request, says in (
            ("no model spec", predict_pb2.PredictRequest(), "Missing ModelSpec"),
            ("no model name", half(name=""), "ModelSpec has no name specified."),
            ("an unknown label", half(version_label="canary"), "Unrecognized servable version label: canary"),
            (
                "an input missing",
                predict_request("several", a=[1.0]),
                "1!=2 len({a}) != len({a,b}). Sent extra: {}. Missing but required: {b}.",
            ),
            (
                "an input too many",
                predict_request("half_plus_two", x=[1.0], z=[1.0]),
                "2!=1 len({x,z}) != len({x}). Sent extra: {z}. Missing but required: {}.",
            ),
            ("another input", predict_request("half_plus_two", z=[1.0]), "Sent extra: {z}. Missing but req"),
            (
                "an unknown output",
                predict_request("several", ("z",), a=[1.0], b=[2]),
                "output tensor alias not found in signature: z Outputs expected to be in the set {product,sum}.",
            ),
            (
                "an output twice",
                predict_request("several", ("sum", "sum"), a=[1.0], b=[2]),
                "duplicate output tensor alias: sum",
            ),
            ("another dtype", predict_request("half_plus_two", x=[1]), 'input "x": expected float32 values, received'),
            (
                "another shape",
                predict_request("several", a=[[1.0]], b=[2]),
                'input "a": expected shape (None,), received (1, 1)',
            ),
            ("sizes that do not go together", predict_request("several", a=[1.0, 2.0, 3.0], b=[2, 3]), ""),
            (
                "no dtype",
                predict_request("half_plus_two", x=tensor_pb2.TensorProto()),
                'tensor parsing error: input "x": expected a DataType, received 0',
            ),
            (
                "a huge shape",
                predict_request("half_plus_two", x=tf.make_tensor_proto(np.float32(1), shape=[10**9])),
                "one value is to fill shape [1000000000] with 4000000000 bytes; at most",
            ),
            (
                "bytes that are no image",
                predict_request("odd_outputs", signature="decode_png", png=b"no image"),
                "Unknown image file format",
            ),
        )
    ),
    Call("an unknown model", half(name="half"), "Servable not found for request: Latest(half)", MISSING),
    Call("an unknown version", half(version={"value": 99}), "Specific(half_plus_two, 99)", MISSING),
    Call("a label that waits", half(version_label="later"), "waits for version 124", "UNAVAILABLE"),
    Call("an unknown signature", half(signature_name="nope"), NO_SIGNATURE, "FAILED_PRECONDITION"),
    Call(
        "an unknown signature with a bad tensor",
        predict_request("half_plus_two", signature="nope", x=tensor_pb2.TensorProto()),
        NO_SIGNATURE,
        "FAILED_PRECONDITION",
    ),
    *(
        Call(f"regress with {name}", of_examples(REGRESS, signature, *examples), says, INVALID)
        for name, signature, examples, says in (
            ("no examples", "regress_x_to_y", [], "Input is empty."),
            ("a feature missing", "regress_x_to_y", [example(y=1)], "Feature: x (data type: float) is"),
            ("an unknown signature", "nope", [example(x=1)], "No signature was found with the name: nope"),
            (
                "a signature of another method",
                "classify_x_to_y",
                [example(x=1)],
                "Expected regression signature method_name to be tensorflow/serving/regress. "
                "Was: tensorflow/serving/classify",
            ),
        )
    ),
    *(
        Call(f"tasks with {name}", request, says, INVALID)
        for name, request, says in (
            ("none", multi_inference(), "has no tasks"),
            ("no model name", multi_inference(("", *REGRESS_TASK[1:])), "ModelSpec with an empty model name."),
            (
                "two models",
                multi_inference(REGRESS_TASK, ("several", *CLASSIFY_TASK[1:])),
                "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
            ),
            ("a signature twice", multi_inference(REGRESS_TASK, REGRESS_TASK), "Duplicate evaluation of signature"),
            ("no examples", multi_inference(REGRESS_TASK, examples=()), "Input is empty."),
        )
    ),
    Call(
        "a task with another method",
        multi_inference((*REGRESS_TASK[:2], "tensorflow/serving/predict")),
        "Unsupported signature method_name: tensorflow/serving/predict",
        "UNIMPLEMENTED",
    ),
    Call(
        "metadata without a model",
        get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"]),
        "Missing ModelSpec",
        INVALID,
    ),
    Call("metadata without a field", metadata("several"), "must specify at least one metadata_field", INVALID),
    Call(
        "metadata of an unknown field",
        metadata("several", "signature_def", "weights"),
        "Metadata field weights is not supported",
        INVALID,
    ),
    Call("metadata of an unknown model", metadata("foo", "signature_def"), "Latest(foo)", MISSING),
    Call("status without a model", get_model_status_pb2.GetModelStatusRequest(), "Missing ModelSpec", INVALID),
    Call("status of an unknown model", status(name="foo"), "Could not find any versions of model foo", MISSING),
    Call(
        "status of an unknown version",
        status(name="half_plus_two", version={"value": 9}),
        "Could not find version 9 of model half_plus_two",
        MISSING,
    ),
    Call(
        "status of an unknown label",
        status(name="half_plus_two", version_label="x"),
        "Unrecognized servable version label: x",
        INVALID,
    ),
]
CALLS = [*ANSWERED, *REFUSED]
