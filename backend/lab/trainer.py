"""Trains a recipe stage by stage, with checkpoints to resume from."""

import json
import math
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from dogsnap import processor
from dogsnap.exporting import Report
from dogsnap.files import json_text, replacing, write_json
from dogsnap.networks import architectures
from dogsnap.serving.photos.preprocessing import resize
from dogsnap.training.dataset import Example

from lab import picture_views
from lab.losses import box_loss
from lab.recipes import Recipe, Stage

ADAM = (0.9, 0.999)  # decay of the mean and of the squares
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
    report: Report,
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
    build = partial(
        architectures.ARCHITECTURES[recipe.architecture], classes, dropout=recipe.dropout
    )
    model = build(recipe.size)
    start = folder / f"start{WEIGHTS}"
    if start.is_file():
        model.load_weights(start)
    else:
        architectures.load_stored_weights(model, weights)
        remember(run, folder)
        _save_weights(model, start)
    remember(run, folder)
    teacher = None
    if recipe.teacher_share:
        teacher = _run_teacher(model, recipe, training, folder, report)
    for place, stage in enumerate(recipe.stages):
        staged = build(stage.size) if stage.size else model
        staged.set_weights(model.get_weights())
        _run_stage(staged, recipe, place, training, validation, folder, report, teacher)
        model.set_weights(staged.get_weights())
    if recipe.soup:
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


def _run_teacher(
    model: keras.Model, recipe: Recipe, training: list[Example], folder: Path, report: Report
) -> np.ndarray:
    """The starting network's probabilities for the crop of each training photo,
    float32 (n, classes); kept in `folder`.
    """
    file = folder / "teacher.npy"
    if not file.is_file():
        report(f"teacher: answers to {len(training)} photos")
        crops = picture_views.map_in_parallel(
            picture_views.files(training),
            lambda files: resize(picture_views.load(files).crop, recipe.size),
        )
        answers = []
        for images in crops.batch(recipe.batch).prefetch(2):
            answers.append(keras.ops.softmax(model.predict_on_batch(images)["breeds"]))
        with replacing(file) as temporary:
            np.save(temporary, np.concatenate(answers))
    return np.load(file)


def _average(model: keras.Model, recipe: Recipe, folder: Path) -> None:
    """Give the model the mean of the recipe's `soup`, with the box layers of
    the last stage in it.
    """
    mean = [np.zeros_like(weight) for weight in model.get_weights()]
    for stage, share in recipe.soup:
        model.load_weights(folder / f"{stage}{WEIGHTS}")
        for index, weight in enumerate(model.get_weights()):
            mean[index] += share * weight
    boxes = _paths(model, BOX_LAYERS)
    for weight, value in zip(model.weights, mean, strict=True):
        if weight.path not in boxes:
            weight.assign(value)


def _paths(model: keras.Model, names: Sequence[str]) -> set[str]:
    """The paths of the weights of those of these layers that the model has."""
    paths = set()
    for layer in model.layers:
        if layer.name in names:
            paths |= {weight.path for weight in layer.weights}
    return paths


def use_precision(precision: str) -> None:
    """Set Keras' dtype policy for new networks to `precision`, or for "auto" to
    the fastest one.
    """
    keras.config.set_dtype_policy(fastest_precision() if precision == "auto" else precision)


def fastest_precision() -> str:
    """`mixed_bfloat16` where the processor or a GPU multiplies bfloat16
    natively, else `float32`.

    Lab note, training step of Inception v3 at 299x299: 2 times as fast with
    AMX, 1.55 times with AVX512-BF16 (Zen 5, two cores).
    """
    native = tf.config.list_physical_devices("GPU") or processor.instructions() & processor.BFLOAT16
    return "mixed_bfloat16" if native else "float32"


def remember(run: dict[str, Any], folder: Path) -> None:
    """Record what is trained in this folder.

    Raises ValueError if it belongs to another training.
    """
    refuse_other_training(run, folder)
    if not (folder / "run.json").is_file():
        write_json(run, folder / "run.json")


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
    examples: list[Example], recipe: Recipe, seed: int, seen: int = 0
) -> tf.data.Dataset:
    """Endless batches of `picture_views.view`s, every photo once per epoch:
    (image float32 (n, h, w, 3) in [0, 1], target).

    The target: "breeds" int32 (n,), "number" int64 (n,), the example's index,
    and "box" float32 (n, 5), the four sides and 1 where they are known. `seen`:
    photos of this seed's order that an interrupted training has already used.
    """

    def make_view(files: picture_views.Files) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        image, box, known = picture_views.view(picture_views.load(files), recipe.size)
        box = tf.concat([box, [known]], axis=0)
        return image, {"breeds": files.breed, "number": files.number, "box": box}

    files = picture_views.files(examples).shuffle(len(examples), seed=seed).repeat().skip(seen)
    views = picture_views.map_in_parallel(files, make_view)
    return views.batch(recipe.batch, drop_remainder=True).prefetch(2)


def plain_batches(examples: list[Example], size: tuple[int, int], batch: int) -> tf.data.Dataset:
    """The photos as they are served, in order: (image float32 (n, h, w, 3) in
    [0, 1], {"breeds": int32 (n,)}).
    """
    photos = picture_views.map_in_parallel(
        picture_views.files(examples),
        lambda files: (resize(picture_views.read(files.path), size), {"breeds": files.breed}),
    )
    return photos.batch(batch).prefetch(2)


def features_of(extractor: keras.Model, batches: tf.data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Pooled features float32 (n, f) of a data set's images, and their "breeds"
    int32 (n,); with a progress bar.
    """
    progress = keras.utils.Progbar(int(batches.cardinality()))
    features, breeds = [], []
    for image, target in batches:
        features.append(extractor.predict_on_batch(image))
        breeds.append(target["breeds"])
        progress.add(1)
    return np.concatenate(features), np.concatenate(breeds)


def _loss(recipe: Recipe) -> keras.losses.Loss:
    smoothing = 0.0 if recipe.teacher_share else recipe.label_smoothing
    return keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)


def _run_stage(
    model: keras.Model,
    recipe: Recipe,
    place: int,
    training: list[Example],
    validation: list[Example],
    folder: Path,
    report: Report,
    teacher: np.ndarray | None,
) -> None:
    """Train the stage at `place` in the recipe, or load it."""
    stage, seed = recipe.stages[place], recipe.seed + 1 + place
    done, checkpoint = folder / f"{stage.name}{WEIGHTS}", folder / f"{stage.name}-checkpoint"
    if done.is_file():
        model.load_weights(done)
        report(f"{stage.name}: done before, taken from {done}")
        return
    steps = max(1, round(stage.epochs * len(training) / recipe.batch))
    chunk = min(recipe.chunk, steps)
    learner = learner_of(model, stage)
    losses, weights = {"breeds": _loss(recipe)}, {"breeds": 1.0}
    if "cells" in learner.output:
        centres = model.get_layer("box").centres
        losses["cells"] = lambda targets, cells: box_loss(targets, cells, centres)
        weights["cells"] = recipe.box_weight
    top1 = keras.metrics.CategoricalAccuracy(name="top1")
    learner.compile(
        _optimizer(recipe, stage, steps, model), losses, weights, metrics={"breeds": top1}
    )
    report(
        f"{stage.name}: {steps} steps of {recipe.batch} photos, "
        f"{len(learner.trainable_weights)} tensors learn"
    )

    def with_targets(
        image: tf.Tensor, target: dict[str, Any], teacher: np.ndarray | None = None
    ) -> tuple[tf.Tensor, dict[str, Any]]:
        """A batch of `training_batches` or `plain_batches` with the targets of
        the learner's outputs.
        """
        breeds = tf.one_hot(target["breeds"], learner.output["breeds"].shape[-1])
        if teacher is not None:
            answers = tf.gather(tf.constant(teacher), target["number"])
            share = recipe.teacher_share
            breeds = (1 - share) * breeds + share * answers
        targets = {"breeds": breeds}
        if "cells" in learner.output:
            targets["cells"] = target.get("box", tf.zeros((tf.shape(image)[0], 5)))
        return image, targets

    seen = chunks_done(checkpoint) * chunk * recipe.batch
    size = model.input_shape[1:3]
    batches = training_batches(training, replace(recipe, size=size), seed, seen)
    held_out = plain_batches(with_whole_pictures(validation), size, recipe.batch).map(with_targets)
    try:
        learner.fit(
            batches.map(partial(with_targets, teacher=teacher)),
            epochs=math.ceil(steps / chunk), steps_per_epoch=chunk, validation_data=held_out, validation_freq=3,
            shuffle=False, callbacks=_callbacks(model, checkpoint),
        )  # fmt: skip
    except RuntimeError as error:
        raise ValueError(f"stage {stage.name} with peak rate {stage.rate}: {error}") from error
    _save_weights(model, done)
    shutil.rmtree(checkpoint)
    scores = learner.evaluate(held_out, verbose=0, return_dict=True)
    top1 = next(value for name, value in scores.items() if name.endswith("top1"))
    report(f"{stage.name}: averaged weights: validation top-1 {top1:.4f}")


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
        return json.loads(note.read_text())["epoch"]
    except ValueError:
        for torn in (note, checkpoint / "latest.weights.h5"):
            torn.unlink(missing_ok=True)
            before = torn.with_name(f"{torn.name}.bkp")
            if before.is_file():
                os.replace(before, torn)
        return chunks_done(checkpoint)


def learner_of(model: keras.Model, stage: Stage) -> keras.Model:
    """What a stage trains: images -> "breeds" and, if there is one, "cells",
    with the layers up to `from_block` frozen.
    """
    layers = architectures.backbone_of(model).layers
    names = [layer.name for layer in layers]
    first = names.index(stage.from_block) + 1 if stage.from_block else 0
    for place, layer in enumerate(layers):
        layer.trainable = place >= first
    outputs = {name: model.output[name] for name in ("breeds", "cells") if name in model.output}
    return keras.Model(model.input, outputs)


class SgdWithAdam(keras.optimizers.SGD):
    """SGD, but for `adam_paths`, whose gradients differ much in size, Adam
    (Kingma and Ba 2014) at `adam_share` of the rate.
    """

    def __init__(
        self, *options: Any, adam_paths: Collection[str], adam_share: float, **named: Any
    ) -> None:
        super().__init__(*options, **named)
        self._adam_paths, self._adam_share = adam_paths, adam_share

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self._squares = {}
        for place, variable in enumerate(variables):
            if variable.path in self._adam_paths:
                square = self.add_variable_from_reference(variable, name="square")
                self._squares[place] = square

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        place = self._get_variable_index(variable)
        if place not in self._squares:
            super().update_step(gradient, variable, learning_rate)
            return
        mean, square = self.momentums[place], self._squares[place]
        step = keras.ops.cast(self.iterations + 1, variable.dtype)
        mean.assign(ADAM[0] * mean + (1 - ADAM[0]) * gradient)
        square.assign(ADAM[1] * square + (1 - ADAM[1]) * keras.ops.square(gradient))
        unbiased = mean / (1 - ADAM[0] ** step), square / (1 - ADAM[1] ** step)
        rate = keras.ops.cast(learning_rate, variable.dtype) * self._adam_share
        variable.assign_sub(rate * unbiased[0] / (keras.ops.sqrt(unbiased[1]) + 1e-7))


def _optimizer(
    recipe: Recipe, stage: Stage, steps: int, model: keras.Model
) -> keras.optimizers.Optimizer:
    """SGD 0.9 Nesterov; the norm is clipped because a fresh kernel's first
    gradients are a hundred times the usual.
    """
    warmup = min(stage.warmup, steps // 4)
    lowest = 0.01 if stage.falls else 1.0
    rate = keras.optimizers.schedules.CosineDecay(
        stage.rate / 20, steps - warmup, alpha=lowest, warmup_target=stage.rate, warmup_steps=warmup
    )
    return SgdWithAdam(
        rate, momentum=0.9, nesterov=True, global_clipnorm=recipe.clip_norm, use_ema=True, ema_momentum=recipe.average,
        adam_paths=_paths(model, FRESH), adam_share=recipe.head_rate,
    )  # fmt: skip


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
