"""Measures what the model card states, and writes its tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
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
# Columns, and where their figures are: in the scores on a list, and in all of a version.
FIGURES = {
    "top-1 / top-5": ("top1", "top5"),
    "calibration error": ("expected_calibration_error",),
    "sure / right there": ("levels.sure.share", "levels.sure.right"),
    "sure of the breed / right": ("levels.breed.share", "levels.breed.right"),
    "sets hold it / size": ("levels.coverage", "levels.mean_set_size"),
    "unknown": ("levels.unknown.share",),
    "taken for a dog": ("dogs.called_dog",),
    "box overlap / over half": ("boxes.mean_overlap", "boxes.over_half"),
}
OTHERS = {
    "dogs of other breeds": ("other_dogs.photos",),
    "told a breed": ("other_dogs.breed",),
    "a wrong one, no near relative": ("other_dogs.surely_wrong",),
    "a group": ("other_dogs.group",),
    "unknown": ("other_dogs.unknown",),
}
SEVERAL = {
    "two dogs or more: told": ("several_dogs.several_told",),
    "one dog: told": ("several_dogs.one_told",),
    "no dog: told": ("several_dogs.none_told",),
    "dogs found": ("several_dogs.recall",),
    "boxes that are dogs": ("several_dogs.precision",),
    "several: whole pictures of the test list": (
        "lists.whole pictures of the test list.several_told",
    ),
    "several: photos from the web": ("lists.photos from the web.several_told",),
}
# The figures that are no shares.
FORMATS = {"levels.mean_set_size": ".2f", "boxes.mean_overlap": ".3f", "other_dogs.photos": "d"}


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


def measure(model: Path, root: Path) -> dict[str, Any]:
    """All that the card states, ready for JSON: by version of `model`, the
    lists below `root`.
    """
    measured = {}
    for number in VERSIONS:
        version = ExportedVersion.load(model / str(number))
        lists = {}
        for name, (folder, listed) in LISTS.items():
            lists[name] = score_list(version, root / folder, listed)
        others = other_dogs(version, root / OTHER_DOGS, click.echo)
        others["surely_wrong"] = surely_wrong(others["taken_for"], others["photos"])
        figures = {
            "weights": version.description["scores"]["weights"],
            "precision": version.servable.runtime.get("precision", "f32"),
            "decision": version.description["decision"],
            "lists": lists,
            NO_DOGS: without_dogs(version, root / NO_DOGS, click.echo),
            OTHER_DOGS: others,
        }
        if "every_dog" in version.description:
            figures[SEVERAL_DOGS] = every_dog(version, root / SEVERAL_DOGS)
        measured[str(number)] = figures
    return measured


def score_list(version: ExportedVersion, folder: Path, listed: str | None) -> dict[str, Any]:
    """The scores on one list; where the boxes of its dogs are known, also how
    well those that are found fit.
    """
    examples = read_known(folder, listed, version.labels, None, click.echo)
    if (folder / BOXES).is_file():
        examples = with_boxes(examples, folder)
    given = answers(version, paths_of(examples))
    scores = score_photos(version, examples, given)
    boxes = [example.box for example in examples]
    if any(boxes):
        scores["boxes"] = box_report(given["box"], boxes)
    return scores


def split(card: str) -> tuple[str, str]:
    """The text of the card before BEGIN and after END. Raises ValueError without these."""
    before, begun, rest = card.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (begun and ended):
        raise ValueError(
            f"the card has no place for the tables: expected the lines {BEGIN} and {END}"
        )
    return before, after


def renew_tables(card: str, measured: Mapping[str, Any]) -> str:
    """The text of the card with the tables of what was measured between BEGIN and END."""
    before, after = split(card)
    return f"{before}{BEGIN}\n\n{as_tables(measured)}\n\n{END}{after}"


def as_tables(measured: Mapping[str, Any]) -> str:
    """The tables in Markdown: photos of known breeds; dogs of other breeds and
    photos without a dog; photos of several dogs.
    """
    known, others, several = [], [], []
    names = {number: f"{number}, {each['precision']}" for number, each in measured.items()}
    for name in LISTS:
        for version, figures in measured.items():
            scores = figures["lists"][name]
            photos = f"{name} ({scores['photos']:,})"
            known.append([photos, names[version], *_cells(scores, FIGURES)])
    for version, figures in measured.items():
        refused = f"no dog ({figures[NO_DOGS]['photos']}): refused"
        columns = {refused: (f"{NO_DOGS}.called_no_dog",), **OTHERS}
        others.append([names[version], *_cells(figures, columns)])
        if SEVERAL_DOGS in figures:
            several.append([names[version], *_cells(figures, SEVERAL)])
    tables = [
        _table(["photos", "version", *FIGURES], known),
        _table(["version", refused, *OTHERS], others),
        _table(["version", *SEVERAL], several),
    ]
    return "\n\n".join(tables)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["-"] * len(heads), *rows))


def _cells(scores: Mapping[str, Any], columns: Mapping[str, Sequence[str]]) -> list[str]:
    cells = []
    for places in columns.values():
        texts = [_format(scores, place) for place in places]
        cells.append(" / ".join(texts) if texts != ["-", "-"] else "-")
    return cells


def _format(scores: Any, place: str) -> str:
    """The figure at a place such as `levels.sure.share`; "-" where there is none."""
    for name in place.split("."):
        scores = scores.get(name) if scores else None
    if scores is None:
        return "-"
    return format(scores, FORMATS[place]) if place in FORMATS else f"{100 * scores:.1f} %"
