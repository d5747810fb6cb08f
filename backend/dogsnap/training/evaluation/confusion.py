"""The confusion of classes, as a table and as a picture."""

import csv
import io
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from dogsnap.files import replacing
from dogsnap.training.dataset import class_ids

# of the picture, in pixels
CELL = 28
MARGIN = 8
TEXT_SIZE = 14
NAMED_CLASSES = 150  # of more the picture has no room for names
WHITE = (255, 255, 255)
BLACK = (0, 0, 0)
BLUE = (30, 80, 160)


def confusion_matrix(answered: np.ndarray, true: np.ndarray, classes: int) -> np.ndarray:
    """How often photos of a class (row) get an answer (column): int (classes,
    classes), of places (n,) each.
    """
    return tf.math.confusion_matrix(true, answered, classes, dtype=tf.int64).numpy()


def class_scores(matrix: np.ndarray, labels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each class with photos: its photos, recall, precision (None without
    an answer) and what it is mostly taken for.
    """
    scores = []
    for place, label in enumerate(labels):
        row = matrix[place]
        photos = int(row.sum())
        answers = int(matrix[:, place].sum())
        if not photos:
            continue
        wrong = np.where(np.arange(len(row)) == place, 0, row)
        right = int(row[place])
        scores.append(
            {
                "id": label["id"],
                "name": label["name"],
                "photos": photos,
                "recall": round(right / photos, 4),
                "precision": round(right / answers, 4) if answers else None,
                "taken_for": labels[int(wrong.argmax())]["name"] if wrong.any() else "",
            }
        )
    return scores


def find_shown(matrix: np.ndarray) -> list[int]:
    """The places of the classes that photos show or are taken for."""
    return np.flatnonzero(matrix.sum(1) + matrix.sum(0)).tolist()


def save(matrix: np.ndarray, labels: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write the table, its picture, and the scores of each class into a folder."""
    write_table(matrix, labels, folder / "confusion.csv")
    write_classes(class_scores(matrix, labels), folder / "classes.csv")
    draw(matrix, labels, folder / "confusion.png")


def write_table(matrix: np.ndarray, labels: Sequence[Mapping[str, Any]], file: Path) -> None:
    """A CSV file: a row for each class that photos show, a column for each that
    they are taken for.
    """
    ids = class_ids(labels)
    rows = [["is", *ids]]
    for class_id, counts in zip(ids, matrix.tolist(), strict=True):
        rows.append([class_id, *counts])
    _write_csv(rows, file)


def write_classes(scores: Sequence[Mapping[str, Any]], file: Path) -> None:
    """A CSV file of what `class_scores` gives."""
    names = ("id", "name", "photos", "recall", "precision", "taken_for")
    _write_csv([names, *map(itemgetter(*names), scores)], file)


def _write_csv(rows: Sequence[Sequence[object]], file: Path) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    with replacing(file) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")


def draw(matrix: np.ndarray, labels: Sequence[Mapping[str, Any]], file: Path) -> None:
    """A PNG file: rows are classes, columns what they are taken for; the
    darker, the larger the share of the row.
    """
    font = ImageFont.load_default(TEXT_SIZE)
    names = [label["name"] for label in labels] if len(labels) <= NAMED_CLASSES else []
    cell = CELL if names else max(1, 3000 // len(labels))
    left = 2 * MARGIN + int(max(map(font.getlength, names), default=0))
    side = left + cell * len(labels) + MARGIN
    picture = Image.new("RGB", (side, side), WHITE)
    pen = ImageDraw.Draw(picture)
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    for row, column in zip(*np.nonzero(matrix), strict=True):
        share = shares[row, column]
        colour = tuple(round(255 + share * (end - 255)) for end in BLUE)
        corner = (left + cell * column, left + cell * row)
        pen.rectangle((*corner, corner[0] + cell - 1, corner[1] + cell - 1), colour)
        if names:
            text = WHITE if share > 0.5 else BLACK
            middle = (corner[0] + cell // 2, corner[1] + cell // 2)
            pen.text(middle, str(matrix[row, column]), text, font, anchor="mm")
    _write_names(picture, names, left, left - MARGIN // 2, "rm")
    # The columns are rows of the picture that is turned.
    turned = picture.transpose(Image.Transpose.ROTATE_270)
    _write_names(turned, names, left, side - left + MARGIN // 2, "lm")
    with replacing(file) as temporary:
        turned.transpose(Image.Transpose.ROTATE_90).save(temporary, "PNG")


def _write_names(
    picture: Image.Image, names: Sequence[str], top: int, end: int, anchor: str
) -> None:
    """A name beside each row from `top` on, with its right ("rm") or left side
    ("lm") at `end`.
    """
    font = ImageFont.load_default(TEXT_SIZE)
    pen = ImageDraw.Draw(picture)
    for place, name in enumerate(names):
        middle = top + CELL * place + CELL // 2
        pen.text((end, middle), name, BLACK, font, anchor=anchor)
