"""From a trained network to the files in models/: dog head, calibration, float16 weights, labels, recipe, scores."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from backend.files import replacing
from backend.fitting import scoring, second_pass, thresholds, windows
from backend.fitting.augmentation import paste
from backend.fitting.class_statistics import STATISTICS_FILE, ClassStatistics
from backend.fitting.dataset import Example
from backend.fitting.recipes import Recipe
from backend.fitting.trainer import (
    BOX_LAYERS,
    features_of,
    photo_files,
    plain_batches,
    training_batches,
    with_whole_pictures,
)
from backend.networks.architectures import (
    ARCHITECTURES,
    STORED_WEIGHTS,
    dog_logit,
    feature_extractor,
    in_precision,
    load_stored_weights,
    save_stored_weights,
)
from backend.networks.boxes import BoxLoss
from backend.serving.versions import checksums

# Views per photo, to balance 12,000 photos of dogs against some hundred others.
PAIR_SHARE = 0.3  # of the views for the box that show two dogs side by side
BOX_VIEWS, BOX_EPOCHS, BOX_BATCH, BOX_RATE = 8000, 6, 64, 7e-4
DOG_VIEWS, PASTED_VIEWS, NO_DOG_VIEWS = 0.12, 0.1, 6.0


@dataclass(frozen=True)
class Photos:
    """What a network is finished with. `no_dogs`: photos that show no dog, for the dog head alone; without, all stay dogs."""

    training: list[Example]
    validation: list[Example]
    no_dogs: list[Path]


def finish(
    model: keras.Model,
    recipe: Recipe,
    labels: list[dict],
    log_prior: np.ndarray,
    photos: Photos,
    out: Path,
    report: Callable[[str], None],
) -> dict:
    """Fit the dog head, calibrate on the validation photos, write everything below `out`, and return the scores.

    `model` float32, as it is served; features to fit on are computed in Keras' dtype policy. `log_prior` (classes,): see
    `popularity`.
    Raises OSError when the disk is full; files of an earlier training stay whole until the new ones are.
    """
    training, no_dogs = photos.training, photos.no_dogs
    views = _like(model, recipe, keras.config.dtype_policy().name)
    others = fit_dog_head(model, views, recipe, training, no_dogs, report) if no_dogs else np.zeros(0)
    if any(example.box for example in training) and "cells" in model.output:
        fit_box_head(model, views, recipe, training, report)
    validation = with_whole_pictures(photos.validation)
    report(f"calibrating on {len(validation)} validation photos")
    breeds, logits, dog = raw_answers(model, validation, recipe)
    calibration = scoring.calibrate(logits, breeds, dog, others, log_prior)
    scaled = scoring.Calibration.of(calibration, len(labels)).scaled
    probabilities = scoring.softmax(scaled(logits))
    whole = np.array([example.is_whole for example in validation])
    claims = thresholds.fit(probabilities, breeds, whole, labels)
    validated = scoring.report(probabilities, breeds, labels, claims["confident_threshold"])
    out.mkdir(parents=True, exist_ok=True)
    # Weights and their thresholds are replaced together, after everything is measured.
    with replacing(out / STORED_WEIGHTS) as weights:
        save_stored_weights(model, recipe.architecture, weights)
        stored = scoring.softmax(scaled(stored_answers(model, recipe, validation, weights)))
        scores = {
            "weights": checksums.digest(weights),  # which all other artefacts are of
            "calibration": {**calibration, **claims},
            "validation": validated,
            "float16": scoring.cost_of_storing(probabilities, stored, breeds),
        }
        if "box" in model.output:
            report("choosing the second pass")
            scores["second_pass"] = second_pass.choose(
                _like(model, recipe, keras.config.dtype_policy().name), validation, scores["calibration"], labels
            )
    write_descriptions(recipe, labels, scores, out)
    write_class_statistics(views, recipe, with_whole_pictures(training), validation, scores["weights"], out, report)
    return scores


def _like(model: keras.Model, recipe: Recipe, precision: str) -> keras.Model:
    """The same network in another precision; in bfloat16 it takes half the time, where the processor multiplies that."""
    classes = model.output["breeds"].shape[-1]
    return in_precision(
        precision, model, partial(ARCHITECTURES[recipe.architecture], classes, recipe.size, recipe.dropout)
    )


def write_class_statistics(
    model: keras.Model,
    recipe: Recipe,
    training: list[Example],
    validation: list[Example],
    weights: str,
    out: Path,
    report: Callable[[str], None],
) -> None:
    """Write below `out` what `dogsnap teach` needs of the photos: see `class_statistics.ClassStatistics`.

    `weights`: the SHA-256 of the stored weights.

    Every second validation photo is enough to measure what a new class costs, and keeps the file small.
    """
    report(f"class statistics of {len(training)} training photos")
    extractor = feature_extractor(model)
    parts = [
        features_of(extractor, plain_batches(part, recipe.size, recipe.batch)) for part in (training, validation[::2])
    ]
    ClassStatistics.of(*parts[0], *parts[1]).save(out / STATISTICS_FILE, weights)


def stored_answers(model: keras.Model, recipe: Recipe, examples: list[Example], weights: Path) -> np.ndarray:
    """Breed logits (n, classes) of a float32 network like `model` that holds the stored `weights`."""
    again = _like(model, recipe, "float32")
    load_stored_weights(again, weights)
    return raw_answers(again, examples, recipe)[1]


def fit_dog_head(
    model: keras.Model,
    views: keras.Model,
    recipe: Recipe,
    dogs: list[Example],
    no_dogs: list[Path],
    report: Callable[[str], None],
) -> np.ndarray:
    """Logistic regression of "is this a dog" on pooled features of dogs near, far and pasted into scenes, and of those scenes.

    `views`: the network in the precision that computes the features. Returns logits (n,) of `no_dogs`, each from a head that was
    fitted without that photo, so that a threshold can be chosen on them.
    """
    report(f"dog head: {len(dogs)} photos of dogs, {len(no_dogs)} of none")
    extractor = feature_extractor(views)
    others = [Example(path, place) for place, path in enumerate(no_dogs)]
    near = features_of(extractor, _views(dogs, DOG_VIEWS, recipe))[0]
    pasted, scenes = features_of(extractor, _pasted(dogs, others, PASTED_VIEWS, recipe))
    negative, places = features_of(extractor, _views(others, NO_DOG_VIEWS, recipe))
    plain = features_of(extractor, plain_batches(others, recipe.size, recipe.batch))[0]
    unseen = np.zeros((len(others), 1))
    for fold in (0, 1):
        # A held-out scene must not occur behind a dog in training either.
        positive = np.concatenate([near, pasted[scenes % 2 != fold]])
        weights, bias = _fit_logistic(positive, negative[places % 2 != fold])
        unseen[fold::2] = plain[fold::2] @ weights + bias
    model.get_layer("dog").set_weights(_fit_logistic(np.concatenate([near, pasted]), negative))
    weights, bias = model.get_layer("breeds").get_weights()
    return np.asarray(dog_logit(unseen, plain @ weights + bias))[:, 0]


def fit_box_head(
    model: keras.Model, views: keras.Model, recipe: Recipe, training: list[Example], report: Callable[[str], None]
) -> None:
    """Train the box layers of `model` by Adam on maps of views whose box is known; they start from what they are.

    `views`: the network in the precision that computes the maps.
    """
    maps, boxes = _maps(views, recipe, [example for example in training if example.box])
    report(f"box: {len(maps)} views")
    head = _head_like(model, maps.shape[1:])
    rate = keras.optimizers.schedules.CosineDecay(BOX_RATE, max(1, BOX_EPOCHS * len(maps) // BOX_BATCH), alpha=0.02)
    head.compile(keras.optimizers.Adam(rate), BoxLoss(model.get_layer("box").centres))
    batches = tf.data.Dataset.from_tensor_slices((maps, boxes)).shuffle(len(maps), seed=recipe.seed).batch(BOX_BATCH)
    history = head.fit(
        batches.map(lambda each, box: (tf.cast(each, tf.float32), box)), epochs=BOX_EPOCHS, shuffle=False, verbose=0
    )
    for name in BOX_LAYERS:
        model.get_layer(name).set_weights(head.get_layer(name).get_weights())
    report(f"box: loss {history.history['loss'][0]:.3f} to {history.history['loss'][-1]:.3f}")


def _maps(model: keras.Model, recipe: Recipe, examples: list[Example]) -> tuple[np.ndarray, np.ndarray]:
    """Feature maps float16 (n, h, w, channels) of views, and their boxes with a 1 behind, (n, 5)."""
    views = windows.files(examples).shuffle(len(examples), seed=recipe.seed).repeat()
    views = views.map(
        lambda path, frame, box, *_: windows.view(windows.load(path, frame, box), recipe.size, plain=True),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    pairs = tf.data.Dataset.zip(views, views.skip(1)).map(windows.side_by_side)
    views = tf.data.Dataset.sample_from_datasets([views, pairs], [1 - PAIR_SHARE, PAIR_SHARE], seed=recipe.seed)
    backbone = keras.Model(model.input, model.get_layer("backbone").output)
    maps, boxes = [], []
    for view in views.batch(recipe.batch).take(max(1, BOX_VIEWS // recipe.batch)).prefetch(2):
        maps.append(backbone.predict_on_batch(view.image).astype(np.float16))
        boxes.append(np.concatenate([view.box, view.known[:, np.newaxis]], axis=1))
    return np.concatenate(maps), np.concatenate(boxes)


def _head_like(model: keras.Model, shape: tuple[int, ...]) -> keras.Model:
    """The box layers alone, in float32, with the model's weights."""
    image = keras.Input(shape)
    x = image
    for name in BOX_LAYERS:
        layer = model.get_layer(name)
        x = type(layer).from_config({**layer.get_config(), "dtype": "float32"})(x)
    head = keras.Model(image, x)
    for name in BOX_LAYERS:
        head.get_layer(name).set_weights(model.get_layer(name).get_weights())
    return head


def _fit_logistic(positive: np.ndarray, negative: np.ndarray) -> list[np.ndarray]:
    """Weights (features, 1) and bias (1,) of a logistic regression between two sets of features with equal total weight."""
    target = np.concatenate([np.ones((len(positive), 1)), np.zeros((len(negative), 1))])
    weights = {1: 0.5 / target.mean(), 0: 0.5 / (1 - target.mean())}
    dense = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(1e-4), dtype="float32")
    head = keras.Sequential([keras.Input(positive.shape[1:]), dense])
    head.compile(keras.optimizers.Adam(2e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    head.fit(np.concatenate([positive, negative]), target, 64, 40, class_weight=weights, verbose=0)
    return dense.get_weights()


def _views(examples: list[Example], views: float, recipe: Recipe) -> tf.data.Dataset:
    return training_batches(examples, recipe, recipe.seed).take(max(1, round(views * len(examples) / recipe.batch)))


def _pasted(dogs: list[Example], scenes: list[Example], views: float, recipe: Recipe) -> tf.data.Dataset:
    """Batches of dogs pasted into scenes, with the scene's number."""
    steps = max(1, round(views * len(dogs) / recipe.batch))
    pairs = tf.data.Dataset.zip(
        photo_files(dogs).shuffle(len(dogs), seed=recipe.seed).repeat(), photo_files(scenes).repeat()
    )
    views_ = pairs.map(
        lambda dog, scene: (paste(windows.read(dog[0]), windows.read(scene[0]), recipe.size), {"breeds": scene[1]}),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return views_.batch(recipe.batch).take(steps)


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


def write_descriptions(recipe: Recipe, labels: list[dict], scores: dict, out: Path) -> None:
    """Write labels, recipe and scores below `out`; each file is replaced atomically. A recipe that trains nothing is not written:
    the weights have another one.
    """
    contents = {"labels": labels, "scores": scores} | ({"recipe": asdict(recipe)} if recipe.stages else {})
    for name, content in contents.items():
        write_json(content, out / f"{name}.json")


def write_json(content: object, path: Path) -> None:
    """Write indented JSON; the file is replaced atomically."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
