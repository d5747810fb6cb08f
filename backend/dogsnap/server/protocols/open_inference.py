"""The Open Inference Protocol (KServe's v2): what HTTP and gRPC share, and the service of
gRPC, inference.GRPCInferenceService.

MLServer, Triton, OpenVINO Model Server and KServe speak it, too. A version is a
number or a label. Import it after the fork: it loads TensorFlow.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import Default as default_pool
from google.protobuf.message_factory import GetMessageClass
from grpc import ServicerContext

from dogsnap.errors import DogsnapError, InvalidArgument, TooLarge
from dogsnap.message_files import add_messages
from dogsnap.routing.spec import ModelSpec
from dogsnap.server.bodies.request_fields import whole_number
from dogsnap.server.middleware.request_ids import STICKY_KEY
from dogsnap.server.protocols.model_repository import (
    UNLOADING,
    check_parameters,
    describe_index,
)
from dogsnap.server.protocols.tf_serving_grpc import PredictionService, administrator
from dogsnap.serving.inference.request_kinds import Photos, Prediction, Values, Work
from dogsnap.serving.photos.photo_values import decode_photos
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.tensors.json_tensors import OtherInputs
from dogsnap.serving.tensors.open_inference_tensors import (
    Tensor,
    describe_output,
    describe_specs,
    to_raw,
)
from dogsnap.serving.tensors.signatures import BYTES_SUFFIX, ServableId, Signature
from dogsnap.serving.tensors.tensor_protos import tensor_bytes
from dogsnap.settings import Settings

Fields = dict[str, Any]  # of a message, or of its JSON
# Written from the .proto beside it, which describes the messages.
DESCRIPTORS = Path(__file__).with_name("open_inference.binpb")
SHARED_MEMORY = "shared_memory_region"  # the parameter of a tensor that is there
CLASSES = "classification"  # the parameter of an output: how many classes, as texts
MOST_TEXTS = 100_000  # of classes in an answer: each takes 100 bytes
SERVER = {
    "name": "dogsnap",
    "version": version("dogsnap"),
    "extensions": ["binary_tensor_data", CLASSES, "model_repository"],
}


# In the pool where gRPC's reflection finds it.
SERVICE: ServiceDescriptor = add_messages(DESCRIPTORS, default_pool()).FindServiceByName(
    "inference.GRPCInferenceService"
)


def describe_model(repository: ModelRepository, spec: ModelSpec) -> Fields:
    """The metadata of a version: its default signature, or its first."""
    with repository.acquire(spec) as servable:
        signature = servable.default_signature()
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
    number, label = None, version or None
    if version.isdigit():
        number, label = whole_number("version", version), None
    return ModelSpec(name, number, label, STICKY_KEY.get())


def refuse_shared_memory(parameters: Iterable[Container[str]]) -> None:
    """`parameters`: of all inputs and outputs. A client would read what is in its memory
    for an answer. Raises InvalidArgument.
    """
    if any(SHARED_MEMORY in each for each in parameters):
        raise InvalidArgument(
            f"{SHARED_MEMORY}: this server reads and writes no shared memory; send the values in "
            "the request, and take the outputs from its answer"
        )


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
            array = tensor.array(signature.inputs[tensor.name].shape.rank)
            takes_files = tensor.name.endswith(BYTES_SUFFIX) and array.dtype == object
            pictures = decode_photos(array) if takes_files else None
            arrays[tensor.name] = array if pictures is None else pictures
        tensors.clear()
        release()
        return arrays

    if len(tensors) == 1 and tensors[0].datatype == "BYTES":
        with repository.acquire(spec) as servable:
            signature = servable.signature(signature_name)
        inputs = signature.inputs
        (tensor,) = tensors
        if list(inputs) == [tensor.name] and inputs[tensor.name].dtype != tf.string:
            values = tensor.array().reshape(-1)
            pictures = decode_photos(values)
            contents = list(values if pictures is None else pictures)
            return Photos(contents, signature.name, outputs)
    return Values(read, signature_name, outputs)


def classified(
    repository: ModelRepository, prediction: Prediction, counts: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The outputs; of those in `counts` the so many largest values of each row, as
    texts "value:index" or, where the version has labels, "value:index:name", as
    Triton's classification extension gives them.

    Raises InvalidArgument, TooLarge.
    """
    arrays = dict(prediction.outputs)
    for name, count in counts.items():
        array = arrays[name]
        is_right = type(count) is int and count > 0
        if not is_right or array.ndim == 0 or not np.issubdtype(array.dtype, np.number):
            raise InvalidArgument(
                f'classification of output "{name}": expected a number of classes from 1 on, of an '
                f"output with numbers for classes; received {count!r:.40}, and "
                f"{array.dtype} {array.shape}"
            )
        rows = array.size // max(1, array.shape[-1])
        if rows * min(count, array.shape[-1]) > MOST_TEXTS:
            raise TooLarge(
                f'classification of output "{name}" makes more than {MOST_TEXTS} texts; ask for '
                "fewer classes, or send fewer rows"
            )
        names = _names_of_classes(repository, prediction.servable, array.shape[-1])
        best = np.argsort(-array, axis=-1, kind="stable")[..., :count]
        texts = np.empty(best.shape, object)
        for place in np.ndindex(*best.shape):
            index = int(best[place])
            text = f"{float(array[(*place[:-1], index)]):f}:{index}"
            texts[place] = f"{text}:{names[index]}".encode() if names else text.encode()
        arrays[name] = texts
    return arrays


def _names_of_classes(repository: ModelRepository, servable: ServableId, count: int) -> list[str]:
    """The names of a version's classes; none where it has others, or is gone."""
    with (
        suppress(DogsnapError),
        repository.acquire(ModelSpec(*servable)) as loaded,
    ):
        names = [label["name"] for label in loaded.description.labels]
        return names if len(names) == count else []
    return []


class InferenceService:
    """The methods of GRPCInferenceService, which return the fields of their responses;
    they raise DogsnapError. `predictions` answers them within the limits of its own calls.
    """

    def __init__(self, predictions: PredictionService, settings: Settings):
        self._predictions, self._settings = predictions, settings
        self._repository = predictions.predictor.repository
        self._switcher = predictions.predictor.switcher

    def handler(self) -> grpc.GenericRpcHandler:
        """What grpc.Server.add_generic_rpc_handlers takes."""
        handlers = {}
        for method in SERVICE.methods:
            handlers[method.name] = grpc.unary_unary_rpc_method_handler(
                partial(self._answer, method),
                GetMessageClass(method.input_type).FromString,
                GetMessageClass(method.output_type).SerializeToString,
            )
        return grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)

    def _answer(self, method: MethodDescriptor, request: Any, context: ServicerContext) -> Any:
        fields = getattr(self, method.name)(request, context)
        return GetMessageClass(method.output_type)(**fields)

    def ServerLive(self, request: Any, context: ServicerContext) -> Fields:
        return {"live": True}

    def ServerReady(self, request: Any, context: ServicerContext) -> Fields:
        return {"ready": not self._repository.not_ready()}

    def ServerMetadata(self, request: Any, context: ServicerContext) -> Fields:
        return SERVER

    def ModelReady(self, request: Any, context: ServicerContext) -> Fields:
        with suppress(DogsnapError):
            self.ModelMetadata(request, context)
            return {"ready": True}
        return {"ready": False}

    def ModelMetadata(self, request: Any, context: ServicerContext) -> Fields:
        return describe_model(self._repository, spec_of(request.name, request.version))

    def ModelInfer(self, request: Any, context: ServicerContext) -> Fields:
        spec = spec_of(request.model_name, request.model_version)
        signature_name = request.parameters["signature_name"].string_param
        names = [output.name for output in request.outputs]
        refuse_shared_memory(each.parameters for each in (*request.inputs, *request.outputs))
        work = work_of(self._repository, spec, _tensors(request), signature_name, names)
        (prediction,) = self._predictions.answer(spec, [work], context)
        counts = {
            output.name: output.parameters[CLASSES].int64_param
            for output in request.outputs
            if CLASSES in output.parameters
        }
        arrays = classified(self._repository, prediction, counts)
        self._predictions.hold(context, sum(map(tensor_bytes, arrays.values())))
        return {
            "model_name": prediction.servable.name,
            "model_version": str(prediction.servable.version),
            "id": request.id,
            "outputs": [describe_output(name, array) for name, array in arrays.items()],
            "raw_output_contents": [to_raw(array) for array in arrays.values()],
        }

    def RepositoryIndex(self, request: Any, context: ServicerContext) -> Fields:
        administrator(context, self._settings)
        check_parameters((), (), request.repository_name)
        return {"models": describe_index(self._repository, request.ready)}

    def RepositoryModelLoad(self, request: Any, context: ServicerContext) -> Fields:
        by = administrator(context, self._settings)
        check_parameters(request.parameters, (), request.repository_name)
        timeout, is_awaited = context.time_remaining(), context.is_active
        self._switcher.load_model(request.model_name, by, timeout, is_awaited)
        return {}

    def RepositoryModelUnload(self, request: Any, context: ServicerContext) -> Fields:
        by = administrator(context, self._settings)
        check_parameters(request.parameters, UNLOADING, request.repository_name)
        self._switcher.unload_model(request.model_name, by)
        return {}


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
