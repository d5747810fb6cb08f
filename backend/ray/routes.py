"""The routing table: which application answers for a model, version or label."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.errors import InvalidArgument, NotFound, Unavailable
from backend.serving.repository.model import ModelSpec


@dataclass(frozen=True)
class Routes:
    """Applications by model and version, and versions by model and label, including versions that are not deployed yet."""

    applications: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def application(self, spec: ModelSpec) -> str:
        """The application of the version that `spec` means; by default the largest.

        Raises NotFound, InvalidArgument, and Unavailable for a label that waits for its version.
        """
        versions = self._versions(spec.name, f"Servable not found for request: Latest({spec.name})")
        number = self._number(spec)
        if number is None:
            return versions[max(versions)]
        if number not in versions:
            available = ", ".join(map(str, sorted(versions, reverse=True)))
            raise NotFound(
                f"Servable not found for request: Specific({spec.name}, {number}); available versions: {available}"
            )
        return versions[number]

    def asked_for_status(self, spec: ModelSpec) -> dict[int, str]:
        """The versions of a status request, largest first, with their applications. Raises as `application` does."""
        versions = self._versions(spec.name, f"Could not find any versions of model {spec.name}")
        number = self._number(spec)
        if number is not None and number not in versions:
            raise NotFound(f"Could not find version {number} of model {spec.name}")
        return {each: versions[each] for each in sorted(versions, reverse=True) if number in (None, each)}

    def all_applications(self) -> list[str]:
        return [name for versions in self.applications.values() for name in versions.values()]

    def _versions(self, model: str, otherwise: str) -> Mapping[int, str]:
        if model not in self.applications:
            raise NotFound(f"{otherwise}; models served here: {', '.join(sorted(self.applications)) or 'none'}")
        return self.applications[model]

    def _number(self, spec: ModelSpec) -> int | None:
        if spec.label is None:
            return spec.version
        labels = self.labels.get(spec.name, {})
        if spec.label not in labels:
            known = ", ".join(sorted(labels)) or "none"
            raise InvalidArgument(f"Unrecognized servable version label: {spec.label}; labels of {spec.name}: {known}")
        number = labels[spec.label]
        if number not in self.applications[spec.name]:
            raise Unavailable(
                f"label {spec.label} of {spec.name} waits for version {number}, which is not available yet; try again"
            )
        return number

    def to_json(self) -> dict[str, Any]:
        """JSON for Ray Serve, with numbers as member names turned into text."""
        applications = {model: {str(n): name for n, name in each.items()} for model, each in self.applications.items()}
        return {"applications": applications, "labels": {model: dict(each) for model, each in self.labels.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Routes":
        applications = {
            model: {int(n): name for n, name in each.items()} for model, each in value["applications"].items()
        }
        return cls(applications, value["labels"])
