"""A client of Ray Serve's gRPC proxies, where each version of a model is an
application.

It needs no Ray. What Ray Serve has no notion of is decided here: which version
answers by default (the one that has, or the largest), and the labels of the
configuration.
"""

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import grpc
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from dogsnap.errors import EngineFailed, NotFound, Unavailable
from dogsnap.gateway.client import TRY_LATER, EngineClient, EngineUnreachable
from dogsnap.gateway.engines import ASK_SECONDS
from dogsnap.gateway.target import Target
from dogsnap.routing.choices import Choices
from dogsnap.routing.chosen_versions import NOTHING, ChosenVersions
from dogsnap.routing.resolver import version_of_label
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.execution.executor import remaining
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.versions.model_configs import ModelConfig

APPLICATION = re.compile(r"dogsnap-(?P<model>.+)-(?P<version>\d+)-[0-9a-f]{8}")
ANY = ModelSpec("any")  # for a call that every proxy takes
ONE_CALL_SECONDS = 2.0  # timeout of the list, and of the question whether a version runs
LIST_SECONDS = 0.5  # the list is asked again after this
AGAIN_SECONDS = 0.1  # until a call whose replica died is made again
STATUS = get_model_status_pb2.ModelVersionStatus
Applications = dict[str, list[tuple[int, str]]]  # version and name, by model as names have it


def application_name(model: str) -> str:
    """The model in the name of an application."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", model)


class RayClient(EngineClient):
    # A call whose replica dies ends with INTERNAL; it changed nothing.
    again: ClassVar[tuple[grpc.StatusCode, ...]] = (*TRY_LATER, grpc.StatusCode.INTERNAL)
    # Health is that of one application, and there is none for all.
    service_config: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, target: Target, max_answer_bytes: int, metrics: Metrics, chosen: ChosenVersions
    ):
        super().__init__(target, max_answer_bytes, metrics)
        self._chosen = chosen
        self._applications: Applications = {}
        self._labels: dict[str, Choices] = {}  # those of the configuration, by model
        self._running: set[str] = set()  # applications that have answered
        self._listed_at = -LIST_SECONDS

    def configure(self, configs: Sequence[ModelConfig]) -> None:
        """Ray has no labels; those of the configuration are used."""
        for config in configs:
            labels = {("label", label): number for label, number in config.version_labels.items()}
            self._labels[config.name] = Choices(labels)

    def choose(self, spec: ModelSpec) -> ModelSpec:
        """The number that `spec` means.

        Raises InvalidArgument for an unknown label, Unavailable for one that
        waits, NotFound.
        """
        if spec.version is not None:
            return spec
        versions = self._versions(spec.name)
        number = self._chosen.answering(spec.name)
        if spec.label is not None:
            labels = self._labels.get(spec.name, NOTHING)
            number = version_of_label(labels, spec.name, spec.label, versions.__contains__)
        elif number not in versions:
            number = max(self._list_running(versions) or versions)
        return ModelSpec(spec.name, number, sticky_key=spec.sticky_key)

    def metadata(self, spec: ModelSpec) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """A version that comes after the first default does not take over by itself."""
        response = super().metadata(spec)
        if spec.version is None and self._chosen.answering(spec.name) is None:
            with suppress(Unavailable):  # the next poll tries again
                self._chosen.note_answering(spec.name, response.model_spec.version.value)
        return response

    def _call(self, *call: Any) -> Any:
        """A call whose replica or node died is made again until it is late: it
        changed nothing.
        """
        end = time.monotonic() + remaining(ASK_SECONDS) - AGAIN_SECONDS
        while True:
            try:
                return super()._call(*call)
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
        for number, name in self._applications.get(application_name(spec.name), []):
            if spec.version in (None, number):
                self._ask_replicas(name, spec.name)
        versions = self._find_versions(spec.name)
        if not versions:
            raise NotFound(f"Could not find any versions of model {spec.name}")
        if spec.version not in (None, *versions):
            raise NotFound(f"Could not find version {spec.version} of model {spec.name}")
        response = get_model_status_pb2.GetModelStatusResponse()
        for number, name in versions.items():
            if spec.version in (None, number):
                state = STATUS.AVAILABLE if name in self._running else STATUS.LOADING
                response.model_version_status.add(version=number, state=state)
        return response

    def look(self) -> None:
        """Every proxy leads to all replicas: it only has to answer."""
        self.engines.ask_all("ListApplications", [b""])

    def versions_of_each(self, name: str) -> dict[str, frozenset[int] | None]:
        """The cluster is one engine; its replicas are Ray's business."""
        self._ask_for_list()
        running = self._list_running(self._find_versions(name))
        return {str(self._target): frozenset(running)}

    def _metadata(self, spec: ModelSpec) -> list[tuple[str, str]]:
        number = self.choose(spec).version
        versions = self._versions(spec.name)
        if number not in versions:
            available = ", ".join(map(str, sorted(versions, reverse=True)))
            raise NotFound(
                f"Servable not found for request: Specific({spec.name}, {number}); available "
                f"versions: {available}"
            )
        return [*super()._metadata(spec), ("application", versions[number])]

    def _versions(self, model: str) -> dict[int, str]:
        """The applications of a model by version. Raises NotFound."""
        if time.monotonic() - self._listed_at > LIST_SECONDS:
            self._ask_for_list()
        versions = self._find_versions(model)
        if not versions:
            raise NotFound(
                f"Servable not found for request: Latest({model}); no application of the cluster "
                "has it"
            )
        return versions

    def _find_versions(self, model: str) -> dict[int, str]:
        """As of the last list; of two applications of a version the one that has answered."""
        versions: dict[int, str] = {}
        for number, name in self._applications.get(application_name(model), []):
            if number not in versions or name in self._running:
                versions[number] = name
        return versions

    def _list_running(self, versions: Mapping[int, str]) -> list[int]:
        return [number for number, name in versions.items() if name in self._running]

    def _ask_for_list(self) -> bool:
        """Ask which applications there are; False if nobody answers, and the
        last list holds.
        """
        self._listed_at = time.monotonic()
        try:
            answer = self._send(
                "ListApplications", b"", ANY, ONE_CALL_SECONDS, self._target.metadata
            )
        except grpc.RpcError:
            return False
        applications: Applications = {}
        for name in answer.paths:
            if parts := APPLICATION.fullmatch(name):
                versions = applications.setdefault(parts["model"], [])
                versions.append((int(parts["version"]), name))
        self._applications = applications
        self._running &= set(answer.paths)
        return True

    def _ask_replicas(self, application: str, model: str) -> None:
        """Ask them once; an answer shows that the version is loaded."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        metadata = [*self._target.metadata, ("application", application)]
        if application not in self._running:
            with suppress(grpc.RpcError):
                self._send("GetModelStatus", request, ANY, ONE_CALL_SECONDS, metadata)
                self._running.add(application)
