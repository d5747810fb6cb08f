"""Compares two versions on the same photos: agreement, accuracy, time, and
whether the second is worse.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dogsnap.errors import DogsnapError
from dogsnap.exporting import Report
from dogsnap.training.dataset import Example, breeds_of, class_ids
from dogsnap.training.evaluation.exported_version import ExportedVersion
from dogsnap.training.evaluation.labelled_photos import UNKNOWN
from dogsnap.training.evaluation.paired_tests import drop_bound, mcnemar


def joined_labels(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The classes of two versions by id: those of the first, then those that
    only the second has.
    """
    known = class_ids(first)
    return [*first, *(label for label in second if label["id"] not in known)]


@dataclass
class Answers:
    """What one version answered to the photos: places of its classes among the
    joined labels, float32 (n, own classes).
    """

    places: np.ndarray
    rows: list[np.ndarray] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    @property
    def probabilities(self) -> np.ndarray:
        return np.stack(self.rows)

    def best(self) -> np.ndarray:
        """The place of the most probable class of each photo."""
        return self.places[self.probabilities.argmax(-1)]

    def of(self, places: np.ndarray) -> np.ndarray:
        """The probabilities of classes that the version has, (n, places)."""
        columns = list(map(self.places.tolist().index, places))
        return self.probabilities[:, columns]


def compare(
    first: ExportedVersion,
    second: ExportedVersion,
    examples: Sequence[Example],
    report: Report = lambda _: None,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run both versions on every photo, alternating, so that a busy machine
    affects both alike; ready for JSON.

    `examples`: their classes are places in `joined_labels`, or UNKNOWN. The result:
      photos, agreement                       their number, and the share with the same top class
      mean_difference, largest_difference     of the probabilities of classes that both have, absolute
      labelled, accuracy                      photos of classes that both have, and the share on which each is right; None without
      only_first_right, only_second_right     how many of these only one is right on, and McNemar's `p_value`
      drop, drop_bound                        how much smaller the second's accuracy is, and at most is with 95 %
      classes_of_one                          for each class that one version lacks: `id`, `name`, `version` that has it (0 or 1),
                                              `photos`, and on how many of these it is `right`
      milliseconds, slowest                   median time of each for one photo, decoding included, and its 95th percentile
      differing                               photos of another top class, the surest first: `names` and `probabilities` by
                                              version, `right` the class of the photo, or ""
    Files that cannot be decoded are reported and left out. Raises ValueError when no photo is left.
    """
    labels = joined_labels(first.labels, second.labels)
    ids = class_ids(labels)
    given = []
    for version in (first, second):
        places = map(ids.index, class_ids(version.labels))
        given.append(Answers(np.array(list(places))))
    kept = []
    for example in examples:
        try:
            contents = example.path.read_bytes()
            timed = [_run(version, contents) for version in (first, second)]
        except (DogsnapError, OSError) as error:
            report(f"{example.path} cannot be decoded and is left out: {error}")
        else:
            kept.append(example)
            for answers, (row, milliseconds) in zip(given, timed, strict=True):
                answers.rows.append(row)
                answers.milliseconds.append(milliseconds)
        progress()
    if not kept:
        raise ValueError(f"none of {len(examples)} files can be decoded")
    return _summarise(given, kept, labels)


def _run(version: ExportedVersion, contents: bytes) -> tuple[np.ndarray, float]:
    """The probabilities (classes,), and the milliseconds that they took."""
    start = time.perf_counter()
    row = version.answer(contents)["prediction"][0]
    return row, 1000 * (time.perf_counter() - start)


def _summarise(
    given: Sequence[Answers], examples: Sequence[Example], labels: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    first, second = given
    best = np.stack([first.best(), second.best()])
    true = breeds_of(examples)
    shared = np.intersect1d(first.places, second.places)
    difference = np.abs(first.of(shared) - second.of(shared))
    times = np.array([answers.milliseconds for answers in given])
    return {
        "photos": len(examples),
        "agreement": float((best[0] == best[1]).mean()),
        "mean_difference": float(difference.mean()) if shared.size else None,
        "largest_difference": float(difference.max()) if shared.size else None,
        **_judge(best, true, shared),
        "classes_of_one": _classes_of_one(given, best, true, labels),
        "milliseconds": np.median(times, axis=1).tolist(),
        "slowest": np.percentile(times, 95, axis=1).tolist(),
        "differing": _differing(given, best, examples, labels),
    }


def _judge(best: np.ndarray, true: np.ndarray, shared: np.ndarray) -> dict[str, Any]:
    """Accuracy and its difference, on the photos of classes that both versions have."""
    labelled = np.isin(true, shared)
    photos = int(labelled.sum())
    if not photos:
        return {"labelled": 0, "accuracy": None}
    right = best[:, labelled] == true[labelled]
    only_first = int((right[0] & ~right[1]).sum())
    only_second = int((right[1] & ~right[0]).sum())
    return {
        "labelled": photos,
        "accuracy": right.mean(-1).tolist(),
        "only_first_right": only_first,
        "only_second_right": only_second,
        "p_value": mcnemar(only_first, only_second),
        "drop": (only_first - only_second) / photos,
        "drop_bound": drop_bound(only_first, only_second, photos),
    }


def _classes_of_one(
    given: Sequence[Answers],
    best: np.ndarray,
    true: np.ndarray,
    labels: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    photos = Counter(true.tolist())
    found = []
    for version, other in ((0, 1), (1, 0)):
        for place in np.setdiff1d(given[version].places, given[other].places).tolist():
            right = int((best[version][true == place] == place).sum())
            found.append(
                {
                    "id": labels[place]["id"],
                    "name": labels[place]["name"],
                    "version": version,
                    "photos": photos[place],
                    "right": right,
                }
            )
    return found


def _differing(
    given: Sequence[Answers],
    best: np.ndarray,
    examples: Sequence[Example],
    labels: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    surest = np.stack([answers.probabilities.max(-1) for answers in given])
    differing = []
    for photo in np.flatnonzero(best[0] != best[1]).tolist():
        true = examples[photo].breed
        differing.append(
            {
                "photo": examples[photo].path,
                "names": [labels[place]["name"] for place in best[:, photo]],
                "probabilities": surest[:, photo].tolist(),
                "right": "" if true == UNKNOWN else labels[true]["name"],
            }
        )
    return sorted(differing, key=lambda pair: -sum(pair["probabilities"]))


def is_same_version(first: Path, second: Path) -> bool:
    """Whether both paths are one folder: then nothing can be worse."""
    return first.resolve() == second.resolve()
