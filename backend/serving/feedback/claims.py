"""What a version claims about a photo, and whether the claim is right according to a user's feedback."""

from dataclasses import dataclass

from backend.serving.versions.labels import Classification
from backend.serving.versions.levels import Level

# Signed request ids contain the index in this tuple: append new levels at its end.
LEVELS = tuple(level.value for level in Level)
# What a user can answer instead of naming a breed.
VERDICTS = ("right", "wrong", "mix", "other", "no_dog")
BREED = "breed"  # the verdict in the table if a breed was named
# True classes other than a breed.
OTHER, NO_DOG = "(a breed that is not here)", "(no dog)"


@dataclass(frozen=True)
class Claim:
    """What `version` said: one of LEVELS, the ids of the breeds it means (one, but for groups and sets), and how sure it
    was, in [0, 1]; None for "no dog".
    """

    version: int
    level: str
    breeds: tuple[str, ...]
    probability: float | None

    def truths(self) -> frozenset[str]:
        """The truths for which the claim is right. "Not sure" counts by its first guess."""
        return {"unknown": frozenset({OTHER}), "no_dog": frozenset({NO_DOG})}.get(self.level, frozenset(self.breeds))


def claim_of(result: Classification) -> Claim:
    version, level, best = result.servable.version, result.level, result.breeds[0]
    if level is Level.NO_DOG:
        return Claim(version, level.value, (), None)
    if result.group and level is Level.GROUP:
        group, probability = result.group
        return Claim(version, level.value, group.members, probability)
    breeds = result.held if result.held and level is Level.SET else (best.id,)
    return Claim(version, level.value, breeds, best.probability)


def is_right(claim: Claim, shown: Claim, verdict: str, breed: str) -> bool | None:
    """Whether `claim` is right if a user who was shown the claim `shown` answers `verdict`, or BREED and the id of one.

    None if that cannot be judged: a mix has no right answer, and feedback on one claim does not always decide another.
    """
    claimed = claim.truths()
    if verdict == "mix":
        return None
    if verdict == "wrong":
        return False if claimed <= shown.truths() else None
    said = {"right": shown.truths(), "other": {OTHER}, "no_dog": {NO_DOG}}.get(verdict, {breed})
    if said <= claimed:
        return True
    return None if said & claimed else False
