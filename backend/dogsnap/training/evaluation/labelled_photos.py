"""Finds photos and the classes that they show: by folders, a list, an index, or
a table of images and labels.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dogsnap.exporting import Report
from dogsnap.training import dataset
from dogsnap.training.dataset import DatasetError, Example

UNKNOWN = -1  # the class of a photo whose label is none of the version's
SHOWN = 5  # classes that an error names
COLUMNS = ("image", "label")


def find_examples(
    data: Path, list_name: str | None, labels: Sequence[Mapping[str, Any]], report: Report
) -> list[Example]:
    """The photos of `data` with the places of their classes among `labels`;
    UNKNOWN for others, which are reported.

    `data`: a CSV table with the columns image and label, or a folder: the
    photos of <list_name>.txt in it, without a name those of its index.tsv, else
    all below it, in folders named <id>, <id>-<Name> or <name>. Raises
    DatasetError.
    """
    classes = ClassNames(labels)
    examples = []
    unknown: Counter[str] = Counter()
    for path, name in _rows(data, list_name):
        place = classes.find(name)
        examples.append(Example(path, place))
        if place == UNKNOWN:
            unknown[name] += 1
    if unknown:
        named = ", ".join(f"{name} ({count})" for name, count in unknown.most_common(SHOWN))
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        report(f"{unknown.total()} photos show no known class: {named}{more}")
    return examples


def read_known(
    data: Path,
    list_name: str | None,
    labels: Sequence[Mapping[str, Any]],
    limit: int | None,
    report: Report,
) -> list[Example]:
    """At most `limit` readable photos of known classes, with their boxes if
    they are known; see `find_examples`.
    """
    known = require_known(find_examples(data, list_name, labels, report), labels)
    examples = spread(known, limit)
    if (data / dataset.BOXES).is_file():
        examples = dataset.with_boxes(examples, data, data, report)
    return dataset.readable(examples, report)


def require_known(
    examples: Sequence[Example], labels: Sequence[Mapping[str, Any]]
) -> list[Example]:
    """The examples of known classes. Raises DatasetError where there are none."""
    known = [example for example in examples if example.breed != UNKNOWN]
    if not known:
        names = ", ".join(f"{label['id']} or {label['name']}" for label in labels[:SHOWN])
        raise DatasetError(
            f"none of {len(examples)} photos shows a class that the version knows; "
            "expected folders or labels named by id or "
            f"name: {names}, ..."
        )
    return known


def spread(examples: Sequence[Example], limit: int | None) -> list[Example]:
    """At most `limit` of the examples, evenly spread."""
    if limit is None or len(examples) <= limit:
        return list(examples)
    places = np.linspace(0, len(examples) - 1, limit).round().astype(int)
    return [examples[place] for place in places]


class ClassNames:
    """The places of classes by id, by name in either language, and by
    <id>-<Name>, as folders and tables name them.
    """

    def __init__(self, labels: Sequence[Mapping[str, Any]]):
        self._ids = {label["id"]: place for place, label in enumerate(labels)}
        named: dict[str, set[int]] = {}
        for place, label in enumerate(labels):
            for name in (label["name"], label.get("name_zh", "")):
                named.setdefault(_fold(name), set()).add(place)
        self._names: dict[str, int] = {}
        for name, places in named.items():
            if name and len(places) == 1:  # ImageNet has two cranes
                self._names[name] = places.pop()

    def find(self, text: str) -> int:
        """The place of a class, or UNKNOWN."""
        if text in self._ids:
            return self._ids[text]
        by_number = self._ids.get(text.partition("-")[0], UNKNOWN)
        return self._names.get(_fold(text), by_number)


def _fold(name: str) -> str:
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def _rows(data: Path, list_name: str | None) -> list[tuple[Path, str]]:
    """Each photo's file, and what names its class."""
    if data.is_file():
        return _rows_of_table(data)
    if list_name is not None:
        return _rows_of_list(data, data / f"{list_name}.txt")
    if (data / dataset.INDEX).is_file():
        return [(data / row["photo"], row["breed"]) for row in dataset.rows_of_index(data)]
    images = dataset.images_folder(data)
    photos = dataset.photos_below(images if images.is_dir() else data)
    return [(path, path.parent.name) for path in photos]


def _rows_of_table(file: Path) -> list[tuple[Path, str]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if not rows or not set(COLUMNS) <= set(rows[0]):
        found = ", ".join(rows[0]) if rows else "no line"
        raise DatasetError(
            f"{file} has {found}; expected a table with the columns {','.join(COLUMNS)}: "
            "a photo below its folder and a class"
        )
    return [(file.parent / (row["image"] or ""), row["label"] or "") for row in rows]


def _rows_of_list(data: Path, file: Path) -> list[tuple[Path, str]]:
    if not file.is_file():
        raise DatasetError(
            f"{file} does not exist; expected a list of photos, one `<folder>/<file>.jpg` a line"
        )
    lines = file.read_text(encoding="utf-8").splitlines()
    photos = [line.strip() for line in lines if line.strip()]
    images = dataset.images_folder(data)
    return [(images / photo, Path(photo).parent.name) for photo in photos]
