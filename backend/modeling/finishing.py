"""From a trained network to the artefacts that ship: dog head, calibration, float16 weights, labels, recipe, scores.

It trains no breed layer and exports nothing: `export.py` builds version 1 from what is written here.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np

from backend.modeling import evaluation
from backend.modeling.architectures import STORED_WEIGHTS, feature_extractor, save_stored_weights
from backend.modeling.dataset import Example
from backend.modeling.recipes import Recipe
from backend.modeling.training import plain_batches, training_batches

DOG_VIEWS, NO_DOG_VIEWS = 0.25, 6.0  # augmented views a photo: 12,000 photos of dogs stand against some hundred others


def finish(
    model: keras.Model,
    recipe: Recipe,
    labels: list[dict],
    training: list[Example],
    validation: list[Example],
    no_dogs: list[Path],
    out: Path,
    report: Callable[[str], None],
) -> dict:
    """Fit the dog head, calibrate on `validation`, write everything below `out`, and return the scores.

    `model` float32; `no_dogs`: photos that show no dog, for the dog head alone (empty: everything stays a dog).
    Raises OSError when the disk is full; files of an earlier training stay whole until the new ones are.
    """
    if no_dogs:
        fit_dog_head(model, recipe, training, no_dogs, report)
    report(f"calibrating on {len(validation)} validation photos")
    breeds, logits, dog = raw_answers(model, validation, recipe)
    calibration = evaluation.calibrate(logits, breeds, dog)
    if not no_dogs:
        calibration = evaluation.Calibration(calibration.temperature, 0.0, calibration.confident_threshold)
    probabilities = evaluation.softmax(logits / calibration.temperature)
    validated = evaluation.report(probabilities, breeds, labels, calibration.confident_threshold)
    scores = {"calibration": evaluation.as_json(calibration), "validation": validated}
    write_artefacts(model, recipe, labels, scores, out)
    return scores


def fit_dog_head(
    model: keras.Model, recipe: Recipe, dogs: list[Example], no_dogs: list[Path], report: Callable[[str], None]
) -> None:
    """Logistic regression of "is this a dog" on the pooled features of augmented views, both kinds weighing the same."""
    report(f"dog head: {len(dogs)} photos of dogs, {len(no_dogs)} of none")
    extractor = feature_extractor(model)
    others = [Example(path, 0) for path in no_dogs]
    features = [_views(extractor, dogs, DOG_VIEWS, recipe), _views(extractor, others, NO_DOG_VIEWS, recipe)]
    target = np.concatenate([np.full(len(part), place == 0, np.float32) for place, part in enumerate(features)])
    weights = {1: 0.5 / target.mean(), 0: 0.5 / (1 - target.mean())}
    dense = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(1e-4))
    head = keras.Sequential([keras.Input(features[0].shape[1:]), dense])
    head.compile(keras.optimizers.Adam(2e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    head.fit(np.concatenate(features), target[:, None], 64, 40, class_weight=weights, verbose=0)
    model.get_layer("dog").set_weights(dense.get_weights())


def _views(extractor: keras.Model, examples: list[Example], views: float, recipe: Recipe) -> np.ndarray:
    steps = max(1, round(views * len(examples) / recipe.batch))
    batches = training_batches(examples, recipe, recipe.seed).take(steps)
    return np.concatenate([np.asarray(extractor.predict_on_batch(image)) for image, _ in batches])


def raw_answers(
    model: keras.Model, examples: list[Example], recipe: Recipe
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The network's logits for photos as they are served: breeds int (n,), breed logits (n, classes), dog logits (n,)."""
    breeds, logits, dog = [], [], []
    for image, target in plain_batches(examples, recipe.size, recipe.batch):
        answer = model.predict_on_batch(image)
        breeds.append(target["breeds"])
        logits.append(answer["breeds"])
        dog.append(answer["dog"][:, 0])
    return np.concatenate(breeds), np.concatenate(logits), np.concatenate(dog)


def write_artefacts(model: keras.Model, recipe: Recipe, labels: list[dict], scores: dict, out: Path) -> None:
    """Write weights, labels, recipe and scores below `out`, each file replaced only when its successor is whole."""
    out.mkdir(parents=True, exist_ok=True)
    save_stored_weights(model, recipe.architecture, out / STORED_WEIGHTS)
    for name, content in (("labels", labels), ("recipe", asdict(recipe)), ("scores", scores)):
        write_json(content, out / f"{name}.json")


def write_json(content: object, path: Path) -> None:
    """Write readable JSON in one step: the old file stays until the new one is whole."""
    temporary = path.with_name(f".partial.{path.name}")
    temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
