"""What a version claims of a photo, and whether it is right by what a person says.

It does not know where either is kept.
"""

from dataclasses import dataclass

from backend.serving.versions.labels import Classification
from backend.serving.versions.levels import Level

# Signed request ids carry the place in this list: a new level goes to its end.
LEVELS = tuple(level.value for level in Level)
# What a person can say instead of naming a breed.
VERDICTS = ("right", "wrong", "mix", "other", "no_dog")
BREED = "breed"  # the verdict that stands in the table beside the breed that was named
# Truths that are no breed.
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
    """Whether `claim` is right when a person who was shown `shown` says `verdict`, or BREED and the id of one.

    None where that cannot be told: of a mix no answer is right, and of another version's claim not everything follows.
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
