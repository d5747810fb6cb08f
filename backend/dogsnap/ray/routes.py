"""The routing table: which application answers for a model, version or label."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dogsnap.errors import NotFound
from dogsnap.routing.choices import Choices
from dogsnap.routing.resolver import resolve
from dogsnap.routing.spec import ModelSpec


@dataclass(frozen=True)
class Routes:
    """Applications by model and version, and versions by model and label, including versions that are not deployed yet."""

    applications: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def application(self, spec: ModelSpec) -> str:
        """The application of the version that `spec` means; by default the largest.

        Raises NotFound, InvalidArgument, and Unavailable for a label that waits for its version.
        """
        numbers = self.applications.get(spec.name)
        if not numbers:
            served = ", ".join(sorted(self.applications)) or "none"
            raise NotFound(
                f"Servable not found for request: Latest({spec.name}); models served here: {served}"
            )
        number = self._number(spec)
        number = max(numbers) if number is None else number
        if number not in numbers:
            available = ", ".join(map(str, sorted(numbers, reverse=True)))
            asked = f"Servable not found for request: Specific({spec.name}, {number})"
            raise NotFound(f"{asked}; available versions: {available}")
        return numbers[number]

    def asked_for_status(self, spec: ModelSpec) -> dict[int, str]:
        """The versions of a status request, largest first, with their applications. Raises as `application` does."""
        numbers = self.applications.get(spec.name)
        if not numbers:
            raise NotFound(f"Could not find any versions of model {spec.name}")
        number = self._number(spec)
        if number is not None and number not in numbers:
            raise NotFound(f"Could not find version {number} of model {spec.name}")
        chosen = sorted(numbers, reverse=True) if number is None else [number]
        return {each: numbers[each] for each in chosen}

    def _number(self, spec: ModelSpec) -> int | None:
        labels = {("label", label): n for label, n in self.labels.get(spec.name, {}).items()}
        return resolve(Choices(labels), spec, self.applications[spec.name].__contains__)

    def all_applications(self) -> list[str]:
        return [name for versions in self.applications.values() for name in versions.values()]

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
