"""Measures a network of own classes on the photos held out, and writes it as versions."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import keras
import numpy as np

from dogsnap.exporting import Report
from dogsnap.exporting.export import STATISTICS_FILE, Trained, export_stored, read_json
from dogsnap.exporting.merging.merge import merge
from dogsnap.exporting.merging.options import Options
from dogsnap.exporting.publication import together
from dogsnap.files import write_json
from dogsnap.networks.architectures import STORED_WEIGHTS, save_stored_weights
from dogsnap.networks.temperature import fit_calibration
from dogsnap.serving.feedback.report import wilson
from dogsnap.serving.versions import checksums, saved_model_file
from dogsnap.training.class_statistics import ClassStatistics
from dogsnap.training.dataset import breeds_of
from dogsnap.training.own_classes import SEED, ClassPhotos, features_and_logits
from dogsnap.training.thresholds import find_threshold

MADE_BY = "dogsnap train 1"
SHOWN_PAIRS = 5
SHOWN_PHOTOS = 3


def refuse_other_files(out: Path, photos: Path) -> None:
    """Raises ValueError for what can be no model's folder: that of `photos`, one
    within them, a file, a version, and a folder with a network that `dogsnap
    train` did not make, whose files would be lost.
    """
    file = out / "scores.json"
    fault = ""
    if out.exists() and not out.is_dir():
        fault = "is a file"
    elif out.resolve().is_relative_to(photos.resolve()):
        fault = "is among the photos"
    elif saved_model_file.find(out):
        fault = "is a version"
    elif file.is_file() and not _is_own(read_json(file)):
        fault = "holds another network"
    if fault:
        raise ValueError(f"{out} {fault}; expected a folder for the model, such as models/mine")


def _is_own(scores: Any) -> bool:
    return isinstance(scores, dict) and scores.get("made_by") == MADE_BY


def write(
    model: keras.Model,
    photos: ClassPhotos,
    start: Trained,
    out: Path,
    precision: float,
    subject: str,
    report: Report,
) -> list[Path]:
    """Write weights, labels, recipe, scores and statistics below `out`, which has
    the model's name, and the next two versions: of image tensors, and of photos.

    The scores, the temperature and the threshold (see
    `thresholds.find_threshold`) are those on the photos held out; they are
    reported. Raises OSError when the disk is full.
    """
    features, _ = features_and_logits(model, photos.training)
    held_features, logits = features_and_logits(model, photos.held_out)
    classes = breeds_of(photos.held_out)
    calibration = fit_calibration(logits, classes, largest_lapse=0.0)
    probabilities = calibration.probabilities(logits)
    found = find_threshold(probabilities, classes, precision)
    accuracy = _tell_accuracy(photos, probabilities.argmax(-1), report)
    report(str(found))
    stated: dict[str, Any] = {"temperature": calibration.temperature}
    if found.threshold is not None:
        stated["confident_threshold"] = found.threshold
    out.mkdir(parents=True, exist_ok=True)
    save_stored_weights(model, out / STORED_WEIGHTS)
    weights = checksums.digest(out / STORED_WEIGHTS)
    recipe = {
        "name": "own classes",
        "architecture": start.architecture,
        "size": list(start.size),
        "seed": SEED,
        "subject": subject,
        "photos": len(photos.training),
    }
    scores = {
        "made_by": MADE_BY,
        "weights": weights,
        "calibration": stated,
        "validation": {"photos": len(classes), **accuracy},
    }
    write_json(photos.labels, out / "labels.json")
    write_json(recipe, out / "recipe.json")
    write_json(scores, out / "scores.json")
    statistics = ClassStatistics.of(features, breeds_of(photos.training), held_features, classes)
    statistics.save(out / STATISTICS_FILE, weights, MADE_BY)
    with together(out) as folder:
        exported = export_stored(out.name, out, folder.parent, report)
        written = [exported.folder, merge(exported, Options(), report)]
    return [out / version.name for version in written]


def _tell_accuracy(photos: ClassPhotos, answered: np.ndarray, report: Report) -> dict[str, float]:
    """Report how many photos are right, and which pairs of classes are confused."""
    classes = breeds_of(photos.held_out)
    right = int((answered == classes).sum())
    interval = wilson(right, len(classes))
    assert interval is not None  # a photo of each class is held out
    report(
        f"right: {right} of {len(classes)} photos held out, {interval['value']:.1%} "
        f"({interval['low']:.1%} to {interval['high']:.1%} with 95 % confidence)"
    )
    confused = defaultdict[tuple[int, int], list[Path]](list)
    for example, answer in zip(photos.held_out, answered, strict=True):
        if answer != example.breed:
            confused[example.breed, int(answer)].append(example.path)
    pairs = sorted(confused.items(), key=lambda pair: -len(pair[1]))
    for (true, answer), paths in pairs[:SHOWN_PAIRS]:
        names = [photos.labels[place]["name"] for place in (true, answer)]
        shown = ", ".join(map(str, paths[:SHOWN_PHOTOS]))
        report(f"  {names[0]} taken for {names[1]}: {len(paths)} ({shown})")
    return {"top1": interval["value"], "low": interval["low"], "high": interval["high"]}
