"""Where the dogs are in whole pictures, as tables tell it, and how well the boxes
that a version finds fit.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dogsnap.networks.box_head import overlap
from dogsnap.training.dataset import Box, DatasetError, Example, images_folder, read_table
from dogsnap.training.scoring import share

BOXES = "boxes.tsv"
DOGS = "dogs.tsv"
WHOLE_BOX: Box = (0.0, 0.0, 1.0, 1.0)


def with_boxes(examples: list[Example], frames: Path | None) -> list[Example]:
    """The examples with the whole pictures and boxes that are known of them.

    `frames`: a folder of whole pictures with `boxes.tsv`, a line `photo x0 y0
    x1 y1` each, where `photo` is the path below its `images` and has the folder
    and the name, without its ending, of an example's photo. `dogs.tsv` beside
    it, with lines `photo width height dogs boxes`, tells the boxes of all dogs
    (`x0,y0,x1,y1`, `;` between them) and the proportions of pictures that were
    squashed. Raises DatasetError.
    """
    if frames is None:
        return examples
    try:
        known = _read_frames(frames)
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise DatasetError(
            f"{frames}: expected lines `photo x0 y0 x1 y1` in {BOXES} and `photo width height "
            f"dogs boxes` in {DOGS}, separated by tabs ({error})"
        ) from error
    found = []
    for example in examples:
        name = f"{example.path.parent.name}/{example.path.stem}"
        found.append(replace(example, **known.get(name, {})))
    return found


def _read_frames(frames: Path) -> dict[str, dict[str, Any]]:
    """Fields of an example, by folder and name of its photo."""
    dogs = {row["photo"]: row for row in read_table(frames / DOGS)}
    known: dict[str, dict[str, Any]] = {}
    for row in read_table(frames / BOXES):
        photo, *sides = row.values()
        every = dogs[photo]
        of_picture = {
            "frame": images_folder(frames) / photo,
            "box": _box(sides),
            "sides": (float(every["width"]), float(every["height"])),
            "others": read_boxes(every["boxes"])[1:],
        }
        known[str(Path(photo).with_suffix(""))] = of_picture
    return known


def read_boxes(text: str) -> tuple[Box, ...]:
    """Boxes as `dogs.tsv` has them: `x0,y0,x1,y1`, `;` between them. Raises ValueError."""
    return tuple(_box(box.split(",")) for box in text.split(";") if box)


def _box(sides: Sequence[str]) -> Box:
    left, top, right, bottom = map(float, sides)
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise ValueError(f"the box {' '.join(sides)} is not inside the picture")
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
