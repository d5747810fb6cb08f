"""Fits what the network on phones needs to answer by itself: temperature,
groups, thresholds and a dog score, on what its kernels of 8 bits see; and
measures its answers.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
import openvino
import tensorflow as tf
from dogsnap.exporting.eight_bits import write_onnx
from dogsnap.exporting.export import ExportError, read_answering, read_json
from dogsnap.exporting.phone import FITTED, ONNX, known_labels, network_graph
from dogsnap.files import write_json
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.answers.levels import Levels
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions.phone_files import DESCRIPTION, FOLDER, parts_of
from dogsnap.training import scoring, thresholds
from dogsnap.training.dataset import breeds_of, paths_of
from dogsnap.training.evaluation.labelled_photos import read_known

from lab import decision_fit
from lab.calibration import Answers, Pass, Photos, fit_decision
from lab.photo_lists import contents_of, every_second_photo, folds
from lab.trainer import with_whole_pictures

MADE_BY = "python -m lab calibrate --phone 1"
# Shares of a photo's width and height around its middle that the network looks at. Lab note: with
# both, two points more of the whole validation pictures are right.
PARTS = (1.0, 0.8)
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
Photo = Path | bytes


def fit(
    folder: Path,
    photos: Photos,
    ranks: Path,
    work: Path,
) -> dict[str, Any]:
    """Write FITTED in `folder`, which has what `second_opinion.fit` writes;
    returns the scores.

    The arguments are those of `calibration.calibrate`. Photos of taught breeds
    take no part: their rows were fitted on them. Raises ExportError, OSError.
    """
    stored = read_answering(folder.resolve().name, folder)
    if stored.opinion is None:
        raise ExportError(f"{folder} has no network beside; run `python -m lab opinion`")
    head = stored.opinion.breed_weights(stored.description.get("taught", ()))
    validation, others = with_whole_pictures(photos.validation), photos.others.photos
    shown = [*paths_of(validation), *others]
    click.echo(f"looking at {len(shown)} photos")
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / ONNX
        write_onnx(network_graph(stored.opinion.network, *head), file)
        logits = run(file, shown, PARTS)
    count, whole = len(validation), np.array([example.is_whole for example in validation])
    known, largest = logits[:count], logits.max(-1)
    seen = Pass(np.zeros((count, 1)), known, np.zeros_like(known), largest[:count])
    said = Answers(breeds_of(validation), whole, folds(validation), seen, seen, None)
    scores = fit_decision(said, "int8", known_labels(stored), ranks)
    # Lab note: the largest logit alone tells dogs. With 99.4 % of the web photos kept, and PARTS of 1
    # alone, it refuses 98.2 % of 220 photos without a dog and 89.3 % of the 1,377 here; a regression
    # on the features 71.8 and 86.3 %, the odds of all classes of dogs 99.5 and 85.0 %.
    bias = -float(largest[:count].mean() + largest[count:].mean()) / 2 if others else 0.0
    dogs = 1 / (1 + np.exp(-largest - bias))
    threshold = decision_fit.dog_threshold(dogs[:count], whole, dogs[count:])
    fitted = {
        "made_by": MADE_BY,
        "network": stored.opinion.sha256,
        "parts": PARTS,
        "dog_bias": round(bias, 4),
        "calibration": {**scores["calibration"], "dog_threshold": threshold},
        "validation": scores["validation"],
    }
    write_json(fitted, folder / FITTED)
    return scores


def run(file: Path, photos: Sequence[Photo], parts: Sequence[float]) -> np.ndarray:
    """The scores (n, k) that the network in an ONNX file gives photos, the mean
    of those of the `parts` of their width and height around the middle.
    """
    network = openvino.Core().compile_model(str(file), "CPU", EXACT)
    _, side, _, _ = network.input(0).shape
    found = []
    for photo in photos:
        contents = contents_of(photo)
        views = []
        for part in parts:
            whole = round(side / part)
            image = photos_to_images(tf.constant([contents]), (whole, whole)).numpy()
            border = (whole - side) // 2
            middle = image[:, border : border + side, border : border + side]
            views.append(network(np.ascontiguousarray(middle))[0][0].copy())
        found.append(np.mean(views, axis=0))
    return np.stack(found)


@dataclass(frozen=True)
class PhoneNetwork:
    """The network that a version has for phones, and what it answers there."""

    version: Path

    @cached_property
    def description(self) -> Mapping[str, Any]:
        stated: Mapping[str, Any] = read_json(self.version / FOLDER / DESCRIPTION)
        return stated

    @cached_property
    def levels(self) -> Levels:
        return Levels.read(self.description)

    def answers(self, photos: Sequence[Photo]) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities of the breeds (n, classes), and of a dog (n,)."""
        logits = run(self.version / FOLDER / ONNX, photos, parts_of(self.description))
        dogs = 1 / (1 + np.exp(-logits.max(-1) - self.description["dog_bias"]))
        calibration = Calibration.of(self.description, logits.shape[1])
        return calibration.probabilities(logits), dogs


def measure(network: PhoneNetwork, root: Path) -> dict[str, Any]:
    """How good its answers are on the lists below `root`, ready for JSON: the
    photos from the web, and those that taught nothing of what shows no dog.
    """
    labels, decision = network.description["labels"], network.levels.decision
    examples = read_known(root / "web_dogs", None, labels, None, click.echo)
    breeds = breeds_of(examples)
    probabilities, dogs = network.answers(paths_of(examples))
    is_dog = decision.sees_dog(dogs)
    _, others = network.answers(every_second_photo(root / "not_dogs", 1, click.echo))
    return {
        "photos": len(breeds),
        "top1": scoring.share(probabilities.argmax(-1) == breeds),
        "levels": thresholds.report(network.levels, probabilities, breeds, is_dog),
        "no dog refused": scoring.share(~decision.sees_dog(others)),
    }
