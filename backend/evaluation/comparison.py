"""Compares two versions of a model on the same photos: agreement, accuracy and time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backend.errors import InvalidArgument
from backend.evaluation.exported_version import ExportedVersion
from backend.files import is_photo
from backend.fitting.dataset import read_list


@dataclass(frozen=True)
class Disagreement:
    """A photo with a different top class in each version: `names` and `probabilities` by version.

    `right` is the name of the class that the photo's folder gives, "" if it gives none.
    """

    photo: Path
    names: tuple[str, str]
    probabilities: tuple[float, float]
    right: str


@dataclass(frozen=True)
class Comparison:
    """Two versions on `photos` photos.

    `agreement`: share with the same top class. `mean_difference`, `largest_difference`: of the probabilities, absolute.
    `accuracy`: of each version, on the `labelled` photos whose folder names their class; None without such photos.
    `milliseconds`: median time of each version for one photo, decoding included; `slowest`: its 95th percentile.
    `differing`: the photos whose top class is not the same, the surest answers first.
    """

    photos: int
    agreement: float
    mean_difference: float
    largest_difference: float
    labelled: int
    accuracy: tuple[float, float] | None
    milliseconds: tuple[float, float]
    slowest: tuple[float, float]
    differing: tuple[Disagreement, ...]


def photo_files(data: Path, limit: int, list_name: str = "test_list") -> list[Path]:
    """At most `limit` photos, evenly spread: of the list DATA/<list_name>.txt if there is one, else of all below `data`."""
    if (data / f"{list_name}.txt").is_file():
        files = [example.path for example in read_list(data, list_name)]
    else:
        files = sorted(file for file in data.rglob("*") if is_photo(file))
    places = np.linspace(0, len(files) - 1, min(limit, len(files))).round().astype(int)
    return [files[place] for place in places]


def compare(
    first: ExportedVersion,
    second: ExportedVersion,
    photos: Sequence[Path],
    report: Callable[[str], None] = lambda _: None,
    progress: Callable[[], None] = lambda: None,
) -> Comparison:
    """Run both versions on every photo, alternating, so that a busy machine affects both alike.

    Files that cannot be decoded are reported and left out. Raises ValueError for versions of different classes, and when
    no photo is left.
    """
    labels = first.description["labels"]
    if labels != second.description["labels"]:
        raise ValueError("the versions have different classes or another order of them; expected the same")
    read, answers = [], []
    for photo in photos:
        try:
            answers.append([_timed(version, photo.read_bytes()) for version in (first, second)])
            read.append(photo)
        except InvalidArgument:
            report(f"{photo} cannot be decoded and is left out")
        progress()
    if not read:
        raise ValueError(f"none of {len(photos)} files can be decoded")
    probabilities = np.array([[probability for probability, _ in pair] for pair in answers]).swapaxes(0, 1)
    seconds = np.array([[second for _, second in pair] for pair in answers]).T
    return _compared(probabilities, seconds, read, labels)


def _timed(version: ExportedVersion, contents: bytes) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    prediction = version.answer([contents])["prediction"]
    return prediction[0], time.perf_counter() - start


def _classes(photos: Sequence[Path], labels: Sequence[dict]) -> np.ndarray:
    """The class of each photo by its folder <id>-<name>; -1 where the folder names none."""
    place = {label["id"]: number for number, label in enumerate(labels)}
    return np.array([place.get(photo.parent.name.split("-")[0], -1) for photo in photos])


def _compared(
    probabilities: np.ndarray, seconds: np.ndarray, photos: Sequence[Path], labels: Sequence[dict]
) -> Comparison:
    best, classes = probabilities.argmax(-1), _classes(photos, labels)
    difference = np.abs(probabilities[0] - probabilities[1])
    labelled = classes >= 0
    right = (best == classes)[:, labelled].mean(-1) if labelled.any() else None
    return Comparison(
        photos=len(classes),
        agreement=float((best[0] == best[1]).mean()),
        mean_difference=float(difference.mean()),
        largest_difference=float(difference.max()),
        labelled=int(labelled.sum()),
        accuracy=None if right is None else tuple(right.tolist()),
        milliseconds=tuple((1000 * np.median(seconds, axis=-1)).tolist()),
        slowest=tuple((1000 * np.percentile(seconds, 95, axis=-1)).tolist()),
        differing=tuple(_differing(probabilities, classes, photos, [label["name"] for label in labels])),
    )


def _differing(
    probabilities: np.ndarray, classes: np.ndarray, photos: Sequence[Path], names: Sequence[str]
) -> list[Disagreement]:
    best, surest = probabilities.argmax(-1), probabilities.max(-1)
    places = np.flatnonzero(best[0] != best[1])
    return [
        Disagreement(
            photo=photos[place],
            names=(names[best[0, place]], names[best[1, place]]),
            probabilities=tuple(surest[:, place].tolist()),
            right=names[classes[place]] if classes[place] >= 0 else "",
        )
        for place in sorted(places, key=lambda place: -surest[:, place].sum())
    ]
