"""Compares two versions of a model on the same photos: agreement, accuracy and time."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dogsnap.errors import InvalidArgument
from dogsnap.files import is_photo
from dogsnap.training.dataset import read_list
from dogsnap.training.evaluation.exported_version import ExportedVersion


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
) -> dict:
    """Run both versions on every photo, alternating, so that a busy machine affects both alike; ready for JSON.

    `photos`: their number. `agreement`: share with the same top class. `mean_difference`, `largest_difference`: of the
    probabilities, absolute. `accuracy`: of each version, on the `labelled` photos whose folder names their class; None without
    such photos. `milliseconds`: median time of each version for one photo, decoding included; `slowest`: its 95th percentile.
    `differing`: the photos whose top class is not the same, the surest answers first; `names` and `probabilities` by version,
    `right` the class that the folder names, or "". Files that cannot be decoded are reported and left out. Raises ValueError for
    versions of different classes, and when no photo is left.
    """

    def timed(version: ExportedVersion, contents: bytes) -> tuple[np.ndarray, float]:
        start = time.perf_counter()
        return version.answer([contents])["prediction"][0], 1000 * (time.perf_counter() - start)

    labels = first.description["labels"]
    if labels != second.description["labels"]:
        raise ValueError(
            "the versions have different classes or another order of them; expected the same"
        )
    read = []
    for photo in photos:
        try:
            pair = [timed(version, photo.read_bytes()) for version in (first, second)]
        except InvalidArgument:
            report(f"{photo} cannot be decoded and is left out")
        else:
            read.append((photo, *zip(*pair, strict=True)))
        progress()
    if not read:
        raise ValueError(f"none of {len(photos)} files can be decoded")
    kept, answers, times = zip(*read, strict=True)
    return _compared(np.stack(answers, axis=1), np.array(times), kept, labels)


def _compared(
    probabilities: np.ndarray, times: np.ndarray, photos: Sequence[Path], labels: Sequence[dict]
) -> dict:
    """`probabilities` (2, n, classes), `times` (n, 2) in milliseconds."""
    best, surest = probabilities.argmax(-1), probabilities.max(-1)
    difference = np.abs(probabilities[0] - probabilities[1])
    names = [label["name"] for label in labels]
    # The class that a photo's folder <id>-<name> gives, -1 where it gives none.
    place = {label["id"]: number for number, label in enumerate(labels)}
    classes = np.array([place.get(photo.parent.name.split("-")[0], -1) for photo in photos])
    labelled = classes >= 0
    differing = [
        {
            "photo": photos[each],
            "names": [names[one] for one in best[:, each]],
            "probabilities": surest[:, each].tolist(),
            "right": names[classes[each]] if labelled[each] else "",
        }
        for each in np.flatnonzero(best[0] != best[1])
    ]
    return {
        "photos": len(photos),
        "agreement": float((best[0] == best[1]).mean()),
        "mean_difference": float(difference.mean()),
        "largest_difference": float(difference.max()),
        "labelled": int(labelled.sum()),
        "accuracy": (best == classes)[:, labelled].mean(-1).tolist() if labelled.any() else None,
        "milliseconds": np.median(times, axis=0).tolist(),
        "slowest": np.percentile(times, 95, axis=0).tolist(),
        "differing": sorted(differing, key=lambda each: -sum(each["probabilities"])),
    }
