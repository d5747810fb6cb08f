"""Which photos of a data set train, calibrate and judge the shipped network."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from dogsnap.exporting import Report
from dogsnap.exporting.export import NOT_TRAINED, read_json
from dogsnap.training import dataset
from dogsnap.training.dataset import (
    FOLDS,
    Example,
    fold_of,
    open_photo,
    rows_of_index,
)
from dogsnap.training.teaching import NewBreed, breeds_in

from lab.boxes import with_boxes
from lab.scenes import cut_picture, strips_beside

LEAST_STRIP = 0.25  # of a part without a dog, as a fraction of the picture's width or height


def labels_of(folders: list[str], breeds_file: Path | None) -> list[dict[str, Any]]:
    """Labels {"id", "name", "name_zh"} in class order: names as in
    `breeds_file`, else, without `_`, as in the folder's.
    """
    facts = {}
    if breeds_file is not None and breeds_file.is_file():
        facts = {breed["id"]: breed for breed in read_json(breeds_file)}
    labels = []
    for folder in folders:
        breed, _, name = folder.partition("-")
        plain = dict.fromkeys(("name", "name_zh"), name.replace("_", " "))
        known = facts.get(breed, plain)
        labels.append({"id": breed} | {key: known[key] for key in plain})
    return labels


def read_parts(
    folder: Path, data: Path, frames: Path | None, report: Report
) -> tuple[list[Example], list[Example]]:
    """The readable photos of a data set that train the network in `folder`, and
    those that validate it, with what is known of their whole pictures, see
    `with_boxes`. Raises DatasetError, ExportError.
    """
    known = dataset.class_ids(read_json(folder / "labels.json", NOT_TRAINED))
    found = [name.partition("-")[0] for name in dataset.breed_folders(data)]
    if found != known:  # their order is that of the classes
        different = sorted(set(found) ^ set(known))
        raise dataset.DatasetError(
            f"expected a class folder for each of the {len(known)} breeds of labels.json, "
            f"received {len(found)} folders in {data}; different: {', '.join(different)}"
        )
    recipe = read_json(folder / "recipe.json", NOT_TRAINED)
    listed = dataset.read_list(data, "train_list")
    parts = dataset.split_validation(listed, recipe["validation_per_breed"], recipe["seed"])
    training, validation = (dataset.readable(with_boxes(part, frames), report) for part in parts)
    return training, validation


def contents_of(photos: Sequence[Path | bytes]) -> tf.Tensor:
    """Photos for TensorFlow, strings (n,): bytes as they are, a file as
    `dataset.photo_bytes` gives it.
    """
    return tf.constant(
        [photo if isinstance(photo, bytes) else dataset.photo_bytes(photo) for photo in photos]
    )


def every_second_photo(folder: Path | None, first: int, report: Report) -> list[Path]:
    """Every second photo below `folder` by name, from the `first` (0: for
    training, 1: for evaluation), if it can be read.
    """
    return dataset.readable_photos(dataset.photos_below(folder)[first::2], report) if folder else []


def read_others(
    not_dogs: Path | None,
    validation: list[Example],
    further: Sequence[Path],
    one_source: Sequence[str],
    report: Report,
) -> tuple[list[Path | bytes], np.ndarray]:
    """Photos that show no dog, and in which of FOLDS parts each is, int (n,).

    With `not_dogs` every second photo of that folder, and parts of whole
    pictures beside their dog; those that the `index.tsv` of each folder of
    `further` lists, where those of one source are in one part. `one_source`:
    see `join_source`. Raises DatasetError.
    """
    photos: list[Path | bytes] = []
    if not_dogs:
        photos = [*every_second_photo(not_dogs, 0, report), *without_dogs(validation)]
    parts = [index % FOLDS for index in range(len(photos))]
    for folder in further:
        for row in rows_of_index(folder, ("photo", "source")):
            photos.append(folder / row["photo"])
            parts.append(fold_of(join_source(row["source"], one_source)))
    return photos, np.array(parts, int)


def join_source(source: str, one_source: Sequence[str]) -> str:
    """The source as it counts. `one_source`: beginnings of the names of sources that
    copy one another, and count as one.
    """
    return one_source[0] if source.startswith(tuple(one_source)) else source


def breeds_to_teach(
    folders: Sequence[Path], left_out: Sequence[str], one_source: Sequence[str]
) -> list[NewBreed]:
    """Those of `teaching.breeds_in` but for the folders `left_out`, with sources as
    they count. Raises DatasetError, TeachingError.
    """
    breeds = []
    for breed in breeds_in(folders, {}) if folders else ():
        if breed.name.replace(" ", "_") not in left_out:
            joined = {path: join_source(each, one_source) for path, each in breed.sources.items()}
            breeds.append(replace(breed, sources=joined))
    return breeds


def with_whole_pictures(examples: list[Example]) -> list[Example]:
    """The photos, and the whole pictures that crops among them were cut from."""
    wholes = []
    for crop in examples:
        if crop.frame is not None and not crop.is_whole:
            wholes.append(replace(crop, path=crop.frame))
    return [*examples, *wholes]


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


def without_dogs(examples: list[Example]) -> list[bytes]:
    """Parts of whole pictures beside their dog, as PNG files: the widest of the
    strips left, right, above and below the box.

    It has at least LEAST_STRIP of the picture's side. Pictures of several dogs
    are left out; 2 of 100 parts of validation pictures still show another dog.
    """
    found = []
    for example in examples:
        if example.is_whole and example.box and not example.others:
            width, strip = max(strips_beside(example.box))
            if width >= LEAST_STRIP:
                file = io.BytesIO()
                cut_picture(open_photo(example.path), strip).save(file, "PNG")
                found.append(file.getvalue())
    return found
