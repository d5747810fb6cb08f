"""Trains a recipe: head on cached features, then stage by stage, with checkpoints to resume from."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from backend.files import replacing
from backend.serving.photos.preprocessing import decode, resize
from backend.training.architectures import (
    ARCHITECTURES,
    backbone_of,
    feature_extractor,
    in_precision,
    load_imagenet_weights,
    require_room,
    to_backbone_range,
)
from backend.training.augmentation import augment, mixing
from backend.training.dataset import Example
from backend.training.mending import settle_statistics
from backend.training.recipes import Recipe, Soup, Stage

Report = Callable[[str], None]

# With 64 positions per photo at 299x299, more would change means and variances by less than a hundredth.
SETTLING_PHOTOS = 500


def train(
    recipe: Recipe,
    training: list[Example],
    validation: list[Example],
    classes: int,
    weights: str,
    folder: Path,
    report: Report,
    scenes: Sequence[Path] = (),
) -> keras.Model:
    """Train `recipe` and return the model in float32, its weights averaged over the last steps.

    `scenes`: photos of anything but dogs. If the starting weights have holes, these replace the photos that the weights were
    trained on; without them the training photos do, which costs a point of top-1 before training.
    `folder` keeps a file per finished stage and the checkpoint of the running one: called again with the same folder it goes
    on where it stopped. Raises ValueError when `folder` belongs to another recipe, the weights do not fit, or the loss stops
    being a number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    decisive = {name: value for name, value in asdict(recipe).items() if name != "note"}
    remember({"recipe": decisive, "classes": classes}, folder)
    keras.utils.set_random_seed(recipe.seed)
    build = partial(ARCHITECTURES[recipe.architecture], classes, recipe.size, recipe.dropout)
    model = build()
    head = _file_of("head", folder)
    if head.is_file():
        model.load_weights(head)
    else:
        mended = load_imagenet_weights(model, weights)
        settle_statistics(backbone_of(model), mended, _settling_batches(scenes, training, recipe))
        fit_head(model, recipe, training, validation, report)
        _save_weights(model, head)
    for place, stage in enumerate(recipe.stages):
        _run_stage(model, recipe, stage, training, validation, folder, recipe.seed + 1 + place, report)
    if recipe.soup:
        model.set_weights(_mean(model, recipe.soup, folder))
    return in_precision("float32", model, build)


def _mean(model: keras.Model, soup: Soup, folder: Path) -> list[np.ndarray]:
    """The weighted mean of the stages' weights in `folder`; changes `model`."""
    mean = [np.zeros_like(weight) for weight in model.get_weights()]
    for stage, share in soup:
        model.load_weights(_file_of(stage, folder))
        mean = [so_far + share * weight for so_far, weight in zip(mean, model.get_weights(), strict=True)]
    return mean


def _file_of(stage: str, folder: Path) -> Path:
    return folder / f"{stage}.weights.h5"


def use_precision(precision: str) -> None:
    """Set Keras' dtype policy for new networks to `precision`, or for "auto" to the fastest one."""
    keras.config.set_dtype_policy(fastest_precision() if precision == "auto" else precision)


def fastest_precision() -> str:
    """`mixed_bfloat16` where the processor or a GPU multiplies bfloat16 natively (twice as fast on AMX), else `float32`."""
    if tf.config.list_physical_devices("GPU"):
        return "mixed_bfloat16"
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text() if cpu.is_file() else ""
    return "mixed_bfloat16" if "amx_bf16" in flags else "float32"


def _settling_batches(scenes: Sequence[Path], training: list[Example], recipe: Recipe) -> Iterator[tf.Tensor]:
    photos = [Example(path, 0) for path in scenes] or training
    for image, _ in plain_batches(photos[:SETTLING_PHOTOS], recipe.size, recipe.batch):
        yield to_backbone_range(image)


def remember(run: dict, folder: Path) -> None:
    """Record what is trained in this folder. Raises ValueError if it belongs to another training."""
    told, file = json.dumps(run, indent=1), folder / "run.json"
    if not file.is_file():
        with replacing(file) as temporary:
            temporary.write_text(told)
    elif file.read_text() != told:
        raise ValueError(f"{folder} holds another training (see {file}); give another --work folder, or remove it")


def _save_weights(model: keras.Model, path: Path) -> None:
    """Replace the file atomically: after a full disk or a kill the old one is left."""
    require_room(path.parent, 5 * model.count_params())
    with replacing(path) as temporary:
        model.save_weights(temporary)


def training_batches(
    examples: list[Example], recipe: Recipe, seed: int, strength: float = 1.0, seen: int = 0
) -> tf.data.Dataset:
    """Endless augmented batches: (image float32 (n, h, w, 3) in [0, 1], {"breeds": int32 (n,)}), every photo once per epoch.

    `strength`: of the augmentation, see `augmentation.augment`. `seen`: how many photos of this seed's order an interrupted
    training has already used.
    """
    dataset = photo_files(examples).shuffle(len(examples), seed=seed).repeat().skip(seen)
    dataset = dataset.map(
        lambda path, breed: (augment(decode(tf.io.read_file(path)), recipe.size, strength), {"breeds": breed}),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return dataset.batch(recipe.batch, drop_remainder=True).prefetch(2)


def plain_batches(examples: list[Example], size: tuple[int, int], batch: int) -> tf.data.Dataset:
    """The photos as they are served, in order: (image float32 (n, h, w, 3) in [0, 1], {"breeds": int32 (n,)})."""
    dataset = photo_files(examples).map(
        lambda path, breed: (resize(decode(tf.io.read_file(path)), size), {"breeds": breed}),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return dataset.batch(batch).prefetch(2)


def photo_files(examples: list[Example]) -> tf.data.Dataset:
    paths = [str(example.path) for example in examples]
    breeds = np.array([example.breed for example in examples], np.int32)
    return tf.data.Dataset.from_tensor_slices((paths, breeds))


def fit_head(
    model: keras.Model, recipe: Recipe, training: list[Example], validation: list[Example], report: Report
) -> None:
    """Fit the breed head on pooled features of augmented views that are computed once: minutes instead of hours."""
    steps = max(1, recipe.head_views * len(training) // recipe.batch)
    report(f"head: features of {steps * recipe.batch} views")
    extractor = feature_extractor(model)
    features, breeds = _features(
        extractor, training_batches(training, recipe, recipe.seed, recipe.head_strength).take(steps), steps
    )
    held_out = _features(extractor, plain_batches(validation, recipe.size, recipe.batch), None)
    head = keras.Sequential([keras.Input(features.shape[1:]), keras.layers.Dense(model.get_layer("breeds").units)])
    head.compile(keras.optimizers.AdamW(1e-3, weight_decay=1e-2), _loss(recipe), metrics=["accuracy"])
    history = head.fit(
        features, _one_hot(breeds, head), recipe.batch * 4, recipe.head_epochs, verbose=0,
        validation_data=(held_out[0], _one_hot(held_out[1], head)),
    )  # fmt: skip
    model.get_layer("breeds").set_weights(head.layers[-1].get_weights())
    report(f"head: validation top-1 {history.history['val_accuracy'][-1]:.4f}")


def _features(extractor: keras.Model, batches: tf.data.Dataset, steps: int | None) -> tuple[np.ndarray, np.ndarray]:
    breeds = []

    def images(image, target):
        breeds.append(target["breeds"])
        return image

    progress = keras.utils.Progbar(steps)
    parts = []
    for image, target in batches:
        parts.append(np.asarray(extractor.predict_on_batch(images(image, target))))
        progress.add(1)
    return np.concatenate(parts), np.concatenate(breeds)


def _one_hot(breeds: np.ndarray, model: keras.Model) -> np.ndarray:
    return keras.utils.to_categorical(breeds, model.output_shape[-1])


def _loss(recipe: Recipe) -> keras.losses.Loss:
    return keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=recipe.label_smoothing)


def _run_stage(
    model: keras.Model,
    recipe: Recipe,
    stage: Stage,
    training: list[Example],
    validation: list[Example],
    folder: Path,
    seed: int,
    report: Report,
) -> None:
    done, checkpoint = _file_of(stage.name, folder), folder / f"{stage.name}-checkpoint"
    if done.is_file():
        model.load_weights(done)
        report(f"{stage.name}: done before, taken from {done}")
        return
    if stage.start:
        model.set_weights(_mean(model, stage.start, folder))
    steps = max(1, round(stage.epochs * len(training) / recipe.batch))
    chunk = min(recipe.chunk, steps)
    learner = breed_learner(model, stage)
    learner.compile(_optimizer(recipe, stage, steps), _loss(recipe), metrics=["accuracy"])
    report(f"{stage.name}: {steps} steps of {recipe.batch} photos, {len(learner.trainable_weights)} tensors learn")
    seen = chunks_done(checkpoint) * chunk * recipe.batch
    batches = training_batches(training, recipe, seed, stage.strength, seen).map(_as_one_hot(learner))
    held_out = plain_batches(validation, recipe.size, recipe.batch).map(_as_one_hot(learner))
    try:
        learner.fit(
            batches.map(mixing(stage.mix_up, stage.cut_mix)),
            epochs=-(-steps // chunk), steps_per_epoch=chunk, validation_data=held_out, validation_freq=3,
            shuffle=False, callbacks=_callbacks(model, stage, checkpoint, batches),
        )  # fmt: skip
    except RuntimeError as error:
        raise ValueError(f"stage {stage.name} with peak rate {stage.rate}: {error}") from error
    _save_weights(model, done)
    shutil.rmtree(checkpoint)
    report(f"{stage.name}: averaged weights: validation top-1 {learner.evaluate(held_out, verbose=0)[1]:.4f}")


def chunks_done(checkpoint: Path) -> int:
    """How many chunks of a stage its checkpoint holds; 0 without one.

    Keras writes the number to a small file after the weights. If a kill has damaged it, the checkpoint before is used.
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


def breed_learner(model: keras.Model, stage: Stage) -> keras.Model:
    """The part of the model that a stage trains: images -> breed logits, with the layers up to `from_block` frozen."""
    backbone = backbone_of(model)
    names = [layer.name for layer in backbone.layers]
    held = names.index(stage.from_block) + 1 if stage.from_block else 0
    for place, layer in enumerate(backbone.layers):
        layer.trainable = place >= held
    return keras.Model(model.input, model.output["breeds"])


def _as_one_hot(learner: keras.Model) -> Callable:
    classes = learner.output_shape[-1]
    return lambda image, target: (image, tf.one_hot(target["breeds"], classes))


def _optimizer(recipe: Recipe, stage: Stage, steps: int) -> keras.optimizers.Optimizer:
    """SGD 0.9 Nesterov; the norm is clipped because a fresh kernel's first gradients are a hundred times the usual."""
    warmup = min(stage.warmup, steps // 4)
    rate = keras.optimizers.schedules.CosineDecay(
        stage.rate / 20, steps - warmup, alpha=0.01, warmup_target=stage.rate, warmup_steps=warmup
    )
    return keras.optimizers.SGD(
        rate, momentum=0.9, nesterov=True, global_clipnorm=recipe.clip_norm, use_ema=True, ema_momentum=recipe.average
    )


def _callbacks(
    model: keras.Model, stage: Stage, checkpoint: Path, batches: tf.data.Dataset
) -> list[keras.callbacks.Callback]:
    folder = checkpoint.parent
    callbacks = [
        # It raises: a stage that only stopped would count as finished, and its last good checkpoint would be overwritten.
        keras.callbacks.TerminateOnNaN(raise_error=True),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: require_room(folder, 16 * model.count_params())),
        # The one before is kept in case of a kill while the newest is written; both stay until the stage's own file is
        # complete.
        keras.callbacks.BackupAndRestore(checkpoint, double_checkpoint=True, delete_checkpoint=False),
    ]
    if stage.drift_every:
        callbacks.append(StatisticsDrift(backbone_of(model), batches, stage.drift_every))
    return callbacks


class StatisticsDrift(keras.callbacks.Callback):
    """Moves the stored batch statistics by a hundredth towards those of the training photos at intervals.

    Training with the batches' own statistics breaks the fitted upper layers (see `architectures.StoredStatistics`); never
    moving
    them would leave a third of the network's tensors untrained. Moved slowly, the weights can follow.
    """

    def __init__(self, backbone: keras.Model, batches: tf.data.Dataset, every: int) -> None:
        super().__init__()
        self._every = every
        self._photos = iter(batches)
        self._forward = tf.function(lambda image: backbone(to_backbone_range(image), training=True))

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Run one batch in training mode, which changes only the statistics."""
        if int(self.model.optimizer.iterations) % self._every == 0:
            self._forward(next(self._photos)[0])
