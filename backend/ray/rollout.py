"""Brings a Ray cluster to serve the versions there are: new ones first, then the door is turned to them, then old ones go.

Each version is an application of its own, named by what is in it; what has not changed is left alone. It runs on no node.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import serve

from backend.errors import DogsnapError, InvalidArgument
from backend.ray.door import REPLICA, Door
from backend.ray.model_files import VersionFiles, versions_below
from backend.ray.replica import Replica
from backend.ray.routes import Routes
from backend.ray.scale import Scale
from backend.ray.services import SERVICERS
from backend.serving.configs import ModelConfig
from backend.serving.versions import aspired_versions
from backend.settings import Settings

DOOR = "dogsnap"  # the one application with a route; without a second, clients need not say which they mean
PREFIX = f"{DOOR}-"  # of the names of all others that are ours
MEBIBYTE = 2**20
DOOR_CPUS = 0.1  # it waits for others
SPARE_SECONDS = 5.0  # that Ray waits longer than the door, so that the client gets the door's sentence


@dataclass(frozen=True)
class Rollout:
    """What is to be served, and how."""

    settings: Settings
    scale: Scale
    source: str
    cache: Path
    configs: Sequence[ModelConfig] = ()

    def versions(self) -> list[VersionFiles]:
        """Those that the configuration wants, or all there are. Raises InvalidArgument."""
        there = versions_below(self.source)
        if not self.configs:
            return there
        wanted = [
            (config, {each.version: each for each in there if each.model == config.name}) for config in self.configs
        ]
        chosen = [found[number] for config, found in wanted for number in _aspired(config, found)]
        return chosen

    def routes(self, versions: Sequence[VersionFiles]) -> Routes:
        """Raises InvalidArgument for a label whose version is not among them."""
        applications: dict[str, dict[int, str]] = {}
        for each in versions:
            applications.setdefault(each.model, {})[each.version] = self.name(each)
        labels = {config.name: dict(config.version_labels) for config in self.configs}
        for model, pointed in labels.items():
            for label, number in pointed.items():
                if number not in applications[model]:
                    raise InvalidArgument(f"label {label} of {model} points to version {number}, which is not served")
        return Routes(applications, labels)

    def name(self, files: VersionFiles) -> str:
        """The same for the same files, settings and scale."""
        told = repr((files, self.settings, self.scale, self.cache))
        return f"{PREFIX}{files.model}-{files.version}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"

    def run(self, tell: Callable[[str], None]) -> None:
        """Bring the cluster to it; returns when every version answers. Raises DogsnapError if one does not load."""
        versions = self.versions()
        routes = self.routes(versions)
        self._open()
        for each in versions:
            tell(f"{self.name(each)}: {self._serve(each)}")
        if self._table() != routes.to_json():
            serve.run(self._door(routes), name=DOOR, route_prefix="/")
            tell(f"{DOOR}: turned to them")
        for name in sorted(set(_ours()) - set(routes.all_applications())):
            serve.delete(name)
            tell(f"{name}: removed")

    def _open(self) -> None:
        """Ports and services are the cluster's, and stay as the first rollout set them."""
        serve.start(
            proxy_location="EveryNode",
            http_options={"host": self.settings.host, "port": self.settings.port},
            grpc_options={
                "port": self.settings.grpc_port,
                "grpc_servicer_functions": list(SERVICERS),
                "request_timeout_s": self.settings.deadline_ms / 1000 + SPARE_SECONDS,
            },
        )

    def _serve(self, files: VersionFiles) -> str:
        name = self.name(files)
        if _ours().get(name) == "RUNNING":
            return "is there already"
        try:
            serve.run(self._application(files), name=name, route_prefix=None)
        except RuntimeError as error:  # what Ray raises for a deployment that fails
            reason = _ours_message(name) or str(error)
            serve.delete(name)
            raise DogsnapError(f"{files.model} version {files.version} does not load: {reason}") from error
        return "answers"

    def _application(self, files: VersionFiles) -> serve.Application:
        settings, scale = self.settings, self.scale
        deployment = serve.deployment(Replica).options(
            name=REPLICA,
            max_ongoing_requests=settings.run_threads,
            max_queued_requests=settings.queue_size,
            autoscaling_config={
                "min_replicas": scale.min_replicas,
                "max_replicas": scale.max_replicas,
                "target_ongoing_requests": scale.target_requests,
                "upscale_delay_s": scale.upscale_seconds,
                "downscale_delay_s": scale.downscale_seconds,
            },
            ray_actor_options={"num_cpus": scale.replica_cpus, "memory": scale.replica_memory_mb * MEBIBYTE},
            graceful_shutdown_timeout_s=settings.drain_seconds,
            health_check_period_s=5,
            health_check_timeout_s=15,
        )
        return deployment.bind(files, settings, self.cache)

    def _door(self, routes: Routes) -> serve.Application:
        deployment = serve.deployment(Door).options(
            name="Door",
            num_replicas=self.scale.doors,
            max_ongoing_requests=1000,
            max_surge_percent=100,
            user_config=routes.to_json(),
            ray_actor_options={"num_cpus": DOOR_CPUS},
        )
        return deployment.bind(self.settings.deadline_ms / 1000)

    def _table(self) -> Any:
        """The routes that the door follows now; None if there is no door yet."""
        status = serve.status().applications.get(DOOR)
        if status is None or status.status != "RUNNING":
            return None
        return serve.get_app_handle(DOOR).table.remote().result(timeout_s=60)


def connect(address: str) -> None:
    """Raises InvalidArgument if there is no cluster."""
    try:
        ray.init(address=address, namespace="dogsnap", log_to_driver=False)
    except ConnectionError as error:
        raise InvalidArgument(
            f"no Ray cluster was found at {address}: {error}; `ray start --head` starts one here"
        ) from error


def _aspired(config: ModelConfig, found: dict[int, VersionFiles]) -> list[int]:
    if not found:
        raise InvalidArgument(f"no version of the model {config.name} was found")
    return sorted(aspired_versions(config.model_version_policy, found))


def _ours() -> dict[str, str]:
    """The status of each version's application."""
    there = serve.status().applications
    return {name: str(each.status.value) for name, each in there.items() if name.startswith(PREFIX)}


def _ours_message(name: str) -> str:
    application = serve.status().applications.get(name)
    return "" if application is None else "; ".join(each.message for each in application.deployments.values())
