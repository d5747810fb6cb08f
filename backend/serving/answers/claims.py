"""What an answer names, and whether that is right by what a user says."""

from collections.abc import Sequence

from backend.serving.answers.labels import Classification
from backend.serving.answers.levels import Level

# What a user can answer instead of naming a breed.
VERDICTS = ("right", "wrong", "mix", "other", "no_dog")
BREED = "breed"  # the verdict in the table if a breed was named


def named_by(result: Classification) -> tuple[tuple[str, ...], float | None]:
    """The ids of the breeds that an answer means, the first named one first (none for "no dog"), and its probability."""
    best = result.breeds[0]
    if result.level is Level.NO_DOG:
        return (), None
    if result.group and result.level is Level.GROUP:
        group, probability = result.group
        return (best.id, *(each for each in group.members if each != best.id)), probability
    return (result.held if result.held and result.level is Level.SET else (best.id,)), best.probability


def judge(level: str, breeds: Sequence[str], verdict: str, breed: str) -> tuple[bool | None, bool | None]:
    """Whether the first named breed is right (or that there is no dog), and whether what the level claims holds.

    The claim holds if the group or set has the breed, or the breed is one that an answer "unknown" does not know. None where
    it cannot be told: of a mix, and of the first of several breeds that are "right" together.
    """
    if verdict == "mix":
        return None, None
    if verdict == "right":
        return (None if len(breeds) > 1 else level != Level.UNKNOWN), True
    if verdict == BREED:
        return breed in breeds[:1], breed in breeds and level != Level.UNKNOWN
    no_dog = verdict == level == Level.NO_DOG
    return no_dog, no_dog or (verdict == "other" and level == Level.UNKNOWN)
