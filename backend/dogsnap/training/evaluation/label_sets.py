"""Scores of versions whose classes are independent: several labels a photo."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dogsnap.training.dataset import Example
from dogsnap.training.scoring import share


def classes_shown(examples: Sequence[Example], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """What photos show, bool (n, classes), and whether anybody says it, bool (n,)."""
    shown = np.zeros((len(examples), classes), bool)
    is_labelled = np.zeros(len(examples), bool)
    for row, example in enumerate(examples):
        is_labelled[row] = example.shows is not None or example.breed >= 0
        if is_labelled[row]:
            places = {example.breed} if example.shows is None else example.shows
            shown[row, list(places)] = True
    return shown, is_labelled


def average_precision(scores: np.ndarray, shown: np.ndarray) -> float:
    """The mean over photos with a class of the precision among those that score
    as high as it, float (n,) and bool (n,), of which one is true; in (0, 1].
    """
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(shown[order])
    # Equal scores are one step.
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    precision = found[last] / (last + 1)
    return float(np.sum(np.diff(found[last], prepend=0) * precision) / shown.sum())


def mean_average_precision(scores: np.ndarray, shown: np.ndarray) -> float | None:
    """Over the classes that a photo shows, (n, classes) each; None without any."""
    with_photos = np.flatnonzero(shown.any(0))
    if not with_photos.size:
        return None
    return float(
        np.mean([average_precision(scores[:, place], shown[:, place]) for place in with_photos])
    )


def report(
    probabilities: np.ndarray,
    shown: np.ndarray,
    thresholds: np.ndarray,
    labels: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The scores of answers (n, classes) to photos that show `shown` bool (n,
    classes), ready for JSON.
    """
    told = probabilities >= thresholds
    classes = []
    for place, label in enumerate(labels):
        has = shown[:, place]
        says = told[:, place]
        precision = average_precision(probabilities[:, place], has) if has.any() else None
        classes.append(
            {
                "id": label["id"],
                "name": label["name"],
                "photos": int(has.sum()),
                "threshold": float(thresholds[place]),
                "average_precision": precision and round(precision, 4),
                "recall": share(says[has]),
                "precision": share(has[says]),
            }
        )
    mean = mean_average_precision(probabilities, shown)
    return {
        "photos": len(shown),
        "mean_average_precision": mean and round(mean, 4),
        "all_labels_right": share((told == shown).all(-1)),
        "classes": classes,
    }
