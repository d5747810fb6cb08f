"""Which photos of a data set train, calibrate and judge the shipped network."""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dogsnap.exporting import Report
from dogsnap.exporting.export import NOT_TRAINED, read_json
from dogsnap.training import dataset
from dogsnap.training.dataset import (
    FOLDS,
    DatasetError,
    Example,
    breeds_of,
    class_ids,
    open_photo,
    rows_of_index,
)

from lab.boxes import rows_of_dogs, with_boxes
from lab.scenes import cut_picture, strips_beside

NUMBERED_FOLDER = re.compile(r"(\w*\d\w*)-(.+)")  # of a class: its id and its name
LEAST_STRIP = 0.25  # of a part without a dog, as a fraction of the picture's width or height


def labels_of(folders: list[str], breeds_file: Path | None) -> list[dict[str, Any]]:
    """Labels {"id", "name", "name_zh"} in class order: names as in
    `breeds_file`, else, without `_`, as in the folder's.
    """
    facts = {}
    if breeds_file is not None and breeds_file.is_file():
        for breed in json.loads(breeds_file.read_text(encoding="utf-8")):
            facts[breed["id"]] = breed
    labels = []
    for folder in folders:
        breed_id, name = id_and_name(folder)
        label = {"id": breed_id}
        for key in ("name", "name_zh"):
            label[key] = facts.get(breed_id, {}).get(key, name.replace("_", " "))
        labels.append(label)
    return labels


def id_and_name(folder: str) -> tuple[str, str]:
    """n02085620-Chihuahua -> n02085620, Chihuahua; golden-doodle -> twice itself."""
    match = NUMBERED_FOLDER.fullmatch(folder)
    return (match[1], match[2]) if match else (folder, folder)


def read_list(data: Path, name: str, labels: Sequence[dict[str, Any]]) -> list[Example]:
    """As `dataset.read_list`, with breeds as places in `labels`. Raises DatasetError."""
    places = {breed: place for place, breed in enumerate(class_ids(labels))}
    found = []
    for folder in dataset.breed_folders(data):
        breed, _ = id_and_name(folder)
        if breed not in places:
            known = f"the {len(labels)} breeds of labels.json"
            raise DatasetError(f"class folder {breed} is not among {known}; remove it")
        found.append(places[breed])
    return [replace(each, breed=found[each.breed]) for each in dataset.read_list(data, name)]


def read_parts(
    folder: Path, data: Path, frames: Path | None, report: Report
) -> tuple[list[Example], list[Example]]:
    """The readable photos of a data set that train the network in `folder`, and
    those that validate it, with what is known of their whole pictures, see
    `with_boxes`. Raises DatasetError, ExportError.
    """
    labels = read_json(folder / "labels.json", NOT_TRAINED)
    recipe = read_json(folder / "recipe.json", NOT_TRAINED)
    listed = read_list(data, "train_list", labels)
    parts = dataset.split_validation(listed, recipe["validation_per_breed"], recipe["seed"])
    boxed = [with_boxes(part, frames) for part in parts]
    training, validation = (dataset.readable(part, report) for part in boxed)
    return training, validation


def contents_of(photo: Path | bytes) -> bytes:
    """A photo for TensorFlow: bytes as they are, a file as `dataset.photo_bytes` gives it."""
    return photo if isinstance(photo, bytes) else dataset.photo_bytes(photo)


def every_second(examples: list[Example]) -> list[Example]:
    """Every second photo, and the first of each class that would have none."""
    chosen = examples[::2]
    shown = set(breeds_of(chosen))
    for example in examples:
        if example.breed not in shown:
            chosen.append(example)
            shown.add(example.breed)
    return chosen


def every_second_photo(folder: Path | None, first: int, report: Report) -> list[Path]:
    """Every second photo below `folder` by name, from the `first` (0: for
    training, 1: for evaluation), if it can be read.
    """
    return dataset.readable_photos(dataset.photos_below(folder)[first::2], report) if folder else []


def check_taught(folders: list[str], training: list[Example]) -> None:
    """Raises DatasetError for class folders without training photos."""
    taught = set(breeds_of(training))
    for place, folder in enumerate(folders):
        if place not in taught:
            raise DatasetError(
                f"class folder {folder} has only validation photos in train_list.txt; "
                "list more photos than are kept for validation, or remove the folder"
            )


def sources_of(folder: Path, one_source: Sequence[str] = ()) -> dict[Path, str]:
    """The photos of `index.tsv` below `folder` with the source of each; ""
    where that has no column `source`.

    `one_source`: beginnings of the names of sources that copy one another, and
    count as one. Raises DatasetError.
    """
    rows = rows_of_index(folder, ("photo",))
    return {folder / row["photo"]: join_source(row.get("source") or "", one_source) for row in rows}


def join_source(source: str, one_source: Sequence[str]) -> str:
    """The source as it counts; see `sources_of`."""
    return one_source[0] if source.startswith(tuple(one_source)) else source


def folds(examples: list[Example]) -> np.ndarray:
    """In which of FOLDS parts each photo is, int (n,): all have as many of each
    breed, and a crop is with its whole picture.
    """
    names: dict[int, set[str]] = {}
    for example in examples:
        names.setdefault(example.breed, set()).add(example.path.stem)
    ranks = {breed: sorted(stems) for breed, stems in names.items()}
    parts = [ranks[example.breed].index(example.path.stem) for example in examples]
    return np.array(parts) % FOLDS


def without_dogs(examples: list[Example], frames: Path) -> list[bytes]:
    """Parts of whole pictures beside their dog, as PNG files: the widest of the
    strips left, right, above and below the box.

    It has at least LEAST_STRIP of the picture's side. Pictures of which
    `dogs.tsv` in `frames` counts several dogs are left out; 2 of 100 parts of
    validation pictures still show another dog.
    """
    several = {row["photo"] for row in rows_of_dogs(frames) if row["dogs"] != "1"}
    found = []
    for example in examples:
        has_several = f"{example.path.parent.name}/{example.path.name}" in several
        if not example.is_whole or not example.box or has_several:
            continue
        width, strip = max(strips_beside(example.box))
        if width >= LEAST_STRIP:
            file = io.BytesIO()
            cut_picture(open_photo(example.path), strip).save(file, "PNG")
            found.append(file.getvalue())
    return found
