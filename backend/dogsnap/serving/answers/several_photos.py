"""One answer to a photo or several: which of them show the same dog, and what all of
them together say of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from dogsnap.errors import InvalidArgument
from dogsnap.serving.answers.classification import Classification, name_dog
from dogsnap.serving.answers.levels import LEAST_PROBABILITY, Level
from dogsnap.serving.versions.servable import BaseServable

MOST_PHOTOS = 5  # of one dog
Value = TypeVar("Value")
Result = TypeVar("Result")


def map_photos(function: Callable[[Value], Result], photos: Sequence[Value]) -> list[Result]:
    """What a function makes of each photo; an error of wrong input says which of
    several it is about.
    """
    results = []
    for number, photo in enumerate(photos, 1):
        try:
            results.append(function(photo))
        except InvalidArgument as error:
            if len(photos) == 1:
                raise
            raise type(error)(f"photo {number} of {len(photos)}: {error.message}") from error
    return results


@dataclass(frozen=True)
class JoinedAnswer:
    """The answer to one photo or several.

    `answer`: of the dog that all photos with a dog show; where they show
    different ones, that of the first photo with a dog. `photos`: the answer to
    each photo alone.
    """

    answer: Classification
    is_same_dog: bool
    photos: tuple[Classification, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON for clients; docs/protocols.md lists the fields."""
        if len(self.photos) == 1:
            return self.answer.to_json()
        alone = []
        for photo in self.photos:
            fields = photo.to_json()
            del fields["model"]
            alone.append(fields)
        return {**self.answer.to_json(), "same_dog": self.is_same_dog, "photos": alone}


def join_answers(
    servable: BaseServable, photos: Sequence[Classification], top_k: int | None
) -> JoinedAnswer:
    """The answer to photos that a version has answered one by one.

    Photos without a dog say nothing of its breed. The others show the same dog
    where a breed may be right in all of them; then the logarithms of their
    probabilities are averaged. Of independent classes, what one of them shows is
    shown.
    """
    if len(photos) == 1:
        return JoinedAnswer(photos[0], True, tuple(photos))
    shown = [photo for photo in photos if photo.dog]
    first = shown[0] if shown else photos[0]
    if first.level is Level.LABELS:
        probabilities = [photo.probabilities for photo in photos if photo.probabilities is not None]
        most = np.max(probabilities, axis=0)
        return JoinedAnswer(name_dog(servable, most, None, top_k), True, tuple(photos))
    dogs = _same_dogs(shown)
    if not dogs:
        return JoinedAnswer(first, False, tuple(photos))
    answer = name_dog(servable, mean_probabilities(dogs), None, top_k)
    return JoinedAnswer(replace(answer, dogs=(answer,)), True, tuple(photos))


def _same_dogs(photos: Sequence[Classification]) -> list[Classification]:
    """A dog of each photo that may be the same; none where there is no such
    one, or only one photo.
    """
    if len(photos) < 2:
        return []
    for dog in photos[0].dogs:
        same = [dog]
        shared = possible_breeds(dog)
        for photo in photos[1:]:
            alike = [other for other in photo.dogs if shared & possible_breeds(other)]
            if not alike:
                break
            same.append(alike[0])
            shared &= possible_breeds(alike[0])
        else:
            return same
    return []


def possible_breeds(dog: Classification) -> set[str]:
    """The ids of the breeds of which one is right in 95 % of photos; the best
    ones of a version that does not know these.
    """
    return set(dog.held) if dog.held is not None else {breed.id for breed in dog.breeds}


def mean_probabilities(dogs: Sequence[Classification]) -> np.ndarray:
    """What answers to photos of one dog say together: float32 (classes,), their
    geometric mean, which adds up to 1.
    """
    logarithms = []
    for dog in dogs:
        assert dog.probabilities is not None
        logarithms.append(np.log(np.maximum(dog.probabilities, LEAST_PROBABILITY)))
    shares = np.exp(np.mean(logarithms, axis=0))
    return (shares / shares.sum()).astype(np.float32)
