"""Deploys versions on a Ray cluster: starts new ones, and ends old ones.

Each version is an application named by its content; unchanged ones are left
alone. Which version answers a request is the gateway's business.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path, PurePath

import ray
from ray import serve

from dogsnap.errors import DogsnapError, InvalidArgument
from dogsnap.gateway.ray_client import application_name
from dogsnap.ray.replica import Replica
from dogsnap.ray.scale import Scale
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.model_files import VersionFiles, versions_below
from dogsnap.serving.versions.version_policy import aspired_versions
from dogsnap.settings import MEBIBYTE, Settings

PREFIX = "dogsnap-"  # of the names of the applications
REPLICA = "Replica"  # the only deployment of each application
GATEWAY_SECONDS = 3.0  # in which the gateways have found the new applications
# By this Ray Serve notices that a node is gone; its default period of 10 s would be a
# third of the targeted recovery time.
HEALTH = {"health_check_period_s": 2, "health_check_timeout_s": 10}
# TensorFlow Serving's unmodified stubs.
SERVICERS = [
    "tensorflow_serving.apis.prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server",
    "tensorflow_serving.apis.model_service_pb2_grpc.add_ModelServiceServicer_to_server",
]
SPARE_SECONDS = 5.0  # added to Ray's timeout, so that the client gets the replica's error message


@dataclass(frozen=True)
class Rollout:
    """What is to be served, and how."""

    settings: Settings
    scale: Scale
    source: str
    cache: Path
    configs: Sequence[ModelConfig] = ()

    def versions(self) -> list[VersionFiles]:
        """The configured versions, or all. Raises InvalidArgument."""
        available = versions_below(self.source)
        if not self.configs:
            return available
        versions = []
        for config in self.configs:
            versions += _select_versions(config, available)
        return versions

    def name(self, files: VersionFiles) -> str:
        """The name of a version's application: it depends on the files,
        settings, scale and release of this package.
        """
        content = (files, self.settings, self.scale, self.cache, version("dogsnap"))
        digest = hashlib.sha256(repr(content).encode()).hexdigest()[:8]
        return f"{PREFIX}{application_name(files.model)}-{files.version}-{digest}"

    def run(self, address: str, tell: Callable[[str], None]) -> None:
        """Deploy, and return when every version is available and the others are gone.

        Raises DogsnapError if one does not load.
        """
        versions = {self.name(files): files for files in self.versions()}
        try:
            ray.init(address=address, namespace="dogsnap", log_to_driver=False)
        except ConnectionError as error:
            raise InvalidArgument(
                f"no Ray cluster was found at {address}: {error}; `ray start --head` "
                "starts one here"
            ) from error
        # Starts Ray's proxies; ports and services stay as the first rollout set them.
        serve.start(
            proxy_location="EveryNode",
            http_options={"host": self.settings.host, "port": self.settings.port},
            grpc_options={
                "port": self.settings.grpc_port,
                "grpc_servicer_functions": SERVICERS,
                "request_timeout_s": self.settings.deadline_ms / 1000 + SPARE_SECONDS,
            },
        )
        statuses = _read_statuses()
        new = {}
        for name, files in versions.items():
            if statuses.get(name) != "RUNNING":
                new[name] = files
        if new:
            self._serve(new)
        for name in versions:
            tell(f"{name}: {'answers' if name in new else 'is there already'}")
        old = sorted(set(_read_statuses()) - set(versions))
        if old and new:
            time.sleep(GATEWAY_SECONDS)
        for name in old:
            serve.delete(name)
            tell(f"{name}: removed")

    def _serve(self, new: Mapping[str, VersionFiles]) -> None:
        """Start the applications concurrently; remove those that do not load
        and raise DogsnapError for them.
        """
        targets = []
        for name, files in new.items():
            application = self._application(files)
            targets.append(serve.RunTarget(application, name=name, route_prefix=f"/{name}"))
        try:
            serve.run_many(targets)
        except RuntimeError as error:  # raised for the first one that fails
            reasons = []
            statuses = _read_statuses()
            for name, files in new.items():
                if statuses.get(name) != "RUNNING":
                    reasons.append(f"{files.model} version {files.version}: {_read_message(name)}")
                    serve.delete(name)
            raise DogsnapError(f"not every version loads: {'; '.join(reasons)}") from error

    def _application(self, files: VersionFiles) -> serve.Application:
        settings = self.settings
        scale = self.scale
        deployment = serve.deployment(Replica).options(
            name=REPLICA,
            max_constructor_retry_count=2,
            max_ongoing_requests=settings.run_threads,
            max_queued_requests=settings.queue_size,
            autoscaling_config={
                "min_replicas": scale.min_replicas,
                "max_replicas": scale.max_replicas,
                "target_ongoing_requests": scale.target_requests,
                "upscale_delay_s": scale.upscale_seconds,
                "downscale_delay_s": scale.downscale_seconds,
            },
            ray_actor_options={
                "num_cpus": scale.replica_cpus,
                "memory": scale.replica_memory_mb * MEBIBYTE,
            },
            graceful_shutdown_timeout_s=settings.drain_seconds,
            **HEALTH,
        )
        return deployment.bind(files, settings, self.cache)


def _select_versions(config: ModelConfig, available: Sequence[VersionFiles]) -> list[VersionFiles]:
    """The versions that the policy selects, in the folder with the last name of
    the base path.
    """
    folder = PurePath(config.base_path).name
    by_number = {files.version: files for files in available if files.folder == folder}
    if not by_number:
        raise InvalidArgument(
            f"no version of {config.name} was found: expected the model folder {folder}"
        )
    numbers = sorted(aspired_versions(config.model_version_policy, by_number))
    return [replace(by_number[number], model=config.name) for number in numbers]


def _read_statuses() -> dict[str, str]:
    """The status of each version's application, by name."""
    statuses = {}
    for name, application in serve.status().applications.items():
        if name.startswith(PREFIX):
            statuses[name] = str(application.status.value)
    return statuses


def _read_message(name: str) -> str:
    """Why an application does not start: of the traceback that Ray gives, the
    last line, which is the replica's error.
    """
    application = serve.status().applications.get(name)
    deployments = application.deployments.values() if application else ()
    last_lines = []
    for deployment in deployments:
        last_lines.append(deployment.message.strip().rpartition("\n")[2])
    return "; ".join(last_lines)
