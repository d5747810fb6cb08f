"""Reads the Stanford Dogs layout: a folder per breed, lists of training and
test photos; unreadable photos are skipped.
"""

import csv
import hashlib
import io
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from dogsnap.errors import DogsnapError
from dogsnap.exporting import Report
from dogsnap.photo_endings import CONVERTED_ENDINGS, READ_ENDINGS
from dogsnap.serving.photos import photo as photos

Box = tuple[float, float, float, float]
BOXES = "boxes.tsv"
DOGS = "dogs.tsv"
ANNOTATIONS = "Annotation"
INDEX = "index.tsv"
FOLDS = 5  # parts of the photos, for cross-fitting
LEAST_SIDE = 0.01  # of a box, as a fraction of the picture

# what TensorFlow decodes, by Pillow's names; it reads more
KINDS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
CONVERTED_KINDS = ("HEIF", "AVIF")
NUMBERED_FOLDER = re.compile(r"(\w*\d\w*)-(.+)")  # of a class: its id and its name


class DatasetError(ValueError):
    """The data folder has another layout than expected; the message says what to do."""


@dataclass(frozen=True)
class Example:
    """A photo of the data set: its file, and the index of its breed in the
    class order.

    `box`: left, top, right, bottom of the dog in the whole picture `frame`,
    fractions of its sides; None: not known. `path` is then the dog cut out of
    `frame`, or the same file. `others`: boxes of further dogs in `frame`.
    `sides`: width and height of `frame` where its file has other proportions;
    None: those of the file. `shows`: places of all classes that the photo shows,
    where these are independent; None: not known, or `breed` alone.
    """

    path: Path
    breed: int
    frame: Path | None = None
    box: Box | None = None
    others: tuple[Box, ...] = ()
    sides: tuple[float, float] | None = None
    shows: frozenset[int] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether `path` is a whole picture: no part of one that is known."""
        return self.frame is None or self.frame == self.path


def paths_of(examples: Sequence[Example]) -> list[Path]:
    return [example.path for example in examples]


def breeds_of(examples: Sequence[Example]) -> np.ndarray:
    """Int (n,)."""
    return np.array([example.breed for example in examples])


def class_ids(labels: Sequence[Mapping[str, Any]]) -> list[str]:
    return [label["id"] for label in labels]


def images_folder(data: Path) -> Path:
    """The folder with the breeds' folders: `images`, or `Images` as in
    Stanford's archive.
    """
    return data / "Images" if (data / "Images").is_dir() else data / "images"


def breed_folders(data: Path) -> list[str]:
    """The folders `<wnid>-<Name>` below `images`, sorted: this order is the
    network's class order.
    """
    images = images_folder(data)
    if not images.is_dir():
        layout = "the Stanford Dogs layout images/<wnid>-<Name>/*.jpg"
        raise DatasetError(f"{data} holds no folder `images`; expected {layout}")
    folders = sorted(folder.name for folder in images.iterdir() if folder.is_dir())
    if len(folders) < 2:
        raise DatasetError(f"{images} holds {len(folders)} breed folders; expected at least 2")
    return folders


def id_and_name(folder: str) -> tuple[str, str]:
    """n02085620-Chihuahua -> n02085620, Chihuahua; golden-doodle -> twice itself."""
    match = NUMBERED_FOLDER.fullmatch(folder)
    return (match[1], match[2]) if match else (folder, folder)


def read_list(
    data: Path, name: str, labels: Sequence[dict[str, Any]] | None = None
) -> list[Example]:
    """The photos of `train_list` or `test_list` (as .txt, a line a photo,
    relative to `images`), in the file's order.

    Breeds are places in `labels`, or without these in the network's class
    order. Raises DatasetError.
    """
    folders = breed_folders(data)
    images = images_folder(data)
    path = data / f"{name}.txt"
    index = {folder: place for place, folder in enumerate(folders)}
    if labels:
        places = {breed: place for place, breed in enumerate(class_ids(labels))}
        for folder in folders:
            breed, _ = id_and_name(folder)
            if breed not in places:
                known = f"the {len(labels)} breeds of labels.json"
                raise DatasetError(f"class folder {breed} is not among {known}; remove it")
            index[folder] = places[breed]
    if not path.is_file():
        raise DatasetError(
            f"{path} does not exist; expected a list of photos, one `<folder>/<file>.jpg` a line "
            f"(Stanford's archive has it for MATLAB: scipy.io.loadmat reads {name}.mat)"
        )
    examples = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        folder = line.split("/", 1)[0]
        if folder not in index:
            raise DatasetError(
                f"{path}:{number} names the folder {folder}, which is not below {images}"
            )
        examples.append(Example(images / line.strip(), index[folder]))
    return examples


def with_boxes(
    examples: list[Example], data: Path, frames: Path | None, report: Report
) -> list[Example]:
    """The examples with the whole pictures and boxes that are known of them.

    `frames`: a folder of whole pictures with `boxes.tsv`, a line `photo x0 y0
    x1 y1` each, where `photo` is the path below its `images` and has the folder
    and the name, without its ending, of a photo in `data`; a file `dogs.tsv`
    beside it, with lines `photo width height dogs boxes`, tells the boxes of
    all dogs (`x0,y0,x1,y1`, `;` between them) and the proportions of pictures
    that were squashed. Without `frames`, the official data set's annotation
    files are read if `data` has them, and the photos are whole pictures then. A
    photo whose box is not inside is left out and reported. Raises DatasetError.
    """
    boxed = (lambda each: _read_annotation(each, data)) if frames is None else _read_frames(frames)
    kept = []
    for example in examples:
        try:
            kept.append(boxed(example))
        except (ValueError, ET.ParseError) as error:
            report(f"skipped {example.path}: {error}")
    return kept


def _read_frames(frames: Path) -> Callable[[Example], Example]:
    file = frames / BOXES
    if not file.is_file():
        raise DatasetError(
            f"{file} does not exist; expected a line `photo x0 y0 x1 y1` per whole picture, "
            "separated by tabs"
        )
    lines: dict[str, tuple[str, list[str]]] = {}
    for row in read_table(file):
        photo, *sides = [value for value in row.values() if value is not None]
        lines[str(Path(photo).with_suffix(""))] = photo, sides
    dogs: dict[str, dict[str, Any]] = {}
    for row in rows_of_dogs(frames):
        proportions = float(row["width"]), float(row["height"])
        dogs[row["photo"]] = {"sides": proportions, "others": read_boxes(row["boxes"])[1:]}

    def add_frame(example: Example) -> Example:
        name = f"{example.path.parent.name}/{example.path.stem}"
        photo, sides = lines.get(name, ("", []))
        if not photo:
            return example
        frame = images_folder(frames) / photo
        box = _check_box(sides)
        return replace(example, frame=frame, box=box, **dogs.get(photo, {}))

    return add_frame


def rows_of_dogs(frames: Path) -> list[dict[str, str]]:
    return read_table(frames / DOGS) if (frames / DOGS).is_file() else []


def read_table(file: Path) -> list[dict[str, str]]:
    """A table with a line of names, and tabs between the columns. Raises OSError."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def read_boxes(text: str) -> tuple[Box, ...]:
    """Boxes as `dogs.tsv` has them: `x0,y0,x1,y1`, `;` between them. Raises ValueError."""
    return tuple(_check_box(box.split(",")) for box in text.split(";") if box)


def _read_annotation(example: Example, data: Path) -> Example:
    """Boxes are pixels in the file."""
    file = data / ANNOTATIONS / example.path.parent.name / example.path.stem
    if not file.is_file():
        return example
    root = ET.parse(file).getroot()
    wide = float(root.findtext("size/width") or 0)
    high = float(root.findtext("size/height") or 0)
    if not (wide > 0 and high > 0):
        raise ValueError(f"{file} does not give the size of the picture")
    names = (("xmin", wide), ("ymin", high), ("xmax", wide), ("ymax", high))
    dogs = []
    for dog in root.findall("object") or [root]:
        sides = [float(dog.findtext(f"bndbox/{name}") or "nan") / whole for name, whole in names]
        dogs.append(_check_box(sides))
    return replace(example, frame=example.path, box=dogs[0], others=tuple(dogs[1:]))


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


def rows_of_index(data: Path, columns: Sequence[str] = ("breed", "photo")) -> list[dict[str, str]]:
    """The lines of `index.tsv`.

    Raises DatasetError for one without photos or without these columns.
    """
    path = data / INDEX
    rows = read_table(path)
    if not rows or not set(columns) <= set(rows[0]):
        raise DatasetError(
            f"{path} lists no photo; expected the columns {' and '.join(columns)}, "
            "separated by tabs"
        )
    return rows


def source_of(row: Mapping[str, str], one_source: Sequence[str]) -> str:
    """The source in a line of `index.tsv`; see `sources_of`."""
    source = row.get("source") or ""
    return one_source[0] if source.startswith(tuple(one_source)) else source


def fold_of(source: str) -> int:
    """In which of FOLDS parts all photos of a source are."""
    return hashlib.sha256(source.encode()).digest()[0] % FOLDS


def split_validation(
    examples: list[Example], per_breed: int, seed: int
) -> tuple[list[Example], list[Example]]:
    """Split off `per_breed` photos of every breed for validation: (training,
    validation). Deterministic for a seed.
    """
    shuffled = sorted(examples, key=lambda example: example.path.as_posix())
    random.Random(seed).shuffle(shuffled)
    taken: Counter[int] = Counter()
    training: list[Example] = []
    validation: list[Example] = []
    for example in shuffled:
        chosen = taken[example.breed] < per_breed
        taken[example.breed] += chosen
        (validation if chosen else training).append(example)
    return training, validation


def readable(examples: list[Example], report: Report) -> list[Example]:
    """The examples whose files can be decoded completely; others are reported.

    Raises DatasetError when none is left.
    """
    with ThreadPoolExecutor() as pool:
        faults = list(pool.map(_fault_of_files, examples))
    good = []
    for example, fault in zip(examples, faults, strict=True):
        if fault:
            report(f"skipped {example.path}: {fault}")
        else:
            good.append(example)
    if not good:
        first = examples[0].path if examples else "-"
        raise DatasetError(f"none of {len(examples)} photos could be read; the first was {first}")
    return good


def readable_photos(photos: list[Path], report: Report) -> list[Path]:
    """The same for photos that show no breed."""
    return paths_of(readable([Example(path, 0) for path in photos], report))


def _fault_of_files(example: Example) -> str | None:
    fault = _fault(example.path)
    if fault or example.frame is None or example.is_whole:
        return fault
    fault = _fault(example.frame)
    return f"its whole picture {example.frame}: {fault}" if fault else None


def _fault(path: Path) -> str | None:
    try:
        with Image.open(path, formats=CONVERTED_KINDS if _is_converted(path) else KINDS) as photo:
            if photo.format == "WEBP" and getattr(photo, "n_frames", 1) > 1:
                return "an animated WebP"
            # JPEGs are decoded completely at an eighth of the size, in a tenth of the time.
            photo.draft("RGB", (64, 64))
            photo.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return (
            "no such file" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
        )
    return None


def _is_converted(path: Path) -> bool:
    return path.suffix.lower() in CONVERTED_ENDINGS


def photo_bytes(path: Path | bytes) -> bytes:
    """The bytes of a photo file for TensorFlow: as they are, or turned upright
    as EXIF says; HEIC and AVIF are decoded. Bytes stay as they are.

    Raises OSError, and ValueError for such a file that cannot be decoded.
    """
    if isinstance(path, bytes):
        return path
    contents = path.read_bytes()
    if not _is_converted(path) and not photos.is_turned(contents):
        return contents
    try:
        return photos.check(contents).upright()
    except DogsnapError as error:
        raise ValueError(f"{path}: {error.message}") from error


def open_photo(path: Path) -> Image.Image:
    """A photo file as an upright RGB picture. Raises OSError and ValueError."""
    with Image.open(io.BytesIO(photo_bytes(path))) as photo:
        return ImageOps.exif_transpose(photo).convert("RGB")


def every_second_photo(folder: Path | None, first: int, report: Report) -> list[Path]:
    """Every second photo below `folder` by name, from the `first` (0: for
    training, 1: for evaluation), if it can be read.
    """
    return readable_photos(photos_below(folder)[first::2], report) if folder else []


def photos_below(folder: Path) -> list[Path]:
    """Every photo below `folder`, by name. Raises DatasetError where there is none."""
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in READ_ENDINGS)
    if not found:
        raise DatasetError(f"{folder} holds no photo; expected {', '.join(READ_ENDINGS)} files")
    return found
