"""Finds photos and the classes that they show: by folders, a list, an index, or
a table of images and labels.
"""

import csv
import io
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dogsnap.exporting import Report
from dogsnap.files import read_text
from dogsnap.training import dataset
from dogsnap.training.dataset import DatasetError, Example, with_slashes

UNKNOWN = -1  # the class of a photo whose label is none of the version's
SHOWN = 5  # classes that an error names
COLUMNS = ("image", "label")
BETWEEN = "|"  # labels of one photo: cat|dog
MARKS = ("1", "1.0", "true", "True")  # in the column of a class: the photo shows it


def find_examples(
    data: Path,
    list_name: str | None,
    labels: Sequence[Mapping[str, Any]],
    report: Report,
    independent: bool = False,
) -> list[Example]:
    """The photos of `data` with the places of their classes among `labels`;
    UNKNOWN for others, which are reported.

    `independent`: a photo may have several labels, as cat|dog or in several columns
    label..., or a column for each class with 1 where a photo shows it, or none.
    `data`: a CSV table with the columns image and label, or a folder: the
    photos of <list_name>.txt in it, without a name those of its index.tsv, else
    all below it, in folders named <id>, <id>-<Name> or <name>, or in folders
    within these. Raises DatasetError.
    """
    classes = ClassNames(labels)
    examples = []
    unknown: Counter[str] = Counter()
    for path, name in _rows(data, list_name, classes, report):
        names = [each.strip() for each in name.split(BETWEEN)] if independent else [name]
        places = {each: classes.find(each) for each in names if each or not independent}
        strangers = [each for each, place in places.items() if place == UNKNOWN]
        unknown.update(strangers)
        known = frozenset(places.values()) - {UNKNOWN}
        is_said = independent and (known or not strangers)
        examples.append(
            Example(path, min(known, default=UNKNOWN), shows=known if is_said else None)
        )
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
    independent: bool = False,
) -> list[Example]:
    """At most `limit` readable photos of known classes; see `find_examples`."""
    found = find_examples(data, list_name, labels, report, independent)
    known = require_known(found, labels)
    return dataset.readable(spread(known, limit), report)


def require_known(
    examples: Sequence[Example], labels: Sequence[Mapping[str, Any]]
) -> list[Example]:
    """The examples of known classes. Raises DatasetError where there are none."""
    known = [each for each in examples if each.breed != UNKNOWN or each.shows is not None]
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
        text = text.strip()
        if text in self._ids:
            return self._ids[text]
        by_number = self._ids.get(text.partition("-")[0], UNKNOWN)
        return self._names.get(_fold(text), by_number)


def _fold(name: str) -> str:
    # macOS writes the names of folders with their accents apart.
    name = unicodedata.normalize("NFC", name)
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def _rows(
    data: Path, list_name: str | None, classes: ClassNames, report: Report
) -> list[tuple[Path, str]]:
    """Each photo's file, and what names its class; other files go to `report`."""
    if data.is_file():
        return _rows_of_table(data)
    if list_name is None and (data / dataset.INDEX).is_file():
        return [(data / row["photo"], row["breed"]) for row in dataset.rows_of_index(data)]
    if list_name is not None:
        return [(path, path.parent.name) for path in dataset.listed_photos(data, list_name)]
    images = dataset.images_folder(data)
    folder = images if images.is_dir() else data
    named = []
    for path in dataset.photos_below(folder, report):
        above = reversed(path.relative_to(folder).parts[:-1])
        known = (name for name in above if classes.find(name) != UNKNOWN)
        named.append((path, next(known, path.parent.name)))
    return named


def _rows_of_table(file: Path) -> list[tuple[Path, str]]:
    text = read_text(file)
    head = text.partition("\n")[0]
    separator = next((sign for sign in (",", ";", "\t") if sign in head), ",")
    lines = io.StringIO(text, newline="")
    reader = csv.DictReader(lines, restkey="", delimiter=separator, skipinitialspace=True)
    columns = reader.fieldnames = [column.strip() for column in reader.fieldnames or ()]
    rows = list(reader)
    labels = [column for column in columns if column.startswith("label")]
    # Where a table has labels, 1 is a number in a column of something else.
    classes = [] if labels else [column for column in columns if column != "image"]
    is_marked = any(row[column] in MARKS for row in rows for column in classes)
    if not rows or "image" not in columns or not (labels or is_marked):
        found = ", ".join(columns) if rows else "no line"
        raise DatasetError(
            f"{file} has {found}; expected a table with the columns {','.join(COLUMNS)}: "
            "a photo below its folder and a class"
        )
    named = []
    for row in rows:
        of_classes = [column for column in classes if row[column] in MARKS]
        names = [row[column] for column in labels if row[column]] or of_classes
        photo = file.parent / with_slashes((row["image"] or "").strip())
        named.append((photo, BETWEEN.join(names)))
    return named
