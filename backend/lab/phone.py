"""Fits what the network on phones needs to answer by itself: its last layer,
temperature, groups, thresholds and a dog score, on what its kernels of 8 bits
see; and measures its answers.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
import openvino
from dogsnap.exporting.eight_bits import quantize, write_onnx
from dogsnap.exporting.export import ExportError, read_answering, read_json
from dogsnap.exporting.phone import FITTED, ONNX, known_labels, network_graph
from dogsnap.files import write_json
from dogsnap.networks.dog_score import DogHead
from dogsnap.networks.halves import read_halves, write_halves
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.answers.levels import Levels
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions.phone_files import DESCRIPTION, FOLDER, parts_of
from dogsnap.training import scoring, thresholds
from dogsnap.training.dataset import breeds_of, class_ids, paths_of
from dogsnap.training.evaluation.labelled_photos import read_known

from lab import decision_fit, dog_score_fit
from lab.array_files import keep_rows
from lab.calibration import Answers, Pass, Photos, fit_decision
from lab.photo_lists import contents_of, every_second_photo, folds

MADE_BY = "python -m lab calibrate --phone 2"
# Shares of a photo's width and height around its middle that the network looks at. Lab note: with
# both, two points more of the whole validation pictures are right.
PARTS = (1.0, 0.8)
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
CHUNK = 1000  # photos of a file of features
# of the last layer: how much its squared change costs, and the target that all breeds share
PENALTY, SHARED = 0.1, 0.1
RATE, BATCH, EPOCHS, SEED = 1e-3, 256, 6, 1
DOG_PENALTY = 1.0  # of the squared weights of features with a spread of 1
FEATURES = "features"
Photo = Path | bytes


def fit(folder: Path, photos: Photos, ranks: Path, work: Path) -> dict[str, Any]:
    """Write FITTED in `folder`, which has what `second_opinion.fit` writes;
    returns the scores.

    The arguments are those of `calibration.calibrate`. Photos of taught breeds
    fit the last layer, and take no part in the rest. Raises ExportError,
    OSError.
    """
    stored = read_answering(folder.resolve().name, folder)
    if stored.opinion is None:
        raise ExportError(f"{folder} has no network beside; run `python -m lab opinion`")
    head = stored.opinion.breed_weights(stored.description.get("taught", ()))
    labels = known_labels(stored)
    places = {breed: place for place, breed in enumerate(class_ids(labels))}
    shown = {each.path: each.breed for each in photos.training}
    for breed in photos.breeds:
        if breed.id in places:
            shown |= dict.fromkeys(breed.photos, places[breed.id])
    if lacking := [breed for breed in places if places[breed] not in shown.values()]:
        raise ExportError(f"no photo of {', '.join(lacking)} trains; see --data and --taught")
    validation = photos.validation
    network, work = stored.opinion.network, work / f"phone-{stored.opinion.sha256[:16]}"
    taught = look(network, list(shown), work)
    seen = look(network, [*paths_of(validation), *photos.others], work)
    kernel, bias = fit_last_layer(taught, np.array(list(shown.values())), *head)
    is_dog = np.arange(len(seen)) < len(validation)
    whole = np.array([example.is_whole for example in validation])
    in_folds = np.concatenate([folds(validation), photos.other_folds])
    dog, dogs = fit_dogs(seen, (seen @ kernel + bias).max(-1), is_dog, in_folds)
    # What all breeds share changes the largest logit, and no probability of a breed.
    halves = write_halves(kernel + dog.weights[:, np.newaxis])
    weights, scales = quantize(read_halves(halves).reshape(kernel.shape))
    known = seen[is_dog] @ (weights * scales) + bias
    asked = Pass(np.zeros((len(known), 1)), known, np.zeros_like(known), known.max(-1))
    said = Answers(breeds_of(validation), whole, folds(validation), asked, asked, None)
    scores = fit_decision(said, "int8", labels, ranks)
    threshold = decision_fit.dog_threshold(dogs[is_dog], whole, dogs[~is_dog])
    fitted = {
        "made_by": MADE_BY,
        "network": stored.opinion.sha256,
        "parts": PARTS,
        "kernel": halves,
        "bias": np.round(bias.astype(float), 4).tolist(),
        "dog_bias": dog.bias,
        "calibration": {**scores["calibration"], "dog_threshold": threshold},
        "validation": scores["validation"],
    }
    write_json(fitted, folder / FITTED)
    shutil.rmtree(work)
    return scores


def look(network: keras.Model, photos: Sequence[Photo], work: Path) -> np.ndarray:
    """The features (n, f) that a network of `efficientnet_lite` gives photos in
    8 bits, the mean over PARTS. `work` keeps them, to go on from.
    """
    count = network.output[FEATURES].shape[-1]
    itself = np.eye(count, dtype=np.float32), np.zeros(count, np.float32)
    work.mkdir(parents=True, exist_ok=True)
    write_onnx(network_graph(network, *itself), work / ONNX)
    kept = keep_rows(
        work, "photos", photos, CHUNK, lambda chunk: {FEATURES: run(work / ONNX, chunk, PARTS)}
    )
    return kept[FEATURES]


def fit_last_layer(
    features: np.ndarray, breeds: np.ndarray, kernel: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel (f, k) and bias (k,) by which features (n, f) tell `breeds` int
    (n,), from what they are on.
    """
    keras.utils.set_random_seed(SEED)
    layer = keras.layers.Dense(
        len(bias), kernel_regularizer=lambda now: PENALTY * keras.ops.sum((now - kernel) ** 2)
    )
    model = keras.Sequential([keras.Input(features.shape[1:]), layer])
    layer.set_weights([kernel, bias])
    steps = EPOCHS * math.ceil(len(features) / BATCH)
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(RATE, steps)),
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=SHARED),
    )
    targets = np.eye(len(bias), dtype=np.float32)[breeds]
    model.fit(features, targets, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    fitted, offsets = layer.get_weights()
    return fitted, offsets


def fit_dogs(
    features: np.ndarray, largest: np.ndarray, is_dog: np.ndarray, in_folds: np.ndarray
) -> tuple[DogHead, np.ndarray]:
    """A head that tells dogs, and its probabilities (n,), each by a head that
    was fitted without the photo's fold.
    """

    def fit_on(chosen: np.ndarray) -> DogHead:
        dogs, others = chosen & is_dog, chosen & ~is_dog
        parts = features[dogs], largest[dogs], features[others], largest[others]
        return dog_score_fit.fit(*parts, DOG_PENALTY)

    told = np.zeros(len(features))
    for fold in np.unique(in_folds):
        own = in_folds == fold
        told[own] = dog_score_fit.probabilities(fit_on(~own), features[own], largest[own])
    return fit_on(np.ones_like(is_dog)), told


def run(file: Path, photos: Sequence[Photo], parts: Sequence[float]) -> np.ndarray:
    """The scores (n, k) that the network in an ONNX file gives photos, the mean
    of those of the `parts` of their width and height around the middle.
    """
    network = openvino.Core().compile_model(str(file), "CPU", EXACT)
    _, side, _, _ = network.input(0).shape
    found = []
    for photo in photos:
        contents = contents_of([photo])
        views = []
        for part in parts:
            whole = round(side / part)
            image = photos_to_images(contents, (whole, whole)).numpy()
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
