"""Finds the number of the version that a request means, from what was chosen
and what is available.
"""

from collections.abc import Callable

from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.routing.choices import Choices
from dogsnap.routing.spec import ModelSpec

IsAvailable = Callable[[int], bool]


def resolve(choices: Choices, spec: ModelSpec, is_available: IsAvailable) -> int | None:
    """The version that answers `spec`, by its number, label, default or split.

    None: the default, and none is chosen. Raises InvalidArgument for an unknown
    label, and Unavailable for one that waits for its version.
    """
    if spec.version is not None:
        return spec.version
    if spec.label is not None:
        number: int | None = version_of_label(choices, spec.name, spec.label, is_available)
    elif (number := answering_version(choices, "", is_available)) is None:
        number = choices.default
    split = choices.splits.get(spec.label or "")
    if split and is_available(split.version) and split.takes(spec.name, spec.sticky_key):
        return split.version
    return number


def version_of_label(choices: Choices, model: str, label: str, is_available: IsAvailable) -> int:
    """The version of a label, or the one before while its own is not available.

    Raises InvalidArgument for an unknown label, Unavailable for one that waits.
    """
    if label not in choices.labels:
        known = ", ".join(choices.labels) or "none"
        raise InvalidArgument(
            f"Unrecognized servable version label: {label}; labels of {model}: {known}"
        )
    number = answering_version(choices, label, is_available)
    if number is None:
        raise Unavailable(
            f"label {label} of {model} waits for version {choices.labels[label]}, which is not "
            "available yet; try again"
        )
    return number


def answering_version(choices: Choices, label: str, is_available: IsAvailable) -> int | None:
    """The version of a label, or with "" the default; the one before while its
    own is not available.
    """
    for number in (choices.of(label), choices.until.get(label)):
        if number is not None and is_available(number):
            return number
    return None


def labels_in_force(
    choices: Choices, is_available: IsAvailable
) -> tuple[dict[str, int], dict[str, int]]:
    """The version that answers for each label, and those that labels wait for."""
    labels, pending = {}, {}
    for label, number in choices.labels.items():
        answering = answering_version(choices, label, is_available)
        if answering is not None:
            labels[label] = answering
        if answering != number:
            pending[label] = number
    return labels, pending


def uses_of(
    choices: Choices, number: int, default: int | None, is_available: IsAvailable
) -> list[str]:
    """What sends requests to a version, now or when it is available."""
    uses = []
    if default == number:
        uses.append("default")
    elif choices.default == number:
        uses.append("default (waits)")
    labels, pending = labels_in_force(choices, is_available)
    uses += [label for label, version in labels.items() if version == number]
    uses += [f"{label} (waits)" for label, version in pending.items() if version == number]
    for label, split in choices.splits.items():
        if split.version == number:
            uses.append(f"{100 * split.share:g} % of {label or 'default'}")
    for label, rollout in choices.rollouts.items():
        if rollout.version == number and label not in choices.splits:
            uses.append(f"rollout of {label or 'default'}")
    if choices.shadow == number:
        uses.append("shadow")
    return uses
