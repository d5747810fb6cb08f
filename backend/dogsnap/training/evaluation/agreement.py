"""Compares two versions on the same photos: agreement, accuracy, time, and
whether the second is worse.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dogsnap.errors import DogsnapError
from dogsnap.exporting import Report
from dogsnap.serving.answers.levels import Levels
from dogsnap.training.dataset import Example, class_ids
from dogsnap.training.evaluation.exported_version import ExportedVersion
from dogsnap.training.evaluation.label_sets import classes_shown, mean_average_precision
from dogsnap.training.evaluation.paired_tests import drop_bound, mcnemar

NOTHING = "none"  # in place of names: no label reaches its threshold


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
    """What one version answered to the photos: `places` of its classes among the
    joined labels, float32 (n, own classes). `levels`: what its answers claim.
    """

    places: np.ndarray
    levels: Levels
    rows: list[np.ndarray] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    @property
    def probabilities(self) -> np.ndarray:
        return np.stack(self.rows)

    def claims(self, classes: int) -> np.ndarray:
        """Bool (n, joined classes): the most probable class of each photo, of
        independent ones those that reach their thresholds.
        """
        claimed = np.zeros((len(self.rows), classes), bool)
        if self.levels.thresholds is not None:
            claimed[:, self.places] = self.probabilities >= self.levels.thresholds
        else:
            best = self.places[self.probabilities.argmax(-1)]
            claimed[np.arange(len(best)), best] = True
        return claimed

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
      photos, agreement                       their number, and the share with the same top class or, of independent ones, labels
      mean_difference, largest_difference     of the probabilities of classes that both have, absolute
      labelled, accuracy                      photos of classes that both have, and the share on which each is right; None without
      mean_average_precision                  of each, over the classes of these photos, where classes are independent
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
        given.append(Answers(np.array(list(places)), version.levels))
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
    claims = np.stack([answers.claims(len(labels)) for answers in given])
    is_alike = (claims[0] == claims[1]).all(-1)
    true, is_labelled = classes_shown(examples, len(labels))
    shared = np.intersect1d(first.places, second.places)
    difference = np.abs(first.of(shared) - second.of(shared))
    times = np.array([answers.milliseconds for answers in given])
    return {
        "photos": len(examples),
        "agreement": float(is_alike.mean()),
        "mean_difference": float(difference.mean()) if shared.size else None,
        "largest_difference": float(difference.max()) if shared.size else None,
        **_judge(given, claims, true, is_labelled, shared),
        "classes_of_one": _classes_of_one(given, claims, true, labels),
        "milliseconds": np.median(times, axis=1).tolist(),
        "slowest": np.percentile(times, 95, axis=1).tolist(),
        "differing": _differing(given, claims, examples, true, labels),
    }


def _judge(
    given: Sequence[Answers],
    claims: np.ndarray,
    true: np.ndarray,
    is_labelled: np.ndarray,
    shared: np.ndarray,
) -> dict[str, Any]:
    """Accuracy and its difference, on the photos of classes that both versions
    have: an answer is right that claims what the photo shows, and nothing else.
    """
    others = np.setdiff1d(np.arange(true.shape[-1]), shared)
    labelled = is_labelled & ~true[:, others].any(-1)
    photos = int(labelled.sum())
    if not photos:
        return {"labelled": 0, "accuracy": None}
    right = (claims[:, labelled] == true[labelled]).all(-1)
    only_first = int((right[0] & ~right[1]).sum())
    only_second = int((right[1] & ~right[0]).sum())
    precision = {}
    if any(answers.levels.thresholds is not None for answers in given):
        shown = true[labelled][:, shared]
        means = [mean_average_precision(each.of(shared)[labelled], shown) for each in given]
        precision = {"mean_average_precision": means}
    return {
        "labelled": photos,
        "accuracy": right.mean(-1).tolist(),
        **precision,
        "only_first_right": only_first,
        "only_second_right": only_second,
        "p_value": mcnemar(only_first, only_second),
        "drop": (only_first - only_second) / photos,
        "drop_bound": drop_bound(only_first, only_second, photos),
    }


def _classes_of_one(
    given: Sequence[Answers],
    claims: np.ndarray,
    true: np.ndarray,
    labels: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    found = []
    for version, other in ((0, 1), (1, 0)):
        for place in np.setdiff1d(given[version].places, given[other].places).tolist():
            shown = true[:, place]
            found.append(
                {
                    "id": labels[place]["id"],
                    "name": labels[place]["name"],
                    "version": version,
                    "photos": int(shown.sum()),
                    "right": int((claims[version][:, place] & shown).sum()),
                }
            )
    return found


def _differing(
    given: Sequence[Answers],
    claims: np.ndarray,
    examples: Sequence[Example],
    true: np.ndarray,
    labels: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    def names(classes: np.ndarray) -> str:
        return ", ".join(labels[place]["name"] for place in np.flatnonzero(classes).tolist())

    surest = np.stack([answers.probabilities.max(-1) for answers in given])
    differing = []
    for photo in np.flatnonzero((claims[0] != claims[1]).any(-1)).tolist():
        differing.append(
            {
                "photo": examples[photo].path,
                "names": [names(of_version) or NOTHING for of_version in claims[:, photo]],
                "probabilities": surest[:, photo].tolist(),
                "right": names(true[photo]),
            }
        )
    return sorted(differing, key=lambda pair: -sum(pair["probabilities"]))


def is_same_version(first: Path, second: Path) -> bool:
    """Whether both paths are one folder: then nothing can be worse."""
    return first.resolve() == second.resolve()
