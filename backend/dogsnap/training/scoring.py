"""Scores from logits or probabilities: accuracy, calibration, decisions "no
dog" and "not sure", confused breeds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

CALIBRATION_BINS = 15


def calibration_error(probabilities: np.ndarray, breeds: np.ndarray) -> float:
    """Expected calibration error of the top breed over equally wide bins, in
    [0, 1] (Naeini et al., 2015).
    """
    top = probabilities.max(-1)
    right = probabilities.argmax(-1) == breeds
    bins = np.minimum((top * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    error = 0.0
    for index in np.unique(bins):
        inside = bins == index
        error += inside.mean() * abs(right[inside].mean() - top[inside].mean())
    return float(error)


def report(
    probabilities: np.ndarray,
    breeds: np.ndarray,
    labels: Sequence[Mapping[str, Any]],
    confident: float | None,
) -> dict[str, Any]:
    """Every score of breed answers (n, classes) against the true breeds int
    (n,), ready for JSON.

    `confident`: from which probability on an answer is sure; None for a version
    that says that of none.
    """
    ranked = np.argsort(-probabilities, axis=-1)
    right = ranked[:, 0] == breeds
    of_right = probabilities[np.arange(len(breeds)), breeds]
    sure = probabilities.max(-1) >= (np.inf if confident is None else confident)
    confused = Counter(zip(breeds[~right].tolist(), ranked[~right, 0].tolist(), strict=True))
    recall = {}
    for index, label in enumerate(labels):
        if (breeds == index).any():
            recall[label["id"]] = share(right[breeds == index])
    pairs = []
    for (breed, answer), times in confused.most_common(20):
        names = {"is": labels[breed]["name"], "taken_for": labels[answer]["name"]}
        pairs.append({**names, "times": times})
    return {
        "photos": len(breeds),
        "top1": share(right),
        "top5": share((ranked[:, :5] == breeds[:, None]).any(-1)),
        "expected_calibration_error": round(calibration_error(probabilities, breeds), 4),
        "negative_log_likelihood": round(float(-np.log(np.maximum(of_right, 1e-12)).mean()), 4),
        "confident_share": share(sure),
        "confident_precision": share(right[sure]),
        "recall": recall,
        "confused": pairs,
    }


def share(hits: np.ndarray) -> float | None:
    """The share of true ones, to four digits; None of no photos."""
    return round(float(hits.mean()), 4) if len(hits) else None
