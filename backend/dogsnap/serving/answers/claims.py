"""What an answer names, and whether that is right by what a user says."""

from collections.abc import Container, Sequence
from typing import Any

from dogsnap.errors import InvalidArgument
from dogsnap.serving.answers.classification import Classification
from dogsnap.serving.answers.levels import Level

BREED = "breed"  # the verdict in the table if a breed was named


def claim_of(result: Classification) -> dict[str, Any]:
    """Level, ids of the breeds that it means, the first named one first, and
    probability; neither for no dog.
    """
    breeds: tuple[str, ...] = (result.breeds[0].id,)
    probability: float | None = result.breeds[0].probability
    if result.level is Level.NO_DOG:
        breeds = ()
        probability = None
    elif result.group and result.level is Level.GROUP:
        group, probability = result.group
        breeds += tuple(member for member in group.members if member not in breeds)
    elif result.held and result.level is Level.SET:
        breeds = result.held
    return {
        "level": result.level.value,
        "breeds": breeds,
        "probability": probability and round(probability, 4),
    }


def check_said(verdict: str, breed: str, text: str, known: Container[str]) -> None:
    """Raises InvalidArgument unless a user said one verdict, or one of the `known`
    breeds.

    `text`: how the user calls a breed that is not known, with the verdict
    "other".
    """
    if bool(verdict) == bool(breed):
        raise InvalidArgument(
            'expected either "breed" or "verdict", received ' + ("both" if verdict else "neither")
        )
    if breed and breed not in known:
        raise InvalidArgument(
            f"breed is {breed!r}; expected the id of a breed that the version knows, or "
            "verdict other, mix or no_dog"
        )
    if text and verdict != "other":
        raise InvalidArgument(
            'expected "text" with verdict other alone: it names a breed that is not known'
        )


def judge(
    level: str, breeds: Sequence[str], verdict: str, breed: str
) -> tuple[bool | None, bool | None]:
    """Whether the first named breed is right (or that there is no dog), and
    whether what the level claims holds.

    The claim holds if the group or set has the breed, or the breed is one that
    an answer "unknown" does not know. None where it cannot be told: of a mix,
    and of the first of several breeds that are "right" together.
    """
    if verdict == "mix":
        return None, None
    if verdict == "right":
        return (None if len(breeds) > 1 else level != Level.UNKNOWN), True
    if verdict == BREED:
        return breed in breeds[:1], breed in breeds and level != Level.UNKNOWN
    no_dog = verdict == level == Level.NO_DOG
    return no_dog, no_dog or (verdict == "other" and level == Level.UNKNOWN)
