"""Names the classes: from probabilities to the best breeds or "no dog", with
the labels stored in the version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from dogsnap.errors import FailedPrecondition, InvalidArgument
from dogsnap.serving.answers.levels import Claim, Group, Level
from dogsnap.serving.tensors.signatures import Arrays, ServableId
from dogsnap.serving.versions.servable import BY_TENSORS, BaseServable

DEFAULT_TOP_K = 5
IMAGES_RANK = 4  # (n, height, width, channels)
WITHOUT_THRESHOLDS = "this version has no thresholds: it is sure of no answer"


@dataclass(frozen=True)
class Breed:
    """A candidate; `probability` in [0, 1]."""

    id: str
    name: str
    name_zh: str
    probability: float


@dataclass(frozen=True)
class Classification:
    """The answer for a photo: `breeds` by descending probability; `dog` and
    `confident` by the model's thresholds.

    `group`: the look-alikes to which the first breed belongs, with the sum of
    their probabilities. `held`: ids of the breeds of which one is right in 95 %
    of photos. Both None where the version has no levels or sees no dog. `box`:
    where the dog is: left, top, right, bottom, as fractions of the upright
    photo; None where the version does not say. `dogs`: the same for each dog,
    from the largest to the smallest, of which the first is this answer; empty
    without a dog. `more_dogs`: whether the photo shows more than these. `note`:
    that the version has no thresholds, or "". `turned`: degrees clockwise by
    which the upright photo was turned for this answer: 0, 90, 180 or 270.
    `probabilities`: of all classes, float32 (classes,). `labels`: of independent
    classes those that the photo shows, perhaps none.
    """

    servable: ServableId
    dog: bool
    confident: bool
    level: Level
    breeds: tuple[Breed, ...]
    group: tuple[Group, float] | None = None
    held: tuple[str, ...] | None = None
    box: tuple[float, ...] | None = None
    dogs: tuple["Classification", ...] = ()
    more_dogs: bool = False
    note: str = ""
    turned: int = 0
    probabilities: np.ndarray | None = field(default=None, repr=False, compare=False)
    labels: tuple[Breed, ...] = ()

    def __str__(self) -> str:
        """What is claimed, and the classes a line each, for people."""
        claim = self.level.value.replace("_", " ")
        if self.level is Level.LABELS:
            claim = ", ".join(label.name for label in self.labels) or "none of the labels"
        lines = [f"{self.servable}: {claim}{', sure' if self.confident else ''}"]
        for breed in self.breeds:
            lines.append(f"  {breed.probability:6.1%}  {breed.name}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """JSON for clients; docs/protocols.md lists the fields."""
        return {
            "model": self.servable._asdict(),
            "dog": self.dog,
            **self._name_fields(),
            "dogs": [dog._name_fields() for dog in self.dogs],
            "more_dogs": self.more_dogs,
            **({"note": self.note} if self.note else {}),
            **({"turned": self.turned} if self.turned else {}),
        }

    def _name_fields(self) -> dict[str, Any]:
        """What is said of one dog."""
        is_of_labels = self.level is Level.LABELS
        return {
            "confident": self.confident,
            "level": self.level,
            "breeds": [asdict(breed) for breed in self.breeds],
            "group": self.group and {**asdict(self.group[0]), "probability": self.group[1]},
            "set": self.held,
            "box": self.box,
            **({"labels": [asdict(label) for label in self.labels]} if is_of_labels else {}),
        }


def check_top_k(servable: BaseServable, top_k: int | None) -> None:
    """Raises FailedPrecondition without labels, InvalidArgument outside 1 to
    all; None is allowed.
    """
    labels = require_labels(servable)
    if top_k is not None and not 1 <= top_k <= len(labels):
        raise InvalidArgument(
            f"top_k is {top_k}; expected 1 to {len(labels)}, the number of classes of {servable.id}"
        )


def require_labels(servable: BaseServable) -> Sequence[Mapping[str, str]]:
    """The labels of a version, in class order.

    Raises FailedPrecondition where it has none.
    """
    labels = servable.description.labels
    if not labels:
        raise FailedPrecondition(
            f"{servable.id} cannot name classes: expected labels in {servable.label_source}, "
            f"found none; {_advise_labels(servable)}"
        )
    return labels


def _advise_labels(servable: BaseServable) -> str:
    """What gives a version labels: what takes photos and names classes needs
    them alone, what takes images is merged with them.
    """
    model, number = servable.id.name, servable.id.version
    signatures = servable.signatures.values()
    inputs = [spec for signature in signatures for spec in signature.inputs.values()]
    outputs = [spec for signature in signatures for spec in signature.outputs.values()]
    names_classes = any(spec.dtype.is_floating and spec.shape.rank == 2 for spec in outputs)
    if names_classes and any(spec.dtype == tf.string for spec in inputs):
        return "write them into that file, as docs/models.md says"
    if names_classes and any(spec.shape.rank == IMAGES_RANK for spec in inputs):
        return (
            f"`dogsnap merge {model}/{number} --labels FILE` makes a version that takes "
            "photos and has them"
        )
    what = "takes no photo" if names_classes else "gives no number for each class"
    return f"it {what}, so {BY_TENSORS.format(model)}"


def name_breeds(
    servable: BaseServable, outputs: Arrays, row: int, top_k: int | None
) -> Classification:
    """Name row `row` of `outputs`: `prediction` (n, classes) probabilities and,
    if the version has it, `dog` (n).

    `top_k`: how many breeds; None for DEFAULT_TOP_K, and with them all of a group
    that the answer claims.

    Without the output `dog` or its threshold the answer is never "no dog";
    without the other threshold it is never sure. Where the outputs tell several
    dogs (`dogs_number` above 1), each is named, and the answer is that of the
    first.
    """
    decision = servable.description.levels.decision
    if "dog" in outputs and not decision.sees_dog(float(outputs["dog"][row])):
        return name_dog(servable, outputs["prediction"][row], None, top_k, dog=False)
    number = int(outputs["dogs_number"][row]) if "dogs_number" in outputs else 1
    if number == 1:
        predictions = [outputs["prediction"][row]]
        boxes = [outputs["box"][row] if "box" in outputs else None]
    else:
        predictions = outputs["dogs_prediction"][row][:number]
        boxes = outputs["dogs_box"][row][:number]
    dogs = []
    for probabilities, box in zip(predictions, boxes, strict=True):
        dogs.append(name_dog(servable, probabilities, box, top_k))
    more = number > 1 and bool(outputs["dogs_more"][row])
    return replace(dogs[0], dogs=tuple(dogs), more_dogs=more)


def name_dog(
    servable: BaseServable,
    probabilities: np.ndarray,
    box: np.ndarray | None,
    top_k: int | None,
    dog: bool = True,
) -> Classification:
    """Name a dog by its probabilities (classes,) and its box (4,), if that is known."""
    labels, levels = require_labels(servable), servable.description.levels

    def breed(index: int) -> Breed:
        label = labels[index]
        name_zh = label.get("name_zh", "")
        return Breed(label["id"], label["name"], name_zh, float(probabilities[index]))

    order = np.argsort(-probabilities, kind="stable")
    claim = levels.claim(probabilities) if dog else Claim(Level.NO_DOG)
    best = list(order[: top_k or DEFAULT_TOP_K])
    if top_k is None and claim.group and claim.level is Level.GROUP:
        members = claim.group.members
        best += [index for index in order[DEFAULT_TOP_K:] if labels[index]["id"] in members]
    is_unsure = levels.decision.confident is None and levels.thresholds is None
    return Classification(
        servable=servable.id,
        dog=dog,
        confident=claim.level is Level.BREED or bool(claim.shown),
        level=claim.level,
        breeds=tuple(map(breed, best)),
        group=(claim.group, claim.group_probability) if claim.group else None,
        held=None if claim.held is None else tuple(labels[index]["id"] for index in claim.held),
        box=None if box is None else tuple(map(float, box)),
        note=WITHOUT_THRESHOLDS if is_unsure else "",
        probabilities=probabilities,
        labels=tuple(map(breed, claim.shown)),
    )
