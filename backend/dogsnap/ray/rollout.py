"""Deploys versions on a Ray cluster: starts new ones, and ends old ones.

Each version is an application named by its content; unchanged ones are left alone. Which version
answers a request is the gateway's business.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePath

import ray
from ray import serve

from dogsnap.errors import DogsnapError, InvalidArgument
from dogsnap.gateway.ray_client import application_name
from dogsnap.ray.model_files import VersionFiles, versions_below
from dogsnap.ray.replica import Replica
from dogsnap.ray.scale import Scale
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.version_folders import aspired_versions
from dogsnap.settings import MEBIBYTE, Settings

PREFIX = "dogsnap-"  # of the names of the applications
REPLICA = "Replica"  # the only deployment of each application
GATEWAY_SECONDS = 3.0  # in which the gateways have found the new applications
# By this Ray Serve notices that a node is gone; its default period of 10 s would be a third of the targeted recovery time.
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

    def versions(self) -> list[tuple[str, VersionFiles]]:
        """The configured versions, or all, with the names of their models. Raises InvalidArgument."""
        found = versions_below(self.source)
        if not self.configs:
            return [(each.model, each) for each in found]
        return [(config.name, each) for config in self.configs for each in _aspired(config, found)]

    def name(self, model: str, files: VersionFiles) -> str:
        """The name of a version's application: it depends on the files, settings, scale and release of this package."""
        told = repr((model, files, self.settings, self.scale, self.cache, version("dogsnap")))
        return f"{PREFIX}{application_name(model)}-{files.version}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"

    def run(self, address: str, tell: Callable[[str], None]) -> None:
        """Deploy, and return when every version is available and the others are gone.

        Raises DogsnapError if one does not load.
        """
        versions = {self.name(*each): each for each in self.versions()}
        try:
            ray.init(address=address, namespace="dogsnap", log_to_driver=False)
        except ConnectionError as error:
            raise InvalidArgument(
                f"no Ray cluster was found at {address}: {error}; `ray start --head` starts one here"
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
        running = _ours()
        new = {name: each for name, each in versions.items() if running.get(name) != "RUNNING"}
        if new:
            self._serve(new)
        for name in versions:
            tell(f"{name}: {'answers' if name in new else 'is there already'}")
        old = sorted(set(_ours()) - set(versions))
        if old and new:
            time.sleep(GATEWAY_SECONDS)
        for name in old:
            serve.delete(name)
            tell(f"{name}: removed")

    def _serve(self, new: Mapping[str, tuple[str, VersionFiles]]) -> None:
        """Start the applications concurrently; remove those that do not load and raise DogsnapError for them."""
        targets = [
            serve.RunTarget(self._application(*each), name=name, route_prefix=f"/{name}")
            for name, each in new.items()
        ]
        try:
            serve.run_many(targets)
        except RuntimeError as error:  # raised for the first one that fails
            failed = [name for name in new if _ours().get(name) != "RUNNING"]
            reasons = [
                f"{new[name][0]} version {new[name][1].version}: {_message(name)}"
                for name in failed
            ]
            for name in failed:
                serve.delete(name)
            raise DogsnapError(f"not every version loads: {'; '.join(reasons)}") from error

    def _application(self, model: str, files: VersionFiles) -> serve.Application:
        settings, scale = self.settings, self.scale
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
        return deployment.bind(model, files, settings, self.cache)


def _aspired(config: ModelConfig, available: Sequence[VersionFiles]) -> list[VersionFiles]:
    """The versions that the policy selects, in the folder with the last name of the base path."""
    folder = PurePath(config.base_path).name
    found = {each.version: each for each in available if each.model == folder}
    if not found:
        raise InvalidArgument(
            f"no version of {config.name} was found: expected the model folder {folder}"
        )
    return [
        found[number] for number in sorted(aspired_versions(config.model_version_policy, found))
    ]


def _ours() -> dict[str, str]:
    """The status of each version's application."""
    applications = serve.status().applications
    return {
        name: str(each.status.value)
        for name, each in applications.items()
        if name.startswith(PREFIX)
    }


def _message(name: str) -> str:
    """Why an application does not start: of the traceback that Ray gives, the last line, which is the replica's error."""
    application = serve.status().applications.get(name)
    deployments = application.deployments.values() if application else ()
    return "; ".join(each.message.strip().rpartition("\n")[2] for each in deployments)
