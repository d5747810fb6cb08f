"""Measures what the model card states, and writes its tables."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from dogsnap.exporting import Report
from dogsnap.training.dataset import paths_of
from dogsnap.training.evaluation.exported_version import ExportedVersion, answers
from dogsnap.training.evaluation.labelled_photos import read_known
from dogsnap.training.evaluation.measuring import other_dogs, score_photos, without_dogs

from lab.boxes import BOXES, box_report, with_boxes
from lab.dogs_training import read_judged, shares
from lab.relatives import surely_wrong

BEGIN, END = "<!-- measured: `make card` writes this -->", "<!-- end -->"
VERSIONS = (2, 3)
# The lists of the card: their names there, the folder below the root, and the list in
# it; without one, the index or all photos.
LISTS = {
    "whole pictures of the test list": ("stanford_dogs_frames", "test_list"),
    "photos from the web": ("web_dogs", None),
    "crops of the test list": ("stanford_dogs", "test_list"),
    "full-frame photos, one of each breed": ("full_frame_dogs", None),
}
NO_DOGS, OTHER_DOGS, SEVERAL_DOGS = "not_dogs", "other_dogs", "several_dogs"
FIGURES = (
    "top-1 / top-5", "calibration error", "sure / right there", "sure of the breed / right",
    "sets hold it / size", "unknown", "taken for a dog", "box overlap / over half",
)  # fmt: skip
# Columns on dogs of other breeds and on several dogs, and what `other_dogs` and `shares` call them.
OTHERS = {
    "told a breed": "breed",
    "a wrong one, no near relative": "surely_wrong",
    "a group": "group",
    "unknown": "unknown",
}
SEVERAL = {
    "two dogs or more: told": "several_told",
    "one dog: told": "one_told",
    "no dog: told": "none_told",
    "dogs found": "recall",
    "boxes that are dogs": "precision",
}


def every_dog(version: ExportedVersion, folder: Path) -> dict[str, Any]:
    """How well the boxes that are told are those of the dogs in the photos of
    `folder`; see `shares`.
    """
    judged = read_judged(folder)
    said = answers(version, [each.path for each in judged])
    is_dog = version.levels.decision.sees_dog(said["dog"])
    numbers = np.where(is_dog, said["dogs_number"], 0)
    found = [boxes[:number] for boxes, number in zip(said["dogs_box"], numbers, strict=True)]
    return shares(judged, found)


def measure(model: Path, root: Path, report: Report) -> dict[str, Any]:
    """All that the card states, ready for JSON: by version of `model`, the
    lists below `root`.
    """
    measured = {}
    for number in VERSIONS:
        version = ExportedVersion.load(model / str(number))
        lists = {}
        for name, (folder, listed) in LISTS.items():
            lists[name] = score_list(version, root / folder, listed, report)
        others = other_dogs(version, root / OTHER_DOGS, report)
        others["surely_wrong"] = surely_wrong(others["taken_for"], others["photos"])
        figures = {
            "weights": version.description["scores"]["weights"],
            "precision": version.servable.runtime.get("precision", "f32"),
            "decision": version.description["decision"],
            "lists": lists,
            NO_DOGS: without_dogs(version, root / NO_DOGS, report),
            OTHER_DOGS: others,
        }
        if "every_dog" in version.description:
            figures[SEVERAL_DOGS] = every_dog(version, root / SEVERAL_DOGS)
        measured[str(number)] = figures
    return measured


def score_list(
    version: ExportedVersion, folder: Path, listed: str | None, report: Report
) -> dict[str, Any]:
    """The scores on one list; where the boxes of its dogs are known, also how
    well those that are found fit.
    """
    examples = read_known(folder, listed, version.labels, None, report)
    if (folder / BOXES).is_file():
        examples = with_boxes(examples, folder, folder, report)
    given = answers(version, paths_of(examples))
    scores = score_photos(version, examples, given)
    boxes = [example.box for example in examples]
    if any(boxes):
        scores["boxes"] = box_report(given["box"], boxes)
    return scores


def split(card: str) -> tuple[str, str, str]:
    """The text of the card before, between and after BEGIN and END. Raises
    ValueError without these.
    """
    before, begun, rest = card.partition(BEGIN)
    tables, ended, after = rest.partition(END)
    if not (begun and ended):
        raise ValueError(
            f"the card has no place for the tables: expected the lines {BEGIN} and {END}"
        )
    return before, tables, after


def renew_tables(card: str, measured: Mapping[str, Any]) -> str:
    """The text of the card with the tables of what was measured."""
    before, _, after = split(card)
    return f"{before}{BEGIN}\n\n{as_tables(measured)}\n\n{END}{after}"


def as_tables(measured: Mapping[str, Any]) -> str:
    """The tables in Markdown: photos of known breeds; dogs of other breeds and
    photos without a dog; photos of several dogs.
    """
    known, others, several = [], [], []
    for name in LISTS:
        for number, of_version in measured.items():
            scores = of_version["lists"][name]
            photos = f"{name} ({scores['photos']:,})"
            known.append([photos, _version_name(number, of_version), *_figures(scores)])
    first_two = list(LISTS)[:2]
    for number, of_version in measured.items():
        version = _version_name(number, of_version)
        no_dogs, of_others = of_version[NO_DOGS], of_version[OTHER_DOGS]
        row = [version, _percent(no_dogs["called_no_dog"]), str(of_others["photos"])]
        others.append(row + _percents(of_others, OTHERS.values()))
        if SEVERAL_DOGS in of_version:
            row = [version, *_percents(of_version[SEVERAL_DOGS], SEVERAL.values())]
            for name in first_two:
                row.append(_percent(of_version["lists"][name]["several_told"]))
            several.append(row)
    refused = f"no dog ({no_dogs['photos']}): refused"
    tables = [
        _table(["photos", "version", *FIGURES], known),
        _table(["version", refused, "dogs of other breeds", *OTHERS], others),
    ]
    if several:
        told = [f"several: {name}" for name in first_two]
        tables.append(_table(["version", *SEVERAL, *told], several))
    return "\n\n".join(tables)


def _version_name(number: str, of_version: Mapping[str, Any]) -> str:
    return f"{number}, {of_version['precision']}"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["-"] * len(heads), *rows))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _percents(scores: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [_percent(scores[name]) for name in names]


def _figures(scores: Mapping[str, Any]) -> list[str]:
    """The columns FIGURES of the scores on one list."""
    levels, boxes = scores["levels"], scores.get("boxes")
    return [
        " / ".join(_percents(scores, ("top1", "top5"))),
        _percent(scores["expected_calibration_error"]),
        " / ".join(_percents(levels["sure"], ("share", "right"))),
        " / ".join(_percents(levels["breed"], ("share", "right"))),
        f"{_percent(levels['coverage'])} / {levels['mean_set_size']:.2f}",
        _percent(levels["unknown"]["share"]),
        _percent(scores["dogs"]["called_dog"]),
        f"{boxes['mean_overlap']:.3f} / {_percent(boxes['over_half'])}" if boxes else "-",
    ]
