"""Names the classes: from probabilities to the best breeds or "no dog", with the labels stored in the version."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from backend.errors import FailedPrecondition, InvalidArgument
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions.servable import BaseServable

DEFAULT_TOP_K = 5


@dataclass(frozen=True)
class Breed:
    """A candidate; `probability` in [0, 1]."""

    id: str
    name: str
    name_zh: str
    probability: float


@dataclass(frozen=True)
class Classification:
    """The answer for a photo: `breeds` by descending probability; `dog` and `confident` by the model's thresholds."""

    servable: ServableId
    dog: bool
    confident: bool
    breeds: tuple[Breed, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON for clients: {"model": {"name", "version"}, "dog", "confident", "breeds": [{"id", "name", ...}]}."""
        return {
            "model": asdict(self.servable),
            "dog": self.dog,
            "confident": self.confident,
            "breeds": [asdict(breed) for breed in self.breeds],
        }


def checked_top_k(servable: BaseServable, top_k: int | None) -> int:
    """The number of breeds to name: `top_k`, or DEFAULT_TOP_K, at most all of the version.

    Raises FailedPrecondition if the version has no labels, InvalidArgument if it has fewer than `top_k`.
    """
    labels = servable.description.labels
    if not labels:
        raise FailedPrecondition(
            f"{servable.id} cannot name breeds: expected labels in {servable.label_source}, found none; "
            f"call it by its tensors under /v1/models/{servable.id.name}"
        )
    if top_k is None:
        return min(DEFAULT_TOP_K, len(labels))
    if not 1 <= top_k <= len(labels):
        raise InvalidArgument(
            f"top_k is {top_k}; expected 1 to {len(labels)}, the number of breeds {servable.id} knows"
        )
    return top_k


def name_breeds(servable: BaseServable, outputs: Mapping[str, np.ndarray], row: int, top_k: int) -> Classification:
    """Name row `row` of `outputs`: `prediction` (n, classes) probabilities and, if the version has it, `dog` (n).

    A version without the output `dog` never answers "no dog".
    """
    labels, decision = servable.description.labels, servable.description.decision
    probabilities = outputs["prediction"][row]
    best = np.argsort(-probabilities, kind="stable")[:top_k]
    dog = float(outputs["dog"][row]) >= decision["dog_threshold"] if "dog" in outputs else True
    return Classification(
        servable=servable.id,
        dog=dog,
        confident=float(probabilities[best[0]]) >= decision["confident_threshold"],
        breeds=tuple(_breed(labels[index], probabilities[index]) for index in best),
    )


def _breed(label: Mapping[str, str], probability: np.floating) -> Breed:
    return Breed(label["id"], label["name"], label.get("name_zh", ""), float(probability))
