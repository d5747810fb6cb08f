"""Breeds outside the classes that are near one of them."""

from collections.abc import Mapping, Sequence
from typing import Any

# Breeds outside the classes, by a part of their folder's name, and the breeds that
# share their name or are said to be the same.
RELATIVES = {
    "belgian_shepherd": ("Malinois", "Groenendael"),
    "brussels_griffon": ("Petit Brabançon",),
    "english_cocker_spaniel": ("cocker spaniel",),
    "english_mastiff": ("bullmastiff",),
    "english_pointer": ("German shorthaired pointer",),
    "fox_terrier": ("wire fox terrier",),
    "german_pinscher": ("Doberman pinscher",),
    "german_spitz": ("Pomeranian",),
    "greyhound": ("whippet",),
    "pit_bull": ("American Staffordshire terrier",),
}


def has_relatives(breed: str) -> bool:
    """Whether a breed outside the classes, by its folder's name, is near one of them."""
    return any(part in breed for part in RELATIVES)


def surely_wrong(taken_for: Sequence[Mapping[str, Any]], dogs: int) -> float:
    """The share of dogs that are surely told another breed, without RELATIVES
    and what they are taken for rightly.
    """

    wrong = 0
    for pair in taken_for:
        relatives: list[str] = []
        for part, names in RELATIVES.items():
            if part in pair["is"]:
                relatives += names
        if pair["level"] == "breed" and pair["taken_for"] not in relatives:
            wrong += pair["times"]
    return round(wrong / dogs, 4)
