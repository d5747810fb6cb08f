"""Measures a version on photos: of known classes, of other breeds, and without a dog."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dogsnap.exporting import Report
from dogsnap.training import dataset, scoring, thresholds
from dogsnap.training.dataset import Example, breeds_of, paths_of
from dogsnap.training.evaluation import confusion, label_sets
from dogsnap.training.evaluation.exported_version import ExportedVersion, answers
from dogsnap.training.thresholds import Found, find_threshold

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


def score_photos(
    version: ExportedVersion, examples: list[Example], given: Mapping[str, np.ndarray] | None = None
) -> dict[str, Any]:
    """The scores on photos of known breeds, ready for JSON. `given`: the
    answers to them, if the version gave them before.
    """
    breeds = breeds_of(examples)
    given = given or answers(version, paths_of(examples))
    levels = version.levels
    probabilities = given["prediction"]
    scores = scoring.report(probabilities, breeds, version.labels, levels.decision.confident)
    is_dog = np.ones(len(breeds), bool)
    if version.finds_dogs():
        is_dog = levels.decision.sees_dog(given["dog"])
        scores["dogs"] = {"photos": len(is_dog), "called_dog": scoring.share(is_dog)}
    if levels.decision.group is not None:
        scores["levels"] = thresholds.report(levels, probabilities, breeds, is_dog)
    if "dogs_number" in given:
        scores["several_told"] = scoring.share(given["dogs_number"] > 1)
    boxes = [example.box for example in examples]
    if "box" in given and any(boxes):
        scores["boxes"] = scoring.box_report(given["box"], boxes)
    return scores


def evaluate(
    version: ExportedVersion, examples: list[Example], precision: float | None = None
) -> tuple[dict[str, Any], np.ndarray, Found | None]:
    """The scores on photos of known classes, ready for JSON, the confusion (see
    `confusion.confusion_matrix`), and with a `precision` the threshold for it.
    """
    given = answers(version, paths_of(examples))
    scores = score_photos(version, examples, given)
    answered = given["prediction"].argmax(-1)
    matrix = confusion.confusion_matrix(answered, breeds_of(examples), len(version.labels))
    scores["classes"] = confusion.class_scores(matrix, version.labels)
    scores["milliseconds"] = round(1000 * float(np.median(given["seconds"])), 2)
    found = None
    if precision is not None:
        found = find_threshold(given["prediction"], breeds_of(examples), precision)
        scores["threshold"] = asdict(found)
    return scores, matrix, found


def evaluate_labels(version: ExportedVersion, examples: list[Example]) -> dict[str, Any]:
    """The scores of a version of independent classes, ready for JSON."""
    thresholds = version.levels.thresholds
    assert thresholds is not None
    given = answers(version, paths_of(examples))
    shown, _ = label_sets.classes_shown(examples, len(version.labels))
    scores = label_sets.report(given["prediction"], shown, thresholds, version.labels)
    return {**scores, "milliseconds": round(1000 * float(np.median(given["seconds"])), 2)}


def without_dogs(version: ExportedVersion, folder: Path, report: Report) -> dict[str, Any]:
    """The scores on the half of the photos in `folder` that taught the dog head nothing."""
    photos = dataset.every_second_photo(folder, 1, report)
    is_dog = version.levels.decision.sees_dog(answers(version, photos)["dog"])
    called_none = scoring.share(~is_dog)
    return {"photos": len(photos), "called_no_dog": called_none}


def other_dogs(version: ExportedVersion, folder: Path, report: Report) -> dict[str, Any]:
    """What is told of dogs of breeds that the version does not know: shares of
    the levels, and what they are surely taken for.

    A photo lies in a folder named like its breed; those of the version's labels
    are left out. Raises ValueError for a version without levels.
    """
    if version.levels.decision.group is None:
        raise ValueError(
            f"--other-dogs: {version.path} has no levels that could tell a breed unknown"
        )
    known = dataset.class_ids(version.labels)
    unknown = [photo for photo in dataset.photos_below(folder) if photo.parent.name not in known]
    photos = dataset.readable_photos(unknown, report)
    probabilities = answers(version, photos)["prediction"]
    true = [photo.parent.name for photo in photos]
    scores = thresholds.report_unknown(version.levels, probabilities, true, version.labels)
    return {**scores, "surely_wrong": surely_wrong(scores["taken_for"], true)}


def has_relatives(breed: str) -> bool:
    """Whether a breed outside the classes, by its folder's name, is near one of them."""
    return any(part in breed for part in RELATIVES)


def surely_wrong(taken_for: Sequence[Mapping[str, Any]], true: Sequence[str]) -> float:
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
    return round(wrong / len(true), 4)
