"""A gRPC client of the engines: calls, which are made again at another engine, or at
the same one, and their errors.
"""

import json
import logging
import math
import random
import re
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import grpc
from google.protobuf import field_mask_pb2
from prometheus_client import Histogram
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from dogsnap import errors
from dogsnap.addresses import is_loopback
from dogsnap.allocator import LARGE
from dogsnap.errors import DogsnapError, EngineFailed, TooLarge, Unavailable
from dogsnap.gateway.engines import ASK_SECONDS, Engine, Engines, Left, Methods, Pair
from dogsnap.gateway.target import Target
from dogsnap.logs import REQUEST_ID
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.execution.executor import TOO_LATE, remaining
from dogsnap.serving.metrics import LATENCY_BUCKETS, CounterOfKinds, Metrics
from dogsnap.serving.versions.model_configs import ModelConfig

log = logging.getLogger("dogsnap.engine")

PREDICTION = "tensorflow.serving.PredictionService"
LIST = "/ray.serve.RayServeAPIService/ListApplications"
LARGE_CALL = "Predict as a stream"
AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE
PAUSES = (0.05, 0.1, 0.2)  # seconds before a call that no engine took is made again
MOST_TOKENS = 1000  # as in gRPC's retry throttling: a failed attempt costs one, a call gives one
# The client's errors, passed on with the engine's message.
PASSED_ON = {
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: errors.InvalidArgument,
    grpc.StatusCode.FAILED_PRECONDITION: errors.FailedPrecondition,
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.UNIMPLEMENTED: errors.Unimplemented,
}
# The engine is full or stopping; CANCELLED is the status of queued requests when it stops.
TRY_LATER = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
)
# It says nothing of what was sent: another engine may be well, or take our calls.
OWN_FAULTS = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)
FAILURES = (*(code.name for code in TRY_LATER), "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN")
# It may be at another engine; something else may listen at this one's address.
NOT_HERE = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED)
# Health is that of the whole server (""), the only name that all engines know; an engine
# without the health service counts as healthy.
HEALTH = {"healthCheckConfig": {"serviceName": ""}}
ADDRESS = re.compile(r"ipv[46]:|dns:|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}")
AGAIN = "; try again later"
ANSWER_TOO_LARGE = "CLIENT: Received message larger than max"  # the side that received it
TOO_LARGE = "larger than max"  # part of gRPC's message, with the code RESOURCE_EXHAUSTED


class EngineClient:
    """Calls to the engines of a target; thread-safe, and created after the
    fork. They raise the types of `dogsnap.errors`.
    """

    again: ClassVar[tuple[grpc.StatusCode, ...]] = TRY_LATER  # another engine may answer
    service_config: ClassVar[dict[str, Any]] = {
        "loadBalancingConfig": [{"round_robin": {}}],
        **HEALTH,
    }

    def __init__(self, target: Target, max_answer_bytes: int, metrics: Metrics):
        """`max_answer_bytes`: of one answer; -1 for any size."""
        self._target = target
        self._options = _options(target, max_answer_bytes, self.service_config)
        self.watched: Sequence[str] = ()  # the models whose versions the engines are asked for
        self._tokens = MOST_TOKENS
        self.engines = Engines(target, self._connect)
        self.metrics = metrics
        self._seconds = metrics.add(
            Histogram,
            "dogsnap_engine_seconds",
            "time of a call to the engine, retries included",
            ("call",),
            buckets=LATENCY_BUCKETS,
        )
        self._failures = metrics.add(
            CounterOfKinds,
            "dogsnap_engine_failures",
            "calls to the engine that failed after all retries, by gRPC status",
            ("call", "code"),
            kinds=FAILURES,
        )
        for call in ("Predict", "GetModelMetadata"):
            self._failures.begin(call)

    def start(self) -> None:
        """Look after the engines, in threads."""
        self.engines.start(self.look)

    def configure(self, configs: Sequence[ModelConfig]) -> None:
        """The models of this server's configuration; engines have labels of their own."""

    def choose(self, spec: ModelSpec) -> ModelSpec:
        """A spec that was not chosen here, as the engine is asked: unchanged."""
        return spec

    def _connect(self, address: str, host: str) -> tuple[grpc.Channel, Methods]:
        authority = ("grpc.default_authority", host)  # proxies route by it
        channel = grpc.insecure_channel(address, [*self._options, authority])
        prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        as_bytes = {
            "request_serializer": None,
            "response_deserializer": predict_pb2.PredictResponse.FromString,
        }
        return channel, {
            "Predict": channel.unary_unary(f"/{PREDICTION}/Predict", **as_bytes),
            # The same on the wire, as a stream of one message. For a unary call grpcio keeps a
            # copy of the bytes it was given until the answer arrives; for a stream it does not.
            # That costs a thread (0.3 ms).
            LARGE_CALL: channel.stream_unary(f"/{PREDICTION}/Predict", **as_bytes),
            "GetModelMetadata": prediction.GetModelMetadata,
            "GetModelStatus": model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus,
            # On the wire, Ray's answer (`repeated string application_names = 1`) is a field mask.
            "ListApplications": channel.unary_unary(
                LIST, None, response_deserializer=field_mask_pb2.FieldMask.FromString
            ),
        }

    def predict(self, request: bytes, spec: ModelSpec) -> predict_pb2.PredictResponse:
        """Send a serialized PredictRequest for `spec`, with the remaining time
        as timeout.
        """
        return self._call("Predict", request, spec)

    def metadata(self, spec: ModelSpec) -> get_model_metadata_pb2.GetModelMetadataResponse:
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=spec_message(spec), metadata_field=["signature_def"]
        )
        return self._call("GetModelMetadata", request, spec, ASK_SECONDS)

    def status(self, spec: ModelSpec) -> get_model_status_pb2.GetModelStatusResponse:
        """What all engines have of a model: of each version the state where it is best."""
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec_message(spec))
        answers = self.engines.ask_all("GetModelStatus", [request])
        best: dict[int, get_model_status_pb2.ModelVersionStatus] = {}
        error: grpc.RpcError | None = None
        for (future,) in answers.values():
            error = error or future.exception()
            for status in () if future.exception() else future.result().model_version_status:
                if status.version not in best or status.state == AVAILABLE:
                    best[status.version] = status
        if not answers:
            raise EngineUnreachable("none answers")
        if error and not best:
            raise _translate(error)
        return get_model_status_pb2.GetModelStatusResponse(model_version_status=best.values())

    def look(self) -> None:
        """Ask all engines for the available versions of the watched models."""
        names = self.watched or [""]
        specs = [model_pb2.ModelSpec(name=name) for name in names]
        requests = [get_model_status_pb2.GetModelStatusRequest(model_spec=spec) for spec in specs]
        answers = self.engines.ask_all("GetModelStatus", requests)
        for engine, futures in answers.items():
            told = {name: _available(each) for name, each in zip(names, futures, strict=True)}
            engine.versions = {name: each for name, each in told.items() if each is not None}

    def versions_of_each(self, name: str) -> dict[str, frozenset[int] | None]:
        """The available versions of a model at each engine; None for one that
        does not answer.
        """
        self.watched = sorted({*self.watched, name})
        self.look()
        versions = {}
        for engine in self.engines.all():
            versions[engine.address] = engine.versions.get(name) if engine.answers else None
        return versions

    def _metadata(self, spec: ModelSpec) -> list[tuple[str, str]]:
        """What goes along with a call for `spec`."""
        return list(self._target.metadata)

    def close(self) -> None:
        self.engines.close()

    def _call(self, name: str, request: Any, spec: ModelSpec, most: float = math.inf) -> Any:
        """The answer, within the time that is left and at most `most` seconds."""
        metadata = self._metadata(spec)
        key = spec.sticky_key
        if request_id := REQUEST_ID.get():
            metadata.append(("x-request-id", request_id))
        if key and key.isascii() and key.isprintable():  # gRPC fails calls with other metadata
            metadata.append(("x-request-key", key))
        started = time.perf_counter()
        try:
            return self._send(name, request, spec, min(remaining(ASK_SECONDS), most), metadata)
        except grpc.RpcError as error:
            self._failures.labels(name, error.code().name).inc()
            raise _translate(error) from None
        finally:
            self._seconds.labels(name).observe(time.perf_counter() - started)

    def _send(
        self, name: str, request: Any, spec: ModelSpec, seconds: float, metadata: Sequence[Pair]
    ) -> Any:
        """A call, made again at each engine that may answer, and, while none is
        reachable, after a pause: calls change nothing. Raises grpc.RpcError.

        A question has half of the time that is left at an engine beside which there are others.
        """
        again, is_question = (*self.again, *NOT_HERE, *OWN_FAULTS), name != "Predict"
        if is_question:
            again = (
                *again,
                grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.FAILED_PRECONDITION,
            )
        end, pauses = time.monotonic() + seconds, iter(PAUSES)
        tried: set[Engine] = set()
        failure: grpc.RpcError | None = None
        is_sure = False  # that engine is known to have the version
        while True:
            engine = self.engines.pick(spec, tried)
            if engine is None:
                assert failure is not None
                pause = next(pauses, math.inf) * random.uniform(0.8, 1.2)
                is_away = failure.code() is grpc.StatusCode.UNAVAILABLE
                # No more while most calls fail: they would only add load to engines that are full.
                if not is_away or time.monotonic() + pause > end or self._tokens < MOST_TOKENS / 2:
                    raise failure
                time.sleep(pause)
                tried.clear()
                continue
            tried.add(engine)
            is_large = isinstance(request, bytes) and len(request) > LARGE
            body = iter((request,)) if is_large else request
            method = LARGE_CALL if is_large else name
            left = max(0.0, end - time.monotonic())
            if is_question and self.engines.fittest(spec, tried):
                left /= 2
            try:
                response = engine.call(method, body, timeout=left, metadata=metadata)
                self._tokens = min(MOST_TOKENS, self._tokens + 1)
                return response
            except Left:
                tried.discard(engine)  # it has a new connection
            except grpc.RpcError as error:
                if error.code() not in again:
                    raise
                is_its_fault = error.code() in OWN_FAULTS
                self._tokens = max(0, self._tokens - (is_its_fault or error.code() in TRY_LATER))
                if is_its_fault and self._tokens < MOST_TOKENS / 2:
                    raise  # most calls fail: what is sent may be why
                if not is_sure or is_its_fault:
                    failure, is_sure = error, spec.name in engine.versions


def _available(future: Any) -> frozenset[int] | None:
    """The available versions in an answer to GetModelStatus; None for one that does not say."""
    error = future.exception()
    if error is not None:
        return frozenset() if error.code() is grpc.StatusCode.NOT_FOUND else None
    statuses = future.result().model_version_status
    return frozenset(status.version for status in statuses if status.state == AVAILABLE)


def _options(
    target: Target, max_answer_bytes: int, service_config: dict[str, Any]
) -> list[tuple[str, Any]]:
    is_here = any(is_loopback(host) for host, _ in target.hosts)
    return [
        ("grpc.enable_http_proxy", int(not is_here)),
        ("grpc.use_local_subchannel_pool", 1),  # a connection that is given up is not used again
        ("grpc.service_config", json.dumps(service_config)),
        ("grpc.service_config_disable_resolution", 1),  # nothing from DNS
        ("grpc.enable_retries", 0),  # it would keep a copy of each request
        # TCP notices only after a quarter of an hour that a machine is gone. While an
        # engine answers our polls no ping is sent, so that no engine closes the
        # connection for too many pings.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 8_000),
        ("grpc.http2.ping_timeout_ms", 8_000),  # the default for gRPC's other pings is a minute
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", max_answer_bytes),
        # gRPC's default for the longest pause before it connects again is two minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        # To connect to an engine that is busy; a stopped one refuses at once.
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]


def spec_message(spec: ModelSpec) -> model_pb2.ModelSpec:
    message = model_pb2.ModelSpec(name=spec.name)
    if spec.version is not None:
        message.version.value = spec.version
    if spec.label is not None:
        message.version_label = spec.label
    return message


def _translate(error: grpc.RpcError) -> DogsnapError:
    """The error for our client, without the engine's address."""
    code = error.code()
    details = error.details() or ""
    if code in PASSED_ON:
        return PASSED_ON[code](details)
    if ANSWER_TOO_LARGE in details:
        return TooLarge(
            "the engine's answer is too large (twice DOGSNAP_MAX_TENSOR_BODY_MB); "
            f"send less at once ({details})"
        )
    if TOO_LARGE in details:
        return TooLarge(f"the engine takes no message of this size; send less at once ({details})")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceeded(TOO_LATE)
    if code in TRY_LATER:
        log.debug("no engine answers: %s %s", code.name, details)
        return EngineUnreachable(details, code is grpc.StatusCode.RESOURCE_EXHAUSTED)
    log.error(
        "request %s failed at the engine: %s %s",
        REQUEST_ID.get() or "of our own",
        code.name,
        details,
    )
    return EngineFailed(
        f"the engine behind this server failed ({code.name}); "
        "this server's log has the reason under the request id"
    )


class EngineUnreachable(Unavailable):
    """No engine is reachable.

    `details`, from the engine or gRPC, may contain its address and are only for
    the log.
    """

    def __init__(self, details: str, is_full: bool = False):
        words = "" if ADDRESS.search(details) else f": {details.removesuffix(AGAIN)}"
        super().__init__(f"no engine behind this server can answer now{words}{AGAIN}")
        self.details = details
        self.is_full = is_full
