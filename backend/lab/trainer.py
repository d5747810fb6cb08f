"""Trains a recipe stage by stage; interrupted, it goes on where it stopped."""

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
import keras
import numpy as np
import tensorflow as tf
from dogsnap import processor
from dogsnap.networks import architectures
from dogsnap.training import own_classes
from dogsnap.training.dataset import Example, breeds_of

from lab import picture_views
from lab.array_files import keep_rows
from lab.losses import box_loss
from lab.photo_lists import with_whole_pictures
from lab.recipes import Recipe, Stage

BOX_LAYERS = ("box_channels", "box_surroundings", "cells")
FRESH = ("features", *BOX_LAYERS)  # layers that Adam trains
TEACHER_CHUNK = 1024  # photos of a file of answers


def train(
    recipe: Recipe,
    training: list[Example],
    validation: list[Example],
    classes: int,
    weights: Path,
    work: Path,
) -> keras.Model:
    """Train `recipe` and return the model in float32, its weights the mean of
    the recipe's `soup`, but for the box layers, which are the last stage's.

    `weights`: a file of a whole network (`artefacts` writes it). `work` keeps
    for each recipe a file per finished stage and the checkpoint of the running
    one: called again with the same folder it goes on where it stopped. Raises
    ValueError when the weights do not fit, RuntimeError when the loss stops
    being a number.
    """
    folder = work / hashlib.sha256(repr((recipe, classes)).encode()).hexdigest()[:16]
    keras.utils.set_random_seed(recipe.seed)
    architecture = architectures.ARCHITECTURES[recipe.architecture]
    build = partial(architecture, classes, dropout=recipe.dropout)
    model = build(recipe.size)
    architectures.load_stored_weights(model, weights)
    taught = keep_rows(folder, "teacher", training, TEACHER_CHUNK, partial(_ask_teacher, model))
    labels = np.eye(classes, dtype=np.float32)[breeds_of(training)]
    share = recipe.teacher_share
    targets = (1 - share) * labels + share * taught["answers"]
    parts = {"start": model.get_weights()}
    for stage in recipe.stages:
        staged = build(stage.size or recipe.size)
        staged.set_weights(model.get_weights())
        fit = partial(_fit_stage, staged, recipe, stage, training, targets, folder)
        own_classes.fit_once(staged, folder / f"{stage.name}.weights.h5", fit)
        top1 = own_classes.accuracy(staged, with_whole_pictures(validation))
        click.echo(f"{stage.name}: averaged weights: validation top-1 {top1:.4f}")
        parts[stage.name] = staged.get_weights()
        model.set_weights(parts[stage.name])
    for index, weight in enumerate(model.weights):
        if not _is_of(weight, BOX_LAYERS):
            weight.assign(sum(share * parts[name][index] for name, share in recipe.soup))
    return in_precision("float32", model, lambda: build(recipe.size))


def in_precision(
    precision: str, model: keras.Model, build: Callable[[], keras.Model]
) -> keras.Model:
    """A network with the weights of `model` that computes in `precision`;
    `build` creates one like it.
    """
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    same = build()
    keras.config.set_dtype_policy(policy)
    same.set_weights(model.get_weights())
    return same


def _ask_teacher(model: keras.Model, photos: Sequence[Example]) -> dict[str, np.ndarray]:
    """The starting network's probabilities for the crops, float32 (n, classes)."""
    _, logits = own_classes.features_and_logits(model, photos)
    return {"answers": np.asarray(keras.ops.softmax(logits))}


def _is_of(weight: keras.Variable, layers: Sequence[str]) -> bool:
    return weight.path.partition("/")[0] in layers


def fastest_precision() -> str:
    """`mixed_bfloat16` where the processor or a GPU multiplies bfloat16
    natively, else `float32`.

    Lab note, training step of Inception v3 at 299x299: 2 times as fast with
    AMX, 1.55 times with AVX512-BF16 (Zen 5, two cores).
    """
    native = tf.config.list_physical_devices("GPU") or processor.instructions() & processor.BFLOAT16
    return "mixed_bfloat16" if native else "float32"


def training_batches(
    examples: list[Example], targets: np.ndarray, size: tuple[int, int], batch: int
) -> tf.data.Dataset:
    """Endless batches of `picture_views.views`: (image float32 (n, h, w, 3) in
    [0, 1], targets).

    These: "breeds" float32 (n, classes), the row of each photo in `targets`, and
    "cells" float32 (n, 5), the four sides of the box and 1 where they are known.
    """

    def with_targets(view: picture_views.View) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        cells = tf.concat([view.box, view.known[:, tf.newaxis]], axis=1)
        return view.image, {"breeds": tf.gather(targets, view.row), "cells": cells}

    views = picture_views.views(examples, size).batch(batch, drop_remainder=True)
    return views.map(with_targets).prefetch(2)


def _fit_stage(
    model: keras.Model,
    recipe: Recipe,
    stage: Stage,
    training: list[Example],
    targets: np.ndarray,
    folder: Path,
) -> None:
    steps = max(1, round(stage.epochs * len(training) / recipe.batch))
    chunk = min(recipe.chunk, steps)
    learner = learner_of(model, stage)
    centres = model.get_layer("box").centres
    learner.compile(
        _optimizer(recipe, stage, steps),
        {
            "breeds": keras.losses.CategoricalCrossentropy(from_logits=True),
            "cells": lambda boxes, cells: box_loss(boxes, cells, centres),
        },
        {"breeds": 1.0, "cells": recipe.box_weight},
    )
    learner.fit(
        training_batches(training, targets, model.input_shape[1:3], recipe.batch),
        epochs=math.ceil(steps / chunk),
        steps_per_epoch=chunk,
        shuffle=False,
        callbacks=[
            # It raises: a stage that only stopped would count as finished.
            keras.callbacks.TerminateOnNaN(raise_error=True),
            keras.callbacks.BackupAndRestore(folder / f"{stage.name}-checkpoint"),
        ],
    )


def learner_of(model: keras.Model, stage: Stage) -> keras.Model:
    """What a stage trains: images -> "breeds" and "cells", with the layers up to
    `from_block` frozen.
    """
    layers = architectures.backbone_of(model).layers
    names = [layer.name for layer in layers]
    first = names.index(stage.from_block) + 1 if stage.from_block else 0
    for place, layer in enumerate(layers):
        layer.trainable = place >= first
    return keras.Model(model.input, {name: model.output[name] for name in ("breeds", "cells")})


def _optimizer(recipe: Recipe, stage: Stage, steps: int) -> keras.optimizers.Optimizer:
    """SGD 0.9 Nesterov, and Adam for the layers FRESH, whose gradients differ
    much in size.

    The norm is clipped because a fresh kernel's first gradients are a hundred
    times the usual; of both apart.
    """
    warmup = min(stage.warmup, steps // 4)

    def schedule(peak: float) -> keras.optimizers.schedules.LearningRateSchedule:
        lowest = 0.01 if stage.falls else 1.0
        return keras.optimizers.schedules.CosineDecay(
            peak / 20, steps - warmup, alpha=lowest, warmup_target=peak, warmup_steps=warmup
        )

    shared = {"global_clipnorm": recipe.clip_norm, "use_ema": True, "ema_momentum": recipe.average}
    sgd = keras.optimizers.SGD(schedule(stage.rate), momentum=0.9, nesterov=True, **shared)
    adam = keras.optimizers.Adam(schedule(recipe.head_rate * stage.rate), **shared)
    return keras.optimizers.MultiOptimizer(lambda weight: adam if _is_of(weight, FRESH) else sgd)
