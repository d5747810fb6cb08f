"""A client of Ray Serve's gRPC proxies, where each version of a model is an
application.

It needs no Ray. What Ray Serve has no notion of is decided here: which version
answers by default (the one that has, or the largest), and the labels of the
configuration.
"""

import copy
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf import field_mask_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
)

from dogsnap.errors import EngineFailed, NotFound, Unavailable
from dogsnap.gateway.client import (
    ASK_SECONDS,
    ONE_ENGINE_SECONDS,
    SERVICE_CONFIG,
    EngineClient,
    EngineUnreachable,
)
from dogsnap.gateway.target import Target
from dogsnap.routing.choices import Choices
from dogsnap.routing.resolver import version_of_label
from dogsnap.routing.router import Router
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.inference.executor import remaining
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.versions.model_configs import ModelConfig

APPLICATION = re.compile(r"dogsnap-(?P<model>.+)-(?P<version>\d+)-[0-9a-f]{8}")
LIST = "/ray.serve.RayServeAPIService/ListApplications"
LIST_SECONDS = 0.5  # the list is asked again after this
AGAIN_SECONDS = 0.1  # until a call whose replica died is made again
STATUS = get_model_status_pb2.ModelVersionStatus
Applications = dict[str, dict[int, list[str]]]  # by model, as names of applications have it


def application_name(model: str) -> str:
    """The model in the name of an application."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", model)


def _service_config() -> dict[str, Any]:
    """A call whose replica dies ends with INTERNAL; it changed nothing, and is
    made again.

    Health is that of one application, and there is none for all.
    """
    config: dict[str, Any] = copy.deepcopy(SERVICE_CONFIG)
    del config["healthCheckConfig"]
    (method,) = config["methodConfig"]
    method["retryPolicy"]["retryableStatusCodes"] = ["UNAVAILABLE", "INTERNAL"]
    return config


class RayClient(EngineClient):
    service_config = _service_config()

    def __init__(
        self,
        target: Target,
        max_bytes: int,
        max_answer_bytes: int,
        metrics: Metrics,
        router: Router,
        configs: Callable[[], Sequence[ModelConfig]],
    ):
        super().__init__(target, max_bytes, max_answer_bytes, metrics)
        self._router = router
        self._configs = configs
        # On the wire, Ray's answer (`repeated string application_names = 1`) is a field mask.
        self._list = self._channel.unary_unary(
            LIST, request_serializer=None, response_deserializer=field_mask_pb2.FieldMask.FromString
        )
        self._applications: Applications = {}
        self._labels: dict[str, Choices] = {}  # those of the configuration, by model
        self._running: set[str] = set()  # applications that have answered
        self._listed_at = -LIST_SECONDS
        self._listing = threading.Lock()

    def choose(self, spec: ModelSpec) -> ModelSpec:
        """The number that `spec` means.

        Raises InvalidArgument for an unknown label, Unavailable for one that
        waits, NotFound.
        """
        if spec.label is not None:
            labels = self._labels.get(spec.name, Choices())
            versions = self._versions(spec.name)
            number = version_of_label(labels, spec.name, spec.label, versions.__contains__)
        else:
            number = self._default(spec.name)
        return ModelSpec(spec.name, number, sticky_key=spec.sticky_key)

    def _default(self, model: str) -> int:
        versions = self._versions(model)
        answering = self._router.answering(model)
        if answering in versions:
            return answering
        running = [number for number in versions if self._is_running(versions[number])]
        return max(running or versions)

    def predict(self, request: bytes, spec: ModelSpec) -> predict_pb2.PredictResponse:
        return self._repeat(lambda: super(RayClient, self).predict(request, spec))

    def metadata(self, spec: ModelSpec) -> get_model_metadata_pb2.GetModelMetadataResponse:
        return self._repeat(lambda: super(RayClient, self).metadata(spec))

    def _repeat(self, call: Callable[[], Any]) -> Any:
        """A call whose replica or node died is made again until it is late: it
        changed nothing.
        """
        end = time.monotonic() + remaining(ASK_SECONDS) - AGAIN_SECONDS
        while True:
            try:
                return call()
            except (EngineFailed, EngineUnreachable) as error:
                is_full = isinstance(error, EngineUnreachable) and error.is_full
                if is_full or time.monotonic() >= end:
                    raise
            except NotFound as error:
                # The application was replaced by another one with the same version.
                if "pplication" not in error.message or not self._ask_for_list():
                    raise
            time.sleep(AGAIN_SECONDS)

    def status(self, spec: ModelSpec) -> get_model_status_pb2.GetModelStatusResponse:
        """A version whose replicas do not answer yet is loading; one that has
        answered may be busy.
        """
        self._ask_for_list()
        versions = self._applications.get(application_name(spec.name))
        if not versions:
            raise NotFound(f"Could not find any versions of model {spec.name}")
        response = get_model_status_pb2.GetModelStatusResponse()
        for number in sorted(versions, reverse=True):
            if spec.version in (None, number):
                is_running = self._is_running(versions[number]) or self._answers(spec.name, number)
                state = STATUS.AVAILABLE if is_running else STATUS.LOADING
                response.model_version_status.add(version=number, state=state)
        if not response.model_version_status:
            raise NotFound(f"Could not find version {spec.version} of model {spec.name}")
        self._keep_default(spec.name)
        return response

    def versions_of_each(self, name: str) -> dict[str, frozenset[int] | None]:
        """The cluster is one engine; its replicas are Ray's business."""
        self._ask_for_list()
        versions = self._applications.get(application_name(name), {})
        running = [number for number in versions if self._is_running(versions[number])]
        return {str(self._target): frozenset(running)}

    def _metadata(self, spec: ModelSpec) -> list[tuple[str, str]]:
        number = self._default(spec.name) if spec.version is None else spec.version
        versions = self._versions(spec.name)
        if number not in versions:
            available = ", ".join(map(str, sorted(versions, reverse=True)))
            raise NotFound(
                f"Servable not found for request: Specific({spec.name}, {number}); available "
                f"versions: {available}"
            )
        names = sorted(versions[number], key=lambda name: name not in self._running)
        return [*super()._metadata(spec), ("application", names[0])]

    def _versions(self, model: str) -> dict[int, list[str]]:
        """The applications of a model by version. Raises NotFound."""
        if time.monotonic() - self._listed_at > LIST_SECONDS:
            self._ask_for_list()
        versions = self._applications.get(application_name(model))
        if not versions:
            raise NotFound(
                f"Servable not found for request: Latest({model}); no application of the cluster "
                "has it"
            )
        return versions

    def _ask_for_list(self) -> bool:
        """Ask which applications there are; False if nobody answers, and the
        last list holds.
        """
        with self._listing:
            self._listed_at = time.monotonic()
            try:
                answer = self._list(b"", timeout=ONE_ENGINE_SECONDS)
            except grpc.RpcError:
                return False
            applications: Applications = {}
            for name in answer.paths:
                if parts := APPLICATION.fullmatch(name):
                    versions = applications.setdefault(parts["model"], {})
                    versions.setdefault(int(parts["version"]), []).append(name)
            self._applications = applications
            self._running &= set(answer.paths)
        return True

    def _is_running(self, names: Sequence[str]) -> bool:
        return not self._running.isdisjoint(names)

    def _answers(self, model: str, number: int) -> bool:
        """Ask the replicas of a version once; an answer shows that it is loaded."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        for name in self._versions(model)[number]:
            try:
                metadata = [("application", name)]
                self._get_status(request, timeout=ONE_ENGINE_SECONDS, metadata=metadata)
            except grpc.RpcError:
                continue
            self._running.add(name)
            return True
        return False

    def _keep_default(self, model: str) -> None:
        """A version that comes later does not take over by itself."""
        for config in self._configs():
            labels = {("label", label): number for label, number in config.version_labels.items()}
            self._labels[config.name] = Choices(labels)
        if self._router.answering(model) is not None:
            return
        number = self._default(model)
        if not self._is_running(self._versions(model)[number]):
            return
        with suppress(Unavailable):  # the next poll tries again
            self._router.note_answering(model, number)
