"""TensorFlow Serving's gRPC services, and what every call of theirs needs.

Import it after the fork: it loads TensorFlow.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any
from urllib.parse import unquote

import grpc
from grpc import ServicerContext
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from dogsnap.addresses import client_address
from dogsnap.errors import (
    Cancelled,
    DogsnapError,
    Internal,
    InvalidArgument,
    TooManyRequests,
    Unauthenticated,
)
from dogsnap.logs import REQUEST_ID
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switch_log import Who, check_author
from dogsnap.server.bodies.receiving import HeldMemory
from dogsnap.server.grpc_admission import PROBES
from dogsnap.server.middleware.access_control import AccessControl
from dogsnap.server.middleware.admin_auth import check_access
from dogsnap.server.middleware.request_ids import begin_request, log_access
from dogsnap.server.protocols import grpc_messages as translate
from dogsnap.server.tracing import describe_answer
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.inference.request_kinds import Examples, Task, Values, Work
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.tensors.signatures import Arrays, Signature, UnknownSignature
from dogsnap.serving.tensors.tensor_protos import fill_proto, tensor_bytes, to_arrays
from dogsnap.serving.versions.model_configs import with_default_policy
from dogsnap.settings import MEBIBYTE, Settings

PROTOCOL = "grpc"
SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name,
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    "inference.GRPCInferenceService",
)
RUNS = ("Predict", "Classify", "Regress", "MultiInference", "ModelInfer")  # the metrics count them
ADMINISTRATION = (  # needs the admin token instead of an API key
    "HandleReloadConfigRequest",
    "RepositoryIndex",
    "RepositoryModelLoad",
    "RepositoryModelUnload",
)

log = logging.getLogger("dogsnap.grpc")


class CallInterceptor(grpc.ServerInterceptor):
    """Wraps the calls of our services: access control, access log, errors as
    status codes, a count of those running.
    """

    def __init__(
        self,
        access_control: AccessControl,
        settings: Settings,
        metrics: Metrics,
        is_traced: bool = False,
    ):
        self._access_control = access_control
        self._settings = settings
        self._metrics = metrics
        self._is_traced = is_traced
        self._running = 0
        self._changed = threading.Condition()

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        handler = continuation(details)
        service = details.method.removeprefix("/").rpartition("/")[0]
        if handler is None or service not in SERVICES:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._answer(
                handler.unary_unary, request, context, details.method
            ),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _answer(
        self, method: Callable[..., Any], request: Any, context: ServicerContext, path: str
    ) -> Any:
        started = time.perf_counter()
        name = path.rpartition("/")[2]
        headers = headers_of(context.invocation_metadata())
        forwarded, proxies = headers.get("X-Forwarded-For", ""), self._settings.trusted_proxies
        address = client_address(peer_address(context.peer()), forwarded, proxies)
        begin_request(headers, address)
        with self._changed:
            self._running += 1
        if not context.add_callback(self._leave):
            self._leave()
        code, size = grpc.StatusCode.OK, 0
        try:
            if path not in PROBES:
                needs_key = name not in ADMINISTRATION
                self._access_control.check_call(address, headers, PROTOCOL, needs_key=needs_key)
            response = method(request, context)
            size = response.ByteSize()
            return response
        except Exception as error:
            if not isinstance(error, DogsnapError):
                number = REQUEST_ID.get()
                log.error("call %s failed", number, exc_info=error)
                error = Internal(
                    f"the server failed on this call; its log has the reason under {number}"
                )
            if name in RUNS and not isinstance(error, Unauthenticated | TooManyRequests):
                self._metrics.count_unread(PROTOCOL, error.code)
            code, message = translate.status(error)
            context.abort(code, message)
        finally:
            if self._is_traced:
                describe_answer()
            if self._settings.access_log:
                log_access({"method": name}, code.name, started, size)

    def _leave(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def wait_until_none(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0, seconds)


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """tensorflow.serving.PredictionService over a predictor; its methods raise
    DogsnapError.
    """

    def __init__(self, predictor: Predictor, settings: Settings, memory: HeldMemory):
        self.predictor = predictor
        self.max_bytes = settings.max_tensor_body_mb * MEBIBYTE
        self._seconds = settings.deadline_ms / 1000
        self._memory = memory

    def Predict(self, request: predict_pb2.PredictRequest, context: ServicerContext) -> Any:
        hold = partial(self.hold, context)

        def read(signature: Signature) -> Arrays:
            signature.check_inputs(request.inputs)
            return to_arrays(request.inputs, self.max_bytes, hold)

        work = Values(
            read,
            translate.signature_name(request.model_spec),
            list(request.output_filter),
        )
        (prediction,) = self.answer(translate.spec_of(request), [work], context)
        hold(sum(map(tensor_bytes, prediction.outputs.values())))
        response = predict_pb2.PredictResponse(
            model_spec=translate.make_model_spec(prediction.servable, prediction.signature.name)
        )
        for alias, array in prediction.outputs.items():
            fill_proto(response.outputs[alias], array)
        return response

    def hold(self, context: ServicerContext, count: int) -> None:
        """Count so many bytes until the call has ended.

        Raises NoRoom, and Cancelled if it has ended.
        """
        if not count:
            return
        self._memory.take(count)
        if not context.add_callback(partial(self._memory.give_back, count)):
            self._memory.give_back(count)
            raise Cancelled("the client has left")

    def Classify(
        self, request: classification_pb2.ClassificationRequest, context: ServicerContext
    ) -> Any:
        one = self._one(request, "classify", context)
        return classification_pb2.ClassificationResponse(
            model_spec=one.model_spec, result=one.classification_result
        )

    def Regress(self, request: regression_pb2.RegressionRequest, context: ServicerContext) -> Any:
        one = self._one(request, "regress", context)
        return regression_pb2.RegressionResponse(
            model_spec=one.model_spec, result=one.regression_result
        )

    def _one(
        self, request: Any, method: str, context: ServicerContext
    ) -> inference_pb2.InferenceResult:
        task = Task(method, translate.signature_name(request.model_spec))
        return self._infer(translate.spec_of(request), [task], request.input, context)[0]

    def MultiInference(
        self, request: inference_pb2.MultiInferenceRequest, context: ServicerContext
    ) -> Any:
        spec, tasks = translate.tasks_of(request)
        return inference_pb2.MultiInferenceResponse(
            results=self._infer(spec, tasks, request.input, context)
        )

    def _infer(
        self, spec: Any, tasks: list[Task], examples: Any, context: ServicerContext
    ) -> list[inference_pb2.InferenceResult]:
        read = cache(lambda: translate.examples_of(examples, self.max_bytes))
        hold = partial(self.hold, context)
        try:
            results = self.answer(spec, [Examples(task, read, hold) for task in tasks], context)
        except UnknownSignature as error:  # another code than for Predict, as in TensorFlow Serving
            raise InvalidArgument(
                f"No signature was found with the name: {error.name}. {error.message}"
            ) from error
        return [
            translate.inference_result(task, *result)
            for task, result in zip(tasks, results, strict=True)
        ]

    def answer(self, spec: ModelSpec, works: list[Work], context: ServicerContext) -> list[Any]:
        """As `Predictor.answer`, for the client and within the deadline of a call."""
        remaining = context.time_remaining()
        seconds = self._seconds if remaining is None else min(self._seconds, remaining)
        return self.predictor.answer(
            spec, works, PROTOCOL, seconds, lambda: not context.is_active()
        )

    def GetModelMetadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: ServicerContext
    ) -> Any:
        spec = translate.spec_of(request)
        translate.check_metadata_fields(request.metadata_field)
        with self.predictor.repository.acquire(spec) as servable:
            return translate.metadata_response(servable)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """tensorflow.serving.ModelService over a predictor's repository."""

    def __init__(self, settings: Settings, predictor: Predictor):
        self.settings = settings
        self.predictor = predictor

    def GetModelStatus(
        self, request: get_model_status_pb2.GetModelStatusRequest, context: ServicerContext
    ) -> Any:
        versions = self.predictor.repository.status(translate.spec_of(request))
        return translate.status_response(versions)

    def HandleReloadConfigRequest(
        self, request: model_management_pb2.ReloadConfigRequest, context: ServicerContext
    ) -> Any:
        """Needs administration rights: it can make this machine read and run
        any folder. The metadata "by" names the author.
        """
        by = administrator(context, self.settings)
        configs = with_default_policy(translate.configs_of(request.config), self.settings)
        self.predictor.repository.reconfigure(configs, by)
        self.predictor.repository.wait_until_served(
            configs, context.time_remaining(), context.is_active
        )
        response = model_management_pb2.ReloadConfigResponse()
        response.status.SetInParent()
        return response


def administrator(context: ServicerContext, settings: Settings) -> Who:
    """Who administers by this call. Raises Unauthenticated or PermissionDenied."""
    headers = headers_of(context.invocation_metadata())
    check_access(settings, headers)
    return check_author(headers.get("By", ""), peer_address(context.peer()))


def peer_address(peer: str) -> str:
    """The IP address in gRPC's form of a peer: ipv4:127.0.0.1:5000,
    ipv6:%5B::1%5D:5000; "" for any other kind.
    """
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


def headers_of(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """A call's metadata with names as in HTTP headers: authorization -> Authorization.

    As there, the values of a name that is sent twice are joined.
    """
    headers: dict[str, str] = {}
    for name, value in metadata:
        if isinstance(value, str):
            before = headers.get(name.title())
            headers[name.title()] = f"{before},{value}" if before else value
    return headers
