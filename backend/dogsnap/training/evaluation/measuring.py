"""Measures a version on photos: of known classes, of other breeds, and without a dog."""

from collections.abc import Mapping
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
    photos = dataset.readable_photos(dataset.photos_below(folder)[1::2], report)
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
    return thresholds.report_unknown(version.levels, probabilities, true, version.labels)
