"""Where the dogs are in whole pictures, as tables tell it, and how well the boxes
that a version finds fit.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from dogsnap.networks.box_head import overlap
from dogsnap.training.dataset import Box, DatasetError, Example, images_folder, read_table
from dogsnap.training.scoring import share

BOXES = "boxes.tsv"
DOGS = "dogs.tsv"
WHOLE_BOX: Box = (0.0, 0.0, 1.0, 1.0)
LEAST_SIDE = 0.01  # of a box, as a fraction of the picture


def with_boxes(examples: list[Example], frames: Path | None) -> list[Example]:
    """The examples with the whole pictures and boxes that are known of them.

    `frames`: a folder of whole pictures with `boxes.tsv`, a line `photo x0 y0
    x1 y1` each, where `photo` is the path below its `images` and has the folder
    and the name, without its ending, of an example's photo; a file `dogs.tsv`
    beside it, with lines `photo width height dogs boxes`, tells the boxes of
    all dogs (`x0,y0,x1,y1`, `;` between them) and the proportions of pictures
    that were squashed. A photo whose box is not inside is left out and reported.
    Raises DatasetError.
    """
    if frames is None:
        return examples
    file = frames / BOXES
    if not file.is_file():
        raise DatasetError(
            f"{file} does not exist; expected a line `photo x0 y0 x1 y1` per whole picture, "
            "separated by tabs"
        )
    sides = {}
    for row in read_table(file):
        photo, *box = [value for value in row.values() if value is not None]
        sides[str(Path(photo).with_suffix(""))] = photo, box
    dogs: dict[str, dict[str, Any]] = {}
    for row in rows_of_dogs(frames):
        proportions = float(row["width"]), float(row["height"])
        dogs[row["photo"]] = {"sides": proportions, "others": read_boxes(row["boxes"])[1:]}
    kept = []
    for example in examples:
        photo, box = sides.get(f"{example.path.parent.name}/{example.path.stem}", ("", []))
        known: dict[str, Any] = {}
        try:
            if photo:
                known = {"frame": images_folder(frames) / photo, "box": _check_box(box)}
            kept.append(replace(example, **known, **dogs.get(photo, {})))
        except ValueError as error:
            click.echo(f"skipped {example.path}: {error}")
    return kept


def rows_of_dogs(frames: Path) -> list[dict[str, str]]:
    return read_table(frames / DOGS) if (frames / DOGS).is_file() else []


def read_boxes(text: str) -> tuple[Box, ...]:
    """Boxes as `dogs.tsv` has them: `x0,y0,x1,y1`, `;` between them. Raises ValueError."""
    return tuple(_check_box(box.split(",")) for box in text.split(";") if box)


def _check_box(sides: Sequence[str | float]) -> Box:
    """Raises ValueError for a box that does not lie inside the picture."""
    try:
        left, top, right, bottom = map(float, sides)
    except ValueError as error:
        raise ValueError(
            f"expected the four sides of a box, found {' '.join(map(str, sides)) or 'none'}"
        ) from error
    is_across = 0 <= left < left + LEAST_SIDE <= right <= 1
    if not (is_across and 0 <= top < top + LEAST_SIDE <= bottom <= 1):
        box = f"{left:g} {top:g} {right:g} {bottom:g}"
        raise ValueError(
            f"the box {box} is not inside the picture; expected 0 <= x0 < x1 <= 1 and 0 "
            "<= y0 < y1 <= 1"
        )
    return left, top, right, bottom


def box_report(found: np.ndarray, true: Sequence[Sequence[float] | None]) -> dict[str, Any]:
    """How well the boxes `found` (n, 4) overlap with the true ones, where these
    are known: intersection over union.
    """
    known = [index for index, box in enumerate(true) if box is not None]
    boxes = np.array([true[index] for index in known], np.float32)
    overlaps = np.asarray(overlap(found[known], boxes))
    return {
        "photos": len(known),
        "mean_overlap": round(float(overlaps.mean()), 4),
        "over_half": share(overlaps > 0.5),
    }
