"""From a trained network to the files in models/: box layers, float16 weights,
labels, recipe, class statistics.
"""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
import tensorflow as tf
from dogsnap.exporting.export import Trained
from dogsnap.files import write_json
from dogsnap.networks import architectures
from dogsnap.training import own_classes
from dogsnap.training.dataset import Example, breeds_of

from lab import picture_views
from lab.losses import box_loss
from lab.recipes import Recipe
from lab.trainer import BOX_LAYERS, fastest_precision, in_precision

PAIR_SHARE = 0.3  # of the views for the box that show two dogs side by side
BOX_VIEWS, BOX_EPOCHS, BOX_BATCH, BOX_RATE = 8000, 6, 64, 7e-4


def finish(
    model: keras.Model,
    recipe: Recipe,
    labels: list[dict[str, Any]],
    training: list[Example],
    out: Path,
) -> None:
    """Fit the box layers, and write weights, labels and recipe below `out`.

    `model` float32, as it is served. Raises OSError when the disk is full; the
    weights of an earlier training stay whole until the new ones are.
    """
    if any(example.box for example in training):
        fit_box_head(model, recipe, training)
    out.mkdir(parents=True, exist_ok=True)
    architectures.save_stored_weights(model, out / architectures.STORED_WEIGHTS)
    write_json(labels, out / "labels.json")
    write_json(asdict(recipe), out / "recipe.json")


def statistics_features(
    trained: Trained, model: keras.Model, training: list[Example], validation: list[Example]
) -> dict[str, np.ndarray]:
    """What `ClassStatistics.of` takes, by the `model` of `trained` in the fastest
    precision.

    Every second photo is enough, for the statistics as for what a new class
    costs, and keeps the file small.
    """
    build = partial(trained.build, len(trained.labels))
    network = in_precision(fastest_precision(), model, build)
    taught, checked = training[::2], validation[::2]
    features, _ = own_classes.features_and_logits(network, taught)
    features_of_checked, _ = own_classes.features_and_logits(network, checked)
    return {
        "features": features,
        "classes": breeds_of(taught),
        "checked": features_of_checked,
        "checked_classes": breeds_of(checked),
    }


def fit_box_head(model: keras.Model, recipe: Recipe, training: list[Example]) -> None:
    """Train the box layers of `model` by Adam on maps of views whose box is
    known; they start from what they are.
    """
    maps, boxes = _maps(model, recipe, [example for example in training if example.box])
    layers = [model.get_layer(name) for name in BOX_LAYERS]
    head = keras.Sequential([keras.Input(maps.shape[1:]), *layers])
    steps = BOX_EPOCHS * len(maps) // BOX_BATCH
    rate = keras.optimizers.schedules.CosineDecay(BOX_RATE, steps, alpha=0.02)
    centres = model.get_layer("box").centres
    head.compile(
        keras.optimizers.Adam(rate), lambda targets, cells: box_loss(targets, cells, centres)
    )
    losses = head.fit(maps, boxes, BOX_BATCH, BOX_EPOCHS, verbose=0).history["loss"]
    click.echo(f"box: loss {losses[0]:.3f} to {losses[-1]:.3f}")


def _maps(
    model: keras.Model, recipe: Recipe, examples: list[Example]
) -> tuple[np.ndarray, np.ndarray]:
    """Feature maps float16 (n, h, w, channels) of views, and their boxes with a
    1 behind, (n, 5).
    """
    views = picture_views.views(examples, recipe.size, plain=True)
    pairs = tf.data.Dataset.zip(views, views.skip(1)).map(picture_views.side_by_side)
    views = tf.data.Dataset.sample_from_datasets([views, pairs], [1 - PAIR_SHARE, PAIR_SHARE])
    backbone = keras.Model(model.input, model.get_layer("backbone").output)
    maps, boxes = [], []
    for view in views.batch(recipe.batch).take(BOX_VIEWS // recipe.batch).prefetch(2):
        maps.append(backbone.predict_on_batch(view.image).astype(np.float16))
        boxes.append(np.concatenate([view.box, view.known[:, np.newaxis]], axis=1))
    return np.concatenate(maps), np.concatenate(boxes)
