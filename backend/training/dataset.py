"""Reads the Stanford Dogs layout: a folder per breed, lists of training and test photos; unreadable photos are skipped."""

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

KINDS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")  # what TensorFlow decodes, by Pillow's names; it reads more

PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


class DatasetError(ValueError):
    """The data folder has another layout than expected; the message says what to do."""


@dataclass(frozen=True)
class Example:
    """A photo of the data set: its file, and the index of its breed in the class order."""

    path: Path
    breed: int


def images_folder(data: Path) -> Path:
    """The folder with the breeds' folders: `images`, or `Images` as in Stanford's archive."""
    return data / "Images" if (data / "Images").is_dir() else data / "images"


def breed_folders(data: Path) -> list[str]:
    """The folders `<wnid>-<Name>` below `images`, sorted: this order is the network's class order."""
    images = images_folder(data)
    if not images.is_dir():
        raise DatasetError(
            f"{data} holds no folder `images`; expected the Stanford Dogs layout images/<wnid>-<Name>/*.jpg"
        )
    folders = sorted(folder.name for folder in images.iterdir() if folder.is_dir())
    if len(folders) < 2:
        raise DatasetError(f"{images} holds {len(folders)} breed folders; expected at least 2")
    return folders


def labels_of(folders: list[str], breeds_file: Path | None) -> list[dict]:
    """Labels {"id", "name", "name_zh"} in class order; names from `breeds_file` where it knows the id, else the folder's
    name.
    """
    known = {}
    if breeds_file is not None and breeds_file.is_file():
        known = {breed["id"]: breed for breed in json.loads(breeds_file.read_text(encoding="utf-8"))}
    return [_label(folder, known) for folder in folders]


def _label(folder: str, known: dict) -> dict:
    wnid, _, name = folder.partition("-")
    breed = known.get(wnid, {})
    plain = name.replace("_", " ")
    return {"id": wnid, "name": breed.get("name", plain), "name_zh": breed.get("name_zh", plain)}


def check_folders(folders: list[str], labels: list[dict]) -> None:
    """Refuse a data set whose breeds are not the model's. Raises DatasetError naming the first difference."""
    expected, received = {label["id"] for label in labels}, {folder.partition("-")[0] for folder in folders}
    if extra := sorted(received - expected):
        raise DatasetError(
            f"class folder {extra[0]} is not among the model's {len(expected)} breeds; remove it or train again"
        )
    if missing := sorted(expected - received):
        raise DatasetError(f"no class folder for breed {missing[0]}; expected all {len(expected)} breeds of the model")


def read_list(data: Path, name: str) -> list[Example]:
    """The photos of `train_list` or `test_list` (as .txt, a line a photo, relative to `images`), in the file's order."""
    index = {folder: place for place, folder in enumerate(breed_folders(data))}
    images, path = images_folder(data), data / f"{name}.txt"
    if not path.is_file():
        raise DatasetError(
            f"{path} does not exist; expected a list of photos, one `<folder>/<file>.jpg` a line{_from_matlab(path)}"
        )
    examples = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        folder = line.split("/", 1)[0]
        if folder not in index:
            raise DatasetError(f"{path}:{number} names the folder {folder}, which is not below {images}")
        examples.append(Example(images / line.strip(), index[folder]))
    return examples


def _from_matlab(path: Path) -> str:
    """How to convert the list from MATLAB's format, as in Stanford's archive, if that file exists."""
    matlab = path.with_suffix(".mat")
    if not matlab.is_file():
        return ""
    program = (
        f"from scipy.io import loadmat; print(*(row[0][0] for row in loadmat('{matlab}')['file_list']), sep='\\n')"
    )
    return f'. With SciPy installed, {matlab.name} becomes it by: python -c "{program}" > {path}'


def check_taught(folders: list[str], training: list[Example]) -> None:
    """Raises DatasetError for class folders without training photos."""
    taught = {example.breed for example in training}
    if untaught := [folder for index, folder in enumerate(folders) if index not in taught]:
        raise DatasetError(
            f"class folder {untaught[0]} has only validation photos in train_list.txt; list more, or remove the folder"
        )


def read_folders(data: Path, labels: list[dict]) -> list[Example]:
    """Every photo below `images/<wnid>-<Name>/`, for folders without a list; the order of `labels` gives the breed's index."""
    place = {label["id"]: index for index, label in enumerate(labels)}
    images = images_folder(data)
    found = sorted(images.rglob("*.jp*g"))
    if not found:
        raise DatasetError(f"no photo below {images}; expected images/<wnid>-<Name>/*.jpg")
    unknown = [path for path in found if path.parent.name.partition("-")[0] not in place]
    if unknown:
        raise DatasetError(f"{unknown[0]} lies in no folder of a breed that the model knows")
    return [Example(path, place[path.parent.name.partition("-")[0]]) for path in found]


def split_validation(examples: list[Example], per_breed: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Split off `per_breed` photos of every breed for validation: (training, validation). Deterministic for a seed."""
    shuffled = sorted(examples, key=lambda example: example.path.as_posix())
    random.Random(seed).shuffle(shuffled)
    taken: Counter[int] = Counter()
    training, validation = [], []
    for example in shuffled:
        chosen = taken[example.breed] < per_breed
        taken[example.breed] += chosen
        (validation if chosen else training).append(example)
    return training, validation


def readable(examples: list[Example], report) -> list[Example]:
    """The examples whose files can be decoded completely; others are reported by `report(sentence)` and left out.

    Raises DatasetError when none is left.
    """
    with ThreadPoolExecutor() as pool:
        faults = list(pool.map(_fault, (example.path for example in examples)))
    for example, fault in zip(examples, faults, strict=True):
        if fault:
            report(f"skipped {example.path}: {fault}")
    good = [example for example, fault in zip(examples, faults, strict=True) if not fault]
    if not good:
        raise DatasetError(
            f"none of {len(examples)} photos could be read; the first was {examples[0].path if examples else '-'}"
        )
    return good


def readable_photos(photos: list[Path], report) -> list[Path]:
    """The same for photos that show no breed."""
    return [example.path for example in readable([Example(path, 0) for path in photos], report)]


def _fault(path: Path) -> str | None:
    try:
        with Image.open(path, formats=KINDS) as photo:
            if photo.format == "WEBP" and photo.is_animated:
                return "an animated WebP"
            # JPEGs are decoded completely at an eighth of the size, in a tenth of the time.
            photo.draft("RGB", (64, 64))
            photo.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return "no such file" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
    return None


def every_second_photo(folder: Path, first: int) -> list[Path]:
    """Every second photo below `folder` by name, from the `first` (0 or 1): one half for training, one for evaluation."""
    return photos_below(folder)[first::2]


def photos_below(folder: Path) -> list[Path]:
    """Every photo below `folder`, by name. Raises DatasetError where there is none."""
    photos = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PHOTO_SUFFIXES)
    if not photos:
        raise DatasetError(f"{folder} holds no photo; expected {', '.join(PHOTO_SUFFIXES)} files")
    return photos
