"""The Open Inference Protocol over gRPC: inference.GRPCInferenceService.

Import it after the fork: it loads TensorFlow.
"""

import math
from typing import Any

import grpc
import numpy as np

from dogsnap.errors import DogsnapError, InvalidArgument
from dogsnap.server.protocols import open_inference
from dogsnap.server.protocols import open_inference_pb2 as messages
from dogsnap.server.protocols.open_inference import BYTES, TYPES, InferRequest, Tensor
from dogsnap.serving.inference.predictor import Predictor

SERVICE = messages.DESCRIPTOR.services_by_name["GRPCInferenceService"]
# The field of the contents with the values of a datatype; FP16 and BF16 have none, and
# come in binary form alone.
CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}


class InferenceService:
    """The methods of GRPCInferenceService over a predictor; they raise DogsnapError."""

    def __init__(self, predictor: Predictor, protocol: str, sticky_key: Any):
        """`sticky_key`: a context variable with the one of the call."""
        self.predictor, self._protocol, self._sticky_key = predictor, protocol, sticky_key

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
        return messages.ServerReadyResponse(ready=not self.predictor.repository.not_ready())

    def ServerMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        return messages.ServerMetadataResponse(**open_inference.SERVER)

    def ModelReady(self, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            with self.predictor.repository.acquire(self._spec(request.name, request.version)):
                return messages.ModelReadyResponse(ready=True)
        except DogsnapError:
            return messages.ModelReadyResponse(ready=False)

    def ModelMetadata(self, request: Any, context: grpc.ServicerContext) -> Any:
        spec = self._spec(request.name, request.version)
        described = open_inference.describe_model(self.predictor, spec)
        return messages.ModelMetadataResponse(**described)

    def ModelInfer(self, request: Any, context: grpc.ServicerContext) -> Any:
        asked = InferRequest(
            self._spec(request.model_name, request.model_version),
            _tensors(request),
            [output.name for output in request.outputs],
            request.parameters["signature_name"].string_param
            if "signature_name" in request.parameters
            else "",
        )
        prediction = open_inference.infer(
            self.predictor,
            asked,
            self._protocol,
            context.time_remaining(),
            lambda: not context.is_active(),
        )
        response = messages.ModelInferResponse(
            model_name=prediction.servable.name,
            model_version=str(prediction.servable.version),
            id=request.id,
        )
        for name, array in prediction.outputs.items():
            datatype = open_inference.datatype_of(name, array)
            response.outputs.add(name=name, datatype=datatype, shape=array.shape)
            response.raw_output_contents.append(open_inference.to_raw(array))
        return response

    def _spec(self, name: str, version: str) -> Any:
        return open_inference.spec_of(name, version, self._sticky_key.get())


def _tensors(request: Any) -> list[Tensor]:
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidArgument(
            f"raw_input_contents has {len(raw)} entries for {len(request.inputs)} "
            "inputs; expected one for each, or none"
        )
    tensors = []
    for index, given in enumerate(request.inputs):

        def read(given: Any = given, index: int = index) -> np.ndarray:
            if not raw:
                return _from_contents(given)
            count = math.prod(given.shape)
            return open_inference.from_raw(given.name, given.datatype, count, raw[index])

        tensors.append(Tensor(given.name, given.datatype, tuple(given.shape), read))
    return tensors


def _from_contents(given: Any) -> np.ndarray:
    if given.datatype not in CONTENTS:
        raise InvalidArgument(
            f'input "{given.name}": {given.datatype} comes in raw_input_contents alone'
        )
    field = getattr(given.contents, CONTENTS[given.datatype])
    if given.datatype == BYTES:
        return np.fromiter(field, object, len(field))
    received = np.array(field)
    values = received.astype(TYPES[given.datatype].as_numpy_dtype)
    if received.size and received.dtype.kind in "iu" and not np.array_equal(values, received):
        raise InvalidArgument(
            f'input "{given.name}": a value is out of the range of {given.datatype}'
        )
    return values
