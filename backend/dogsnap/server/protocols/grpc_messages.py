"""Converts between TensorFlow Serving's protobuf messages and the types of `serving/`."""

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf import any_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
)

from dogsnap.errors import DogsnapError, InvalidArgument, Unimplemented
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.middleware.request_ids import STICKY_KEY
from dogsnap.serving.inference.request_kinds import Task
from dogsnap.serving.repository.model import VersionStatus
from dogsnap.serving.tensors.examples import METHODS, check_merged_size
from dogsnap.serving.tensors.signatures import DEFAULT_SIGNATURE, ServableId, UnknownSignature
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.servable import BaseServable
from dogsnap.serving.versions.warmup import serialized_examples

MAX_MESSAGE_BYTES = 1024  # as TensorFlow Serving cuts its error messages
SIGNATURE_DEF = "signature_def"


def status(error: DogsnapError) -> tuple[grpc.StatusCode, str]:
    """The status code and message of an error, in the form that TensorFlow
    Serving's gRPC clients know.
    """
    message = error.message
    if isinstance(error, UnknownSignature):
        message = f'Serving signature key "{error.name}" not found. {message}'
    text = message.encode("utf-8", "replace")
    if len(text) > MAX_MESSAGE_BYTES:
        message = text[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore") + "...TRUNCATED"
    return grpc.StatusCode[error.code], message


def spec_of(request: Any) -> ModelSpec:
    """The model spec of any request.

    Raises InvalidArgument if it is missing or names no model.
    """
    if not request.HasField("model_spec"):
        raise InvalidArgument("Missing ModelSpec")
    return _spec(request.model_spec)


def _spec(message: model_pb2.ModelSpec) -> ModelSpec:
    which = message.WhichOneof("version_choice")
    return ModelSpec(
        message.name,
        version=message.version.value if which == "version" else None,
        label=message.version_label if which == "version_label" else None,
        sticky_key=STICKY_KEY.get(),
    )


def examples_of(examples: input_pb2.Input, max_bytes: int) -> list[bytes]:
    """The serialized tf.Examples of a request.

    Raises InvalidArgument if there are none, TooLarge.
    """
    shared = examples.example_list_with_context
    check_merged_size(shared.context.ByteSize(), len(shared.examples), max_bytes)
    serialized = serialized_examples(examples)
    if not serialized:
        raise InvalidArgument("Input is empty.")
    return serialized


def tasks_of(request: inference_pb2.MultiInferenceRequest) -> tuple[ModelSpec, list[Task]]:
    """The one model of all tasks, and the tasks.

    Raises InvalidArgument and Unimplemented.
    """
    if not request.tasks:
        raise InvalidArgument("MultiInferenceRequest has no tasks; expected at least one")
    specs = [task.model_spec for task in request.tasks]
    if not all(spec.name for spec in specs):
        raise InvalidArgument("Found ModelSpec with an empty model name.")
    if len({spec.name for spec in specs}) > 1:
        raise InvalidArgument(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name."
        )
    methods, tasks = {name: method for method, name in METHODS.items()}, dict[str, Task]()
    for task in request.tasks:
        signature = signature_name(task.model_spec)
        if task.method_name not in methods:
            raise Unimplemented(
                f"Unsupported signature method_name: {task.method_name}; expected one "
                f"of {', '.join(methods)}"
            )
        if signature in tasks:
            raise InvalidArgument(f"Duplicate evaluation of signature: {signature}")
        tasks[signature] = Task(methods[task.method_name], signature)
    return _spec(specs[0]), list(tasks.values())


def signature_name(spec: model_pb2.ModelSpec) -> str:
    return spec.signature_name or DEFAULT_SIGNATURE


def check_metadata_fields(fields: Sequence[str]) -> None:
    """Raises InvalidArgument unless exactly the signatures are requested."""
    if not fields:
        raise InvalidArgument("GetModelMetadataRequest must specify at least one metadata_field")
    for name in fields:
        if name != SIGNATURE_DEF:
            raise InvalidArgument(
                f"Metadata field {name} is not supported; expected {SIGNATURE_DEF}"
            )


def configs_of(config: Any) -> list[ModelConfig]:
    """Raises InvalidArgument for another configuration than a list of models."""
    if config.WhichOneof("config") != "model_config_list":
        raise InvalidArgument(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. "
            "Only ModelConfigList is currently supported"
        )
    return list(config.model_config_list.config)


def make_model_spec(servable: ServableId, name: str = "") -> model_pb2.ModelSpec:
    """The model spec of a response: the version that answered."""
    spec = model_pb2.ModelSpec(name=servable.name, signature_name=name)
    spec.version.value = servable.version
    return spec


def inference_result(
    task: Task, servable: ServableId, rows: list[Any]
) -> inference_pb2.InferenceResult:
    message = inference_pb2.InferenceResult(
        model_spec=make_model_spec(servable, task.signature_name)
    )
    if task.method == "classify":
        for row in rows:
            added = message.classification_result.classifications.add()
            for label, score in row:
                added.classes.add(label=label, score=score)
    else:
        for value in rows:
            message.regression_result.regressions.add(value=value)
    return message


def metadata_response(servable: BaseServable) -> get_model_metadata_pb2.GetModelMetadataResponse:
    packed = any_pb2.Any()
    packed.Pack(get_model_metadata_pb2.SignatureDefMap(signature_def=servable.signature_defs))
    return get_model_metadata_pb2.GetModelMetadataResponse(
        model_spec=make_model_spec(servable.id), metadata={SIGNATURE_DEF: packed}
    )


def status_response(
    versions: Sequence[VersionStatus],
) -> get_model_status_pb2.GetModelStatusResponse:
    response = get_model_status_pb2.GetModelStatusResponse()
    for status in versions:
        message = response.model_version_status.add(version=status.version, state=str(status.state))
        # UNKNOWN or OK: failed loads have no more specific code
        message.status.error_code = 2 if status.error else 0
        message.status.error_message = status.error
    return response
