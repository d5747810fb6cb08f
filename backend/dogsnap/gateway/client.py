"""A gRPC client of the engines: one channel with load balancing, health checks
and retries.
"""

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import grpc
from prometheus_client import Counter, Histogram
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
from dogsnap.advice import put_marks
from dogsnap.allocator import LARGE
from dogsnap.errors import DogsnapError, EngineFailed, TooLarge, Unavailable
from dogsnap.gateway.target import Target, is_ipv6
from dogsnap.logs import REQUEST_ID
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.execution.executor import TOO_LATE, remaining
from dogsnap.serving.metrics import LATENCY_BUCKETS, Metrics
from dogsnap.serving.versions.model_configs import ModelConfig

log = logging.getLogger("dogsnap.engine")

PREDICTION, MODELS = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
ASK_SECONDS = 5.0  # timeout of metadata and status calls
ONE_ENGINE_SECONDS = 2.0  # of the status of each engine, before a switch
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
# Health is that of the whole server (""), the only name that all engines know; an engine
# without the health service counts as healthy.
HEALTH = {"healthCheckConfig": {"serviceName": ""}}
ADDRESS = re.compile(r"ipv[46]:|dns:|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}")
AGAIN = "; try again later"
ANSWER_TOO_LARGE = "CLIENT: Received message larger than max"  # the side that received it
TOO_LARGE = "larger than max"  # part of gRPC's message, with the code RESOURCE_EXHAUSTED


def retry_on(*codes: str) -> dict[str, Any]:
    """gRPC's service config of a channel: calls change nothing, so each may be retried."""
    policy = {
        "maxAttempts": 4,
        "initialBackoff": "0.05s",
        "maxBackoff": "0.5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": codes,
    }
    services = [{"service": PREDICTION}, {"service": MODELS}]
    return {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [{"name": services, "retryPolicy": policy}],
        # No retries while more than half of the attempts fail: they would only add load
        # to engines that are full.
        "retryThrottling": {"maxTokens": 1000, "tokenRatio": 1},
    }


class EngineClient:
    """Calls to the engines of a target; thread-safe, and created after the
    fork. They raise the types of `dogsnap.errors`.
    """

    # UNAVAILABLE is the status of an engine that stops or is full.
    service_config: ClassVar[dict[str, Any]] = retry_on("UNAVAILABLE") | HEALTH

    def __init__(self, target: Target, max_bytes: int, max_answer_bytes: int, metrics: Metrics):
        """Requests of up to `max_bytes` are buffered until they are answered,
        so that they can be retried.

        `max_answer_bytes`: of one answer; -1 for any size.
        """
        self._target = target
        self._metadata_always = target.metadata
        options = _options(target, max_bytes, max_answer_bytes, self.service_config)
        self._channel = grpc.insecure_channel(target.address(), options)
        as_bytes = {
            "request_serializer": None,
            "response_deserializer": predict_pb2.PredictResponse.FromString,
        }
        self._predict = self._channel.unary_unary(f"/{PREDICTION}/Predict", **as_bytes)
        # The same on the wire, as a stream of one message. For a unary call grpcio
        # keeps the bytes it was given beside its copy until the answer arrives; for a
        # stream it does not. That costs a thread (0.3 ms).
        self._predict_large = self._channel.stream_unary(f"/{PREDICTION}/Predict", **as_bytes)
        self._get_metadata = prediction_service_pb2_grpc.PredictionServiceStub(
            self._channel
        ).GetModelMetadata
        self._get_status = model_service_pb2_grpc.ModelServiceStub(self._channel).GetModelStatus
        self._seconds = metrics.add(
            Histogram,
            "dogsnap_engine_seconds",
            "time of a call to the engine, retries included",
            ("call",),
            buckets=LATENCY_BUCKETS,
        )
        self._failures = metrics.add(
            Counter,
            "dogsnap_engine_failures",
            "calls to the engine that failed after all retries, by gRPC status",
            ("call", "code"),
        )

    def configure(self, configs: Sequence[ModelConfig]) -> None:
        """The models of this server's configuration; engines have labels of their own."""

    def choose(self, spec: ModelSpec) -> ModelSpec:
        """A spec that was not chosen here, as the engine is asked: unchanged."""
        return spec

    def predict(self, request: bytes, spec: ModelSpec) -> predict_pb2.PredictResponse:
        """Send a serialized PredictRequest for `spec`, with the remaining time
        as timeout.
        """
        if len(request) <= LARGE:
            return self._call("Predict", self._predict, request, spec)
        only = iter((request,))
        del request  # gRPC sends its own copy; this one is freed
        return self._call("Predict", self._predict_large, only, spec)

    def metadata(self, spec: ModelSpec) -> get_model_metadata_pb2.GetModelMetadataResponse:
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.CopyFrom(spec_message(spec))
        return self._call("GetModelMetadata", self._get_metadata, request, spec, ASK_SECONDS)

    def status(self, spec: ModelSpec) -> get_model_status_pb2.GetModelStatusResponse:
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec_message(spec))
        return self._call("GetModelStatus", self._get_status, request, spec, ASK_SECONDS)

    def versions_of_each(self, name: str) -> dict[str, frozenset[int] | None]:
        """The available versions of a model at each engine; None for one that
        does not answer.

        All addresses of a name are asked. Raises Unavailable for a name without
        one.
        """
        hosts = self._target.addresses()
        addresses = list(dict.fromkeys(chain.from_iterable(hosts)))
        with ThreadPoolExecutor(len(addresses)) as pool:
            numbers = pool.map(partial(self._ask_versions, name), addresses)
            answers = dict(zip(addresses, numbers, strict=True))
        for addresses_of_host in hosts:
            # Of a name with IPv4 and IPv6 addresses, such as localhost, one family may be unused.
            answering = [each for each in addresses_of_host if answers.get(each) is not None]
            families = set(map(is_ipv6, answering))
            for address in addresses_of_host:
                if len(families) == 1 and is_ipv6(address) not in families:
                    answers.pop(address, None)
        return answers

    def _ask_versions(self, name: str, address: str) -> frozenset[int] | None:
        """The available versions at one address; None if it does not answer."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = name
        options = [_proxy_option(self._target.hosts)]
        with grpc.insecure_channel(address, options) as channel:
            stub = model_service_pb2_grpc.ModelServiceStub(channel)
            try:
                response = stub.GetModelStatus(
                    request, timeout=ONE_ENGINE_SECONDS, metadata=self._metadata_always
                )
            except grpc.RpcError as error:
                is_missing = error.code() is grpc.StatusCode.NOT_FOUND
                return frozenset() if is_missing else None
        available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
        statuses = response.model_version_status
        return frozenset(status.version for status in statuses if status.state == available)

    def _metadata(self, spec: ModelSpec) -> list[tuple[str, str]]:
        """What goes along with a call for `spec`."""
        return list(self._metadata_always)

    def close(self) -> None:
        self._channel.close()

    def _call(
        self,
        name: str,
        method: Callable[..., Any],
        request: Any,
        spec: ModelSpec,
        most: float = math.inf,
    ) -> Any:
        """The answer, within the time that is left and at most `most` seconds."""
        metadata = self._metadata(spec)
        key = spec.sticky_key
        if request_id := REQUEST_ID.get():
            metadata.append(("x-request-id", request_id))
        if key and key.isascii() and key.isprintable():  # gRPC fails calls with other metadata
            metadata.append(("x-request-key", key))
        started = time.perf_counter()
        try:
            return method(request, timeout=min(remaining(ASK_SECONDS), most), metadata=metadata)
        except grpc.RpcError as error:
            self._failures.labels(name, error.code().name).inc()
            raise _translate(error) from None
        finally:
            self._seconds.labels(name).observe(time.perf_counter() - started)


def _proxy_option(hosts: Iterable[tuple[str, int]]) -> tuple[str, int]:
    """Requests to this machine never go through a proxy."""
    return ("grpc.enable_http_proxy", int(not any(is_loopback(host) for host, _ in hosts)))


def _options(
    target: Target, max_bytes: int, max_answer_bytes: int, service_config: dict[str, Any]
) -> list[tuple[str, Any]]:
    return [
        _proxy_option(target.hosts),
        ("grpc.service_config", json.dumps(service_config)),
        ("grpc.service_config_disable_resolution", 1),  # DNS must not override our retry policy
        # 256 kB by default; larger requests would not be retried.
        ("grpc.per_rpc_retry_buffer_size", max_bytes),
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
        return PASSED_ON[code](put_marks(details, "grpc"))
    if ANSWER_TOO_LARGE in details:
        return TooLarge(
            "the engine's answer is too large (DOGSNAP_MAX_ANSWER_MB); "
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
