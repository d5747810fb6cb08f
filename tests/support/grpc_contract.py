"""TensorFlow Serving's contract by gRPC as a table: what is asked of which model of `contract_table`, and what must come back."""

from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from support.grpc_client import SECONDS, Client
from support.grpc_client import predict_request as predict

CLASSIFY, REGRESS = classification_pb2.ClassificationRequest, regression_pb2.RegressionRequest
METADATA, STATUS = (
    get_model_metadata_pb2.GetModelMetadataRequest,
    get_model_status_pb2.GetModelStatusRequest,
)


@dataclass(frozen=True)
class Call:
    """`says`: part of the answer, in protobuf's text format on one line, or of the message of an error."""

    request: Any
    says: str
    code: str = "OK"

    @property
    def name(self) -> str:
        return f"{type(self.request).__name__}: {self.code}, {self.says[:60]}"


def ask(client: Client, request: Any) -> Any:
    """The answer of the method that takes this kind of request."""
    methods = {
        predict_pb2.PredictRequest: client.prediction.Predict,
        CLASSIFY: client.prediction.Classify,
        REGRESS: client.prediction.Regress,
        inference_pb2.MultiInferenceRequest: client.prediction.MultiInference,
        METADATA: client.prediction.GetModelMetadata,
        STATUS: client.models.GetModelStatus,
    }
    return methods[type(request)](request, SECONDS)


def outcome(client: Client, request: Any) -> tuple[str, str]:
    """The status code, and the answer in the form of `Call.says` or the error's message."""
    try:
        return "OK", text_format.MessageToString(ask(client, request), as_one_line=True)
    except grpc.RpcError as error:
        return error.code().name, error.details()


def example(**features: float) -> tf.train.Example:
    message = tf.train.Example()
    for name, value in features.items():
        message.features.feature[name].float_list.value.append(value)
    return message


def of_examples(kind: type, signature: str, *examples: tf.train.Example) -> Any:
    request = kind(model_spec={"name": "half_plus_two", "signature_name": signature})
    request.input.example_list.examples.extend(examples)
    return request


def with_context(signature: str) -> REGRESS:
    request = of_examples(REGRESS, signature)
    request.input.example_list_with_context.context.CopyFrom(example(x=80))
    request.input.example_list_with_context.examples.extend([example(y=1), example(x=20)])
    return request


def multi_inference(*tasks: tuple[str, str, str], examples: tuple = (example(x=2),)) -> Any:
    """`tasks`: model, signature and method of each."""
    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.extend(examples)
    for model, signature, method in tasks:
        request.tasks.add(
            model_spec={"name": model, "signature_name": signature}, method_name=method
        )
    return request


def metadata(model: str, *fields: str) -> METADATA:
    return METADATA(model_spec={"name": model}, metadata_field=fields)


def status(**spec: Any) -> STATUS:
    return STATUS(model_spec=spec)


def half(**spec: Any) -> predict_pb2.PredictRequest:
    """A prediction for 2; `spec`: version, label, or another name."""
    request = predict(spec.pop("name", "half_plus_two"), x=[2.0])
    request.model_spec.MergeFrom(type(request.model_spec)(**spec))
    return request


REGRESS_TASK = ("half_plus_two", "regress_x_to_y", "tensorflow/serving/regress")
CLASSIFY_TASK = ("half_plus_two", "classify_x_to_y", "tensorflow/serving/classify")
HALF = 'model_spec { name: "half_plus_two" version { value: 123 } signature_name: "%s" }'
AVAILABLE = "model_version_status { version: 123 state: AVAILABLE status { } }"

CLASSIFIED = of_examples(CLASSIFY, "classify_x_to_y", example(x=2))
REGRESSED = of_examples(REGRESS, "regress_x_to_y", example(x=2))
ANSWERED = [
    Call(half(), "float_val: 3.0"),
    Call(half(), HALF % "serving_default"),
    Call(half(version={"value": 123}), "float_val: 3.0"),
    Call(half(version_label="some_label"), "float_val: 3.0"),
    Call(half(name="a!#$&b/c", version_label="l:a b"), "float_val: 4.0"),
    Call(predict("texts", signature="as_text", bin=[b"a\0"]), r'string_val: "a\000"'),
    Call(
        predict("several", ("sum",), a=[1.0], b=[2]),
        'outputs { key: "sum" value { dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: 3.0 } } model_spec',
    ),
    Call(CLASSIFIED, "classes { score: 3.0 }"),
    Call(CLASSIFIED, HALF % "classify_x_to_y"),
    Call(
        of_examples(CLASSIFY, "classify_with_labels", example(x=20), example(x=0)),
        'classes { label: "plus" score: 12.0 } classes { label: "minus" score: -12.0 } }'
        ' classifications { classes { label: "plus" score: 2.0 }',
    ),
    Call(REGRESSED, "regressions { value: 3.0 }"),
    Call(REGRESSED, HALF % "regress_x_to_y"),
    Call(with_context("regress_x_to_y"), "regressions { value: 42.0 } regressions { value: 12.0 }"),
    Call(
        multi_inference(REGRESS_TASK, CLASSIFY_TASK),
        f"results {{ {HALF % 'regress_x_to_y'} regression_result {{ regressions {{ value: 3.0 }} }} }} "
        f"results {{ {HALF % 'classify_x_to_y'} classification_result {{",
    ),
    Call(
        metadata("half_plus_two", "signature_def"), 'name: "half_plus_two" version { value: 123 }'
    ),
    *(
        Call(status(name="half_plus_two", **which), AVAILABLE)
        for which in ({}, {"version": {"value": 123}}, {"version_label": "some_label"})
    ),
]

NO_SIGNATURE = 'Serving signature key "nope" not found.'
METHOD = "tensorflow/serving/"
PREDICTS = f"{METHOD}predict"
WRONG_METHOD = (
    f"Expected regression signature method_name to be {METHOD}regress. Was: {METHOD}classify"
)
ONE_MODEL = "All ModelSpecs in a MultiInferenceRequest must access the same model name."
EXPECTED_OUTPUTS = (
    "output tensor alias not found in signature: z Outputs expected to be in the set {product,sum}."
)
NO_DTYPE = tensor_pb2.TensorProto()
HUGE = tf.make_tensor_proto(np.float32(1), shape=[10**9])
# By status code: what a request is refused with.
REFUSED = {
    "INVALID_ARGUMENT": [
        (predict_pb2.PredictRequest(), "Missing ModelSpec"),
        (half(name=""), "ModelSpec has no name specified."),
        (half(version_label="canary"), "Unrecognized servable version label: canary"),
        (
            predict("several", a=[1.0]),
            "1!=2 len({a}) != len({a,b}). Sent extra: {}. Missing but required: {b}.",
        ),
        (
            predict("half_plus_two", x=[1.0], z=[1.0]),
            "2!=1 len({x,z}) != len({x}). Sent extra: {z}. Missing but required: {}.",
        ),
        (predict("half_plus_two", z=[1.0]), "Sent extra: {z}. Missing but req"),
        (predict("several", ("z",), a=[1.0], b=[2]), EXPECTED_OUTPUTS),
        (predict("several", ("sum", "sum"), a=[1.0], b=[2]), "duplicate output tensor alias: sum"),
        (predict("half_plus_two", x=[1]), 'input "x": expected float32 values, received'),
        (
            predict("several", a=[[1.0]], b=[2]),
            'input "a": expected shape (None,), received (1, 1)',
        ),
        (predict("several", a=[1.0, 2.0, 3.0], b=[2, 3]), ""),  # sizes that do not go together
        (
            predict("half_plus_two", x=NO_DTYPE),
            'tensor parsing error: input "x": expected a DataType, received 0',
        ),
        (
            predict("half_plus_two", x=HUGE),
            "one value is to fill shape [1000000000] with 4000000000 bytes; at most",
        ),
        (
            predict("odd_outputs", signature="decode_png", png=b"no image"),
            "Unknown image file format",
        ),
        (of_examples(REGRESS, "regress_x_to_y"), "Input is empty."),
        (of_examples(REGRESS, "regress_x_to_y", example(y=1)), "Feature: x (data type: float) is"),
        (of_examples(REGRESS, "nope", example(x=1)), "No signature was found with the name: nope"),
        (of_examples(REGRESS, "classify_x_to_y", example(x=1)), WRONG_METHOD),
        (multi_inference(), "has no tasks"),
        (multi_inference(("", *REGRESS_TASK[1:])), "ModelSpec with an empty model name."),
        (multi_inference(REGRESS_TASK, ("several", *CLASSIFY_TASK[1:])), ONE_MODEL),
        (multi_inference(REGRESS_TASK, REGRESS_TASK), "Duplicate evaluation of signature"),
        (multi_inference(REGRESS_TASK, examples=()), "Input is empty."),
        (METADATA(metadata_field=["signature_def"]), "Missing ModelSpec"),
        (metadata("several"), "must specify at least one metadata_field"),
        (
            metadata("several", "signature_def", "weights"),
            "Metadata field weights is not supported",
        ),
        (STATUS(), "Missing ModelSpec"),
        (status(name="half_plus_two", version_label="x"), "Unrecognized servable version label: x"),
    ],
    "NOT_FOUND": [
        (half(name="half"), "Servable not found for request: Latest(half)"),
        (half(version={"value": 99}), "Specific(half_plus_two, 99)"),
        (metadata("foo", "signature_def"), "Latest(foo)"),
        (status(name="foo"), "Could not find any versions of model foo"),
        (
            status(name="half_plus_two", version={"value": 9}),
            "Could not find version 9 of model half_plus_two",
        ),
    ],
    "FAILED_PRECONDITION": [
        (half(signature_name="nope"), NO_SIGNATURE),
        (predict("half_plus_two", signature="nope", x=NO_DTYPE), NO_SIGNATURE),
    ],
    "UNAVAILABLE": [(half(version_label="later"), "waits for version 124")],
    "UNIMPLEMENTED": [
        (
            multi_inference((*REGRESS_TASK[:2], PREDICTS)),
            f"Unsupported signature method_name: {PREDICTS}",
        ),
    ],
}
CALLS = [*ANSWERED, *(Call(*row, code) for code, rows in REFUSED.items() for row in rows)]
