"""The Open Inference Protocol (KServe's v2): what HTTP and gRPC share, and the service of
gRPC, inference.GRPCInferenceService.

MLServer, Triton, OpenVINO Model Server and KServe speak it, too. A version is a
number or a label. Import it after the fork: it loads TensorFlow.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import grpc
import numpy as np
import tensorflow as tf

from dogsnap.errors import DogsnapError, InvalidArgument
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.middleware.request_ids import STICKY_KEY
from dogsnap.server.protocols import open_inference_pb2 as messages
from dogsnap.server.protocols.request_fields import whole_number
from dogsnap.server.protocols.tf_serving_grpc import PredictionService
from dogsnap.serving.inference.request_kinds import Photos, Values, Work
from dogsnap.serving.photos.photo_values import decode_photos
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.tensors.json_tensors import OtherInputs
from dogsnap.serving.tensors.open_inference_tensors import (
    Tensor,
    describe_output,
    describe_specs,
    to_raw,
)
from dogsnap.serving.tensors.signatures import DEFAULT_SIGNATURE, Signature
from dogsnap.serving.tensors.tensor_protos import tensor_bytes

SERVICE = messages.DESCRIPTOR.services_by_name["GRPCInferenceService"]
SERVER = {"name": "dogsnap", "version": version("dogsnap"), "extensions": ["binary_tensor_data"]}


def describe_model(repository: ModelRepository, spec: ModelSpec) -> dict[str, Any]:
    """The metadata of a version: its default signature, or its first."""
    with repository.acquire(spec) as servable:
        is_default = DEFAULT_SIGNATURE in servable.signatures
        name = "" if is_default else next(iter(servable.signatures), "")
        signature = servable.signature(name)
        is_named = spec.version is not None or spec.label is not None
        versions = [servable.id.version] if is_named else repository.available(spec.name)
        return {
            "name": servable.id.name,
            "versions": [str(number) for number in sorted(versions)],
            "platform": "tensorflow_savedmodel",
            "inputs": describe_specs(signature.inputs),
            "outputs": describe_specs(signature.outputs),
        }


def spec_of(name: str, version: str = "") -> ModelSpec:
    """`version`: a number, a label, or "" for the default. Raises InvalidArgument."""
    if version.isdigit():
        number = whole_number("version", version)
        return ModelSpec(name, number, sticky_key=STICKY_KEY.get())
    return ModelSpec(name, label=version or None, sticky_key=STICKY_KEY.get())


def work_of(
    repository: ModelRepository,
    spec: ModelSpec,
    tensors: list[Tensor],
    signature_name: str,
    outputs: Sequence[str],
    release: Callable[[], None] = lambda: None,
) -> Work:
    """Photos where strings come for a version that takes numbers: an image input
    takes the photo itself. When there are arrays, `tensors` is emptied, and
    `release` called. Raises DogsnapError.
    """

    def read(signature: Signature) -> dict[str, np.ndarray]:
        names = [tensor.name for tensor in tensors]
        if sorted(names) != sorted(signature.inputs):
            raise OtherInputs(
                f"expected the inputs {', '.join(signature.inputs) or 'none'}, received "
                f"{', '.join(names) or 'none'}",
                names,
            )
        arrays = {}
        for tensor in tensors:
            arrays[tensor.name] = tensor.array(signature.inputs[tensor.name].shape.rank)
        tensors.clear()
        release()
        return arrays

    if [tensor.datatype for tensor in tensors] == ["BYTES"]:
        with repository.acquire(spec) as servable:
            signature = servable.signature(signature_name)
        types = {alias: each.dtype for alias, each in signature.inputs.items()}
        if list(types) == [tensors[0].name] and types[tensors[0].name] != tf.string:
            values = tensors[0].array().reshape(-1)
            pictures = decode_photos(values)
            contents = list(values if pictures is None else pictures)
            return Photos(contents, signature.name, outputs)
    return Values(read, signature_name, outputs)


class InferenceService:
    """The methods of GRPCInferenceService; they raise DogsnapError. `predictions` answers
    them within the limits of its own calls.
    """

    def __init__(self, predictions: PredictionService):
        self._predictions = predictions
        self._repository = predictions.predictor.repository

    def handler(self) -> grpc.GenericRpcHandler:
        """What grpc.Server.add_generic_rpc_handlers takes."""
        methods = {}
        for method in SERVICE.methods:
            methods[method.name] = grpc.unary_unary_rpc_method_handler(
                getattr(self, method.name),
                getattr(messages, method.input_type.name).FromString,
                getattr(messages, method.output_type.name).SerializeToString,
            )
        return grpc.method_handlers_generic_handler(SERVICE.full_name, methods)

    def ServerLive(self, request: Any, context: grpc.ServicerContext) -> Any:
        return messages.ServerLiveResponse(live=True)

    def ServerReady(self, request: Any, context: grpc.ServicerContext) -> Any:
        return messages.ServerReadyResponse(ready=not self._repository.not_ready())

    def ServerMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        return messages.ServerMetadataResponse(**SERVER)

    def ModelReady(self, request: Any, context: grpc.ServicerContext) -> Any:
        with suppress(DogsnapError):
            self.ModelMetadata(request, context)
            return messages.ModelReadyResponse(ready=True)
        return messages.ModelReadyResponse(ready=False)

    def ModelMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        spec = spec_of(request.name, request.version)
        return messages.ModelMetadataResponse(**describe_model(self._repository, spec))

    def ModelInfer(self, request: Any, context: grpc.ServicerContext) -> Any:
        spec = spec_of(request.model_name, request.model_version)
        signature_name = request.parameters["signature_name"].string_param
        names = [output.name for output in request.outputs]
        work = work_of(self._repository, spec, _tensors(request), signature_name, names)
        (prediction,) = self._predictions.answer(spec, [work], context)
        self._predictions.hold(context, sum(map(tensor_bytes, prediction.outputs.values())))
        response = messages.ModelInferResponse(
            model_name=prediction.servable.name,
            model_version=str(prediction.servable.version),
            id=request.id,
        )
        for name, array in prediction.outputs.items():
            response.outputs.add(**describe_output(name, array))
            response.raw_output_contents.append(to_raw(array))
        return response


def _tensors(request: Any) -> list[Tensor]:
    """Raises InvalidArgument."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidArgument(
            f"raw_input_contents has {len(raw)} entries for {len(request.inputs)} "
            "inputs; expected one for each, or none"
        )
    tensors = []
    for index, given in enumerate(request.inputs):
        fields = given.contents.ListFields()
        values = fields[0][1] if fields else []
        data = memoryview(raw[index]) if raw else values
        is_base64 = given.parameters["content_type"].string_param == "base64"
        tensors.append(Tensor(given.name, given.datatype, given.shape, data, is_base64))
    return tensors
