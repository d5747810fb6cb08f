"""Trains a recipe stage by stage, with checkpoints to resume from."""

import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
import tensorflow as tf
from dogsnap import processor
from dogsnap.files import json_text, replacing, write_json
from dogsnap.networks import architectures
from dogsnap.training import own_classes
from dogsnap.training.dataset import Example, breeds_of

from lab import picture_views
from lab.array_files import keep_arrays
from lab.losses import box_loss
from lab.recipes import Recipe, Stage

WEIGHTS = ".weights.h5"  # of the start, and of every stage that is finished
BOX_LAYERS = ("box_channels", "box_surroundings", "cells")
FRESH = ("features", *BOX_LAYERS)  # layers that Adam trains


def train(
    recipe: Recipe,
    training: list[Example],
    validation: list[Example],
    classes: int,
    weights: Path,
    folder: Path,
) -> keras.Model:
    """Train `recipe` and return the model in float32, its weights averaged over
    the last steps.

    `weights`: a file of a whole network (`artefacts` writes it). `folder` keeps
    a file per finished stage and the checkpoint of the running one: called again with the
    same folder it goes on where it stopped. Raises ValueError when `folder`
    belongs to another recipe, the weights do not fit, or the loss stops being a
    number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = {"recipe": asdict(recipe), "classes": classes}
    refuse_other_training(run, folder)
    keras.utils.set_random_seed(recipe.seed)
    architecture = architectures.ARCHITECTURES[recipe.architecture]
    build = partial(architecture, classes, dropout=recipe.dropout)
    model = build(recipe.size)
    start = folder / f"start{WEIGHTS}"
    if not start.is_file():
        architectures.load_stored_weights(model, weights)
        write_json(run, folder / "run.json")
        _save_weights(model, start)
    model.load_weights(start)
    taught = keep_arrays(folder / "teacher.npz", partial(_ask_teacher, model, training))
    labels = np.eye(classes, dtype=np.float32)[breeds_of(training)]
    share = recipe.teacher_share
    targets = (1 - share) * labels + share * taught["answers"]
    for place, stage in enumerate(recipe.stages):
        staged = build(stage.size or recipe.size)
        staged.set_weights(model.get_weights())
        _run_stage(staged, recipe, place, training, targets, validation, folder)
        model.set_weights(staged.get_weights())
    _average(model, recipe, folder)
    return in_precision("float32", model, lambda: build(recipe.size))


def in_precision(
    precision: str, model: keras.Model, build: Callable[[], keras.Model]
) -> keras.Model:
    """A network with the weights of `model` that computes in `precision`;
    `build` creates one like it.
    """
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        same = build()
    finally:
        keras.config.set_dtype_policy(policy)
    same.set_weights(model.get_weights())
    return same


def _ask_teacher(model: keras.Model, training: list[Example]) -> dict[str, np.ndarray]:
    """The starting network's probabilities for the crop of each training photo,
    float32 (n, classes).
    """
    _, logits = own_classes.features_and_logits(model, training)
    return {"answers": np.asarray(keras.ops.softmax(logits))}


def _average(model: keras.Model, recipe: Recipe, folder: Path) -> None:
    """Give the model the mean of the recipe's `soup`, with the box layers of
    the last stage in it.
    """
    mean = [np.zeros_like(weight) for weight in model.get_weights()]
    for stage, share in recipe.soup:
        model.load_weights(folder / f"{stage}{WEIGHTS}")
        for index, weight in enumerate(model.get_weights()):
            mean[index] += share * weight
    for weight, value in zip(model.weights, mean, strict=True):
        if not _is_of(weight, BOX_LAYERS):
            weight.assign(value)


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


def refuse_other_training(run: dict[str, Any], folder: Path) -> None:
    """Raises ValueError if the folder belongs to another training."""
    file = folder / "run.json"
    if file.is_file() and file.read_text(encoding="utf-8", errors="replace") != json_text(run):
        raise ValueError(
            f"{folder} holds another training (see {file}); give another --work folder, "
            "or remove it"
        )


def _save_weights(model: keras.Model, path: Path) -> None:
    architectures.require_space(path.parent, 5 * model.count_params())
    with replacing(path) as temporary:
        model.save_weights(temporary)


def training_batches(
    examples: list[Example],
    targets: np.ndarray,
    size: tuple[int, int],
    batch: int,
    seed: int,
    seen: int = 0,
) -> tf.data.Dataset:
    """Endless batches of `picture_views.view`s, every photo once per epoch:
    (image float32 (n, h, w, 3) in [0, 1], targets).

    These: "breeds" float32 (n, classes), the row of each photo in `targets`, and
    "cells" float32 (n, 5), the four sides of the box and 1 where they are known.
    They begin behind the first `seen` views.
    """

    def make_view(
        files: picture_views.Files, breeds: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        image, box, known = picture_views.view(picture_views.load(files), size)
        return image, {"breeds": breeds, "cells": tf.concat([box, [known]], axis=0)}

    rows = tf.data.Dataset.from_tensor_slices(targets)
    pairs = tf.data.Dataset.zip(picture_views.files(examples), rows)
    pairs = pairs.shuffle(len(examples), seed=seed).repeat().skip(seen)
    views = picture_views.map_in_parallel(pairs, make_view)
    return views.batch(batch, drop_remainder=True).prefetch(2)


def _run_stage(
    model: keras.Model,
    recipe: Recipe,
    place: int,
    training: list[Example],
    targets: np.ndarray,
    validation: list[Example],
    folder: Path,
) -> None:
    """Train the stage at `place` in the recipe, or load it."""
    stage = recipe.stages[place]
    done, checkpoint = folder / f"{stage.name}{WEIGHTS}", folder / f"{stage.name}-checkpoint"
    if done.is_file():
        model.load_weights(done)
        click.echo(f"{stage.name}: done before, taken from {done}")
        return
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
    click.echo(
        f"{stage.name}: {steps} steps of {recipe.batch} photos, "
        f"{len(learner.trainable_weights)} tensors learn"
    )
    size, seed = model.input_shape[1:3], recipe.seed + 1 + place
    seen = chunks_done(checkpoint) * chunk * recipe.batch
    try:
        learner.fit(
            training_batches(training, targets, size, recipe.batch, seed, seen),
            epochs=math.ceil(steps / chunk),
            steps_per_epoch=chunk,
            shuffle=False,
            callbacks=_callbacks(model, checkpoint),
        )
    except RuntimeError as error:
        raise ValueError(f"stage {stage.name} with peak rate {stage.rate}: {error}") from error
    _save_weights(model, done)
    shutil.rmtree(checkpoint)
    top1 = own_classes.accuracy(model, with_whole_pictures(validation))
    click.echo(f"{stage.name}: averaged weights: validation top-1 {top1:.4f}")


def with_whole_pictures(examples: list[Example]) -> list[Example]:
    """The photos, and the whole pictures that crops among them were cut from."""
    wholes = []
    for crop in examples:
        if crop.frame is not None and not crop.is_whole:
            wholes.append(Example(crop.frame, crop.breed, crop.frame, crop.box))
    return [*examples, *wholes]


def chunks_done(checkpoint: Path) -> int:
    """How many chunks of a stage its checkpoint holds; 0 without one.

    Keras writes the number to a small file after the weights. If a kill has
    damaged it, the checkpoint before is used.
    """
    note = checkpoint / "training_metadata.json"
    if not note.is_file():
        return 0
    try:
        return int(json.loads(note.read_text())["epoch"])
    except ValueError:
        for torn in (note, checkpoint / "latest.weights.h5"):
            torn.unlink(missing_ok=True)
            before = torn.with_name(f"{torn.name}.bkp")
            if before.is_file():
                os.replace(before, torn)
        return chunks_done(checkpoint)


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


def _callbacks(model: keras.Model, checkpoint: Path) -> list[keras.callbacks.Callback]:
    needed = 16 * model.count_params()  # bytes
    return [
        # It raises: a stage that only stopped would count as finished, and its last
        # good checkpoint would be overwritten.
        keras.callbacks.TerminateOnNaN(raise_error=True),
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda *_: architectures.require_space(checkpoint.parent, needed)
        ),
        # The one before is kept in case of a kill while the newest is written; both
        # stay until the stage's file is complete.
        keras.callbacks.BackupAndRestore(
            checkpoint, double_checkpoint=True, delete_checkpoint=False
        ),
    ]
