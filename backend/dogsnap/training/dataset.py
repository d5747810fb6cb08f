"""Reads the Stanford Dogs layout: a folder per breed, lists of training and
test photos; unreadable photos are skipped.
"""

import csv
import hashlib
import io
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from dogsnap.errors import DogsnapError
from dogsnap.exporting import Report
from dogsnap.files import read_text
from dogsnap.photo_endings import CONVERTED_ENDINGS, READ_ENDINGS
from dogsnap.serving.photos import photo as photos

Box = tuple[float, float, float, float]
INDEX = "index.tsv"
FOLDS = 5  # parts of the photos, for cross-fitting

# what TensorFlow decodes, by Pillow's names; it reads more
KINDS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
CONVERTED_KINDS = ("HEIF", "AVIF")
NOTES = (".txt", ".json", ".csv", ".tsv", ".md", ".xml")  # nobody takes these for photos


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
    folders = sorted(folder.name for folder in images.iterdir() if os.path.isdir(folder))
    if len(folders) < 2:
        raise DatasetError(f"{images} holds {len(folders)} breed folders; expected at least 2")
    return folders


def read_list(data: Path, name: str) -> list[Example]:
    """The photos of `train_list` or `test_list` (as .txt, a line a photo,
    relative to `images`), in the file's order. Breeds are places in the
    network's class order. Raises DatasetError.
    """
    index = {folder: place for place, folder in enumerate(breed_folders(data))}
    examples = []
    for photo in listed_photos(data, name):
        folder = photo.parent.name
        if folder not in index:
            raise DatasetError(
                f"{data / name}.txt names the folder {folder}, which is not below "
                f"{images_folder(data)}"
            )
        examples.append(Example(photo, index[folder]))
    return examples


def listed_photos(data: Path, name: str) -> list[Path]:
    """The photos in a list as `read_list` reads it, whatever they show. Raises DatasetError."""
    file = data / f"{name}.txt"
    if not file.is_file():
        raise DatasetError(
            f"{file} does not exist; expected a list of photos, one `<folder>/<file>.jpg` a line "
            f"(Stanford's archive has it for MATLAB: scipy.io.loadmat reads {name}.mat)"
        )
    lines = with_slashes(read_text(file)).splitlines()
    return [images_folder(data) / line.strip() for line in lines if line.strip()]


def read_table(file: Path) -> list[dict[str, str]]:
    """A table with a line of names, and tabs between the columns. Raises OSError."""
    return list(csv.DictReader(io.StringIO(read_text(file), newline=""), delimiter="\t"))


def with_slashes(text: str) -> str:
    """Paths as Windows writes them, as this machine reads them."""
    return text.replace("\\", "/")


def rows_of_index(data: Path, columns: Sequence[str] = ("breed", "photo")) -> list[dict[str, str]]:
    """The lines of `index.tsv`.

    Raises DatasetError for one without photos or without these columns. A breed
    may be empty: of classes that are independent, a photo may show none.
    """
    path = data / INDEX
    rows = read_table(path)
    expected = f"expected the columns {' and '.join(columns)}, separated by tabs"
    if not rows or not set(columns) <= set(rows[0]):
        raise DatasetError(f"{path} lists no photo; {expected}")
    for number, row in enumerate(rows, start=1):
        lacking = [column for column in columns if row[column] is None]
        if lacking or not row["photo"]:
            column = lacking[0] if lacking else "photo"
            raise DatasetError(f"{path}: photo {number} has no {column}; {expected}")
    return rows


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


def photo_bytes(path: Path) -> bytes:
    """The bytes of a photo file for TensorFlow: as they are, or turned upright
    as EXIF says; HEIC and AVIF are decoded.

    Raises OSError, and ValueError for such a file that cannot be decoded.
    """
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


def photos_below(folder: Path, report: Report = lambda _: None) -> list[Path]:
    """As `list_photos`. Raises DatasetError where there is none."""
    found = list_photos(folder, report)
    if not found:
        raise DatasetError(f"{folder} holds no photo; expected {', '.join(READ_ENDINGS)} files")
    return found


def list_photos(folder: Path, report: Report = lambda _: None) -> list[Path]:
    """Every photo below `folder`, by name; also behind links, and without what is
    hidden, such as the `._dog.jpg` of archives from macOS. `report`: see `is_read`.
    """
    return sorted(_find_photos(folder, (), report))


def is_read(path: Path, report: Report) -> bool:
    """Whether a file's ending is that of a photo; others go to `report`."""
    ending = path.suffix.lower()
    if ending not in (*READ_ENDINGS, *NOTES):
        report(f"skipped {path}: expected a photo ({', '.join(READ_ENDINGS)})")
    return ending in READ_ENDINGS


def _find_photos(folder: Path, above: Sequence[Path], report: Report) -> Iterator[Path]:
    """`above`: the folders that led here. A link back to one of them would lead on for ever."""
    here = folder.resolve()
    if here in above:
        return
    try:
        names = [each for each in os.listdir(folder) if not each.startswith(".")]
    except OSError:  # it is missing, or nobody may look into it
        return
    for name in names:
        path = folder / name
        if os.path.isdir(path):  # False for a link that leads nowhere, or where nobody may go
            yield from _find_photos(path, (*above, here), report)
        elif is_read(path, report):
            yield path
