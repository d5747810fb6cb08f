"""The routing table: which application answers for a model, version or label."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dogsnap.routing.choices import Choices
from dogsnap.routing.resolver import find_model, numbers_for_status, resolve
from dogsnap.serving.repository.model import Model, ModelSpec, State, Version
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.model_configs import ModelConfig


@dataclass(frozen=True)
class Routes:
    """Applications by model and version, and versions by model and label, including versions that are not deployed yet."""

    applications: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def application(self, spec: ModelSpec) -> str:
        """The application of the version that `spec` means; by default the largest.

        Raises NotFound, InvalidArgument, and Unavailable for a label that waits for its version.
        """
        model = find_model(self._models, spec.name, started=True)
        return self.applications[spec.name][resolve(model, spec, started=True).id.version]

    def asked_for_status(self, spec: ModelSpec) -> dict[int, str]:
        """The versions of a status request, largest first, with their applications. Raises as `application` does."""
        return {
            each: self.applications[spec.name][each]
            for each in numbers_for_status(self._models, spec)
        }

    def all_applications(self) -> list[str]:
        return [name for versions in self.applications.values() for name in versions.values()]

    @cached_property
    def _models(self) -> dict[str, Model]:
        return {
            name: _model(name, versions, self.labels.get(name, {}))
            for name, versions in self.applications.items()
        }

    def to_json(self) -> dict[str, Any]:
        """JSON for Ray Serve, with numbers as member names turned into text."""
        applications = {
            model: {str(n): name for n, name in each.items()}
            for model, each in self.applications.items()
        }
        return {
            "applications": applications,
            "labels": {model: dict(each) for model, each in self.labels.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Routes":
        applications = {
            model: {int(n): name for n, name in each.items()}
            for model, each in value["applications"].items()
        }
        return cls(applications, value["labels"])


def _model(name: str, numbers: Mapping[int, str], labels: Mapping[str, int]) -> Model:
    """The model with all these versions available, so that it answers as a server's own does."""
    versions = {each: Version(ServableId(name, each), Path(), State.AVAILABLE) for each in numbers}
    choices = Choices({("label", label): number for label, number in labels.items()})
    model = Model(ModelConfig(name=name), versions, choices=choices)
    model.move_labels()
    return model
