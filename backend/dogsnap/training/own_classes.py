"""Trains the shipped network on own classes: a new head first, then its upper blocks."""

import hashlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
import tensorflow as tf

from dogsnap.exporting import Report
from dogsnap.exporting.export import Trained
from dogsnap.files import json_text, replacing, write_json
from dogsnap.networks import architectures
from dogsnap.photo_endings import READ_ENDINGS
from dogsnap.serving.photos.preprocessing import decode, resize
from dogsnap.serving.versions import checksums
from dogsnap.training import dataset
from dogsnap.training.dataset import DatasetError, Example, breeds_of, photo_bytes

# Folders of a data set that was divided before.
SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing"}
HELD_OUT = 5  # one photo of so many trains nothing and measures
BATCH = 16
# Views of each photo that the new head is fitted on, and how often it sees each.
HEAD_VIEWS = 4
HEAD_EPOCHS = 40
HEAD_RATE = 1e-3
# Of Inception v3 the blocks behind this layer learn; of other networks the upper half.
LAST_FROZEN = "mixed7"
UPPER_EPOCHS = 8
UPPER_RATE = 1e-4
WEIGHT_DECAY = 1e-2
SMOOTHING = 0.1
SMALLEST_CROP = 0.6  # of the area of a photo, that a view shows
BRIGHTNESS = 0.15
CONTRAST = 0.2
SEED = 20


@dataclass(frozen=True)
class ClassPhotos:
    """`labels`: id and name of each class. `training` and `held_out`: the
    photos with the places of their classes among `labels`.
    """

    labels: list[dict[str, str]]
    training: list[Example]
    held_out: list[Example]


def read_classes(folder: Path, report: Report) -> ClassPhotos:
    """The photos of a folder with one folder for each class.

    A photo trains or is held out by the hash of its file, so that a copy lies on
    the same side. What cannot be read, and what lies in the folders of two
    classes, is left out and reported. Raises DatasetError for fewer than two
    classes, and for a class of fewer than two photos.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder} is no folder; expected one with a folder for each class")
    found: dict[str, list[Path]] = {}
    for path in dataset.list_photos(folder, report):
        name, *within = path.relative_to(folder).parts
        if within:
            found.setdefault(name, []).append(path)
        else:
            report(f"skipped {path}: it is in no folder of a class")
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in found:
            report(f"skipped {path}: it holds no photo, and is no class")
    names = list(found)
    if len(names) < 2:
        raise DatasetError(
            f"{folder} holds {len(names)} folders with photos; expected a folder for each class, "
            f"at least two, with {', '.join(READ_ENDINGS)} files"
        )
    labels = [{"id": name, "name": name.replace("_", " ")} for name in names]
    examples = []
    for place, paths in enumerate(found.values()):
        examples += [Example(path, place) for path in paths]
    is_divided = set(names) <= SPLITS
    if is_divided and not any(example.path.parent.parent == folder for example in examples):
        raise DatasetError(
            f"the folders of {folder} are {' and '.join(names)}, which hold folders of classes; "
            f"name one of these, such as {folder / names[0]}: one photo in five is held out"
        )
    by_content: dict[str, list[Example]] = {}
    for example in dataset.readable(examples, report):
        digest = hashlib.sha256(example.path.read_bytes()).hexdigest()
        by_content.setdefault(digest, []).append(example)
    photos = _leave_out_contradictions(by_content, report)
    training: list[Example] = []
    held_out: list[Example] = []
    for place, name in enumerate(names):
        of_class = sorted((digest, each) for digest, each in photos.items() if each.breed == place)
        if len(of_class) < 2:
            raise DatasetError(
                f"class {name} has {len(of_class)} photos that can be read and are of no other "
                "class; expected at least 2, and 20 are good"
            )
        apart = [each for digest, each in of_class if int(digest, 16) % HELD_OUT == 0]
        # At least one on each side, whatever the hashes say.
        apart = apart[: len(of_class) - 1] or [of_class[0][1]]
        held_out += apart
        training += [each for _, each in of_class if each not in apart]
    return ClassPhotos(labels, training, held_out)


def _leave_out_contradictions(
    by_content: Mapping[str, Sequence[Example]], report: Report
) -> dict[str, Example]:
    """One example for each file content, without those of two classes."""
    photos = {}
    for digest, same in by_content.items():
        if len({example.breed for example in same}) > 1:
            places = " and ".join(str(example.path) for example in same)
            report(f"{places} are one photo of two classes: left out")
        else:
            photos[digest] = same[0]
    return photos


def train(
    photos: ClassPhotos, start: Trained, work: Path, is_mirrored: bool, report: Report
) -> keras.Model:
    """The network `start` with a head for the classes, float32, whichever of
    head alone and upper blocks is better on the photos held out.

    `work` keeps what is done: called again it goes on there. `is_mirrored`: a
    mirrored photo shows the same class. Raises ValueError where `work` belongs
    to another training, or the weights do not fit; OSError where the disk is full.
    """
    work.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(SEED)
    model = start.build(len(photos.labels))
    architectures.share_all_but_breeds(model, start.load())
    _refuse_another_training(photos, start, is_mirrored, work)
    head = work / "head.weights.h5"
    fit_once(model, head, lambda: _fit_head(model, photos, is_mirrored))
    before = accuracy(model, photos.held_out)
    report(f"head alone: {before:.1%} of {len(photos.held_out)} photos held out are right")
    upper = work / "upper.weights.h5"
    backup = work / "backup"
    fit_once(model, upper, lambda: _train_upper_blocks(model, photos, backup, is_mirrored, report))
    after = accuracy(model, photos.held_out)
    report(f"with the upper blocks: {after:.1%}")
    if after < before:
        model.load_weights(head)
        report("the head alone is better, and is taken")
    return model


def fit_once(model: keras.Model, file: Path, fit: Callable[[], None]) -> None:
    """Fit the model and keep its weights in `file`; where a call before did, read them."""
    if not file.is_file():
        fit()
        with replacing(file) as temporary:
            model.save_weights(temporary)
    model.load_weights(file)


def _refuse_another_training(
    photos: ClassPhotos, start: Trained, is_mirrored: bool, work: Path
) -> None:
    """Photos are the same wherever they lie, and others under the same names are not."""
    listed = sorted((checksums.digest(each.path), each.breed) for each in photos.training)
    run = {
        "classes": [label["id"] for label in photos.labels],
        "photos": hashlib.sha256(repr(listed).encode()).hexdigest(),
        "mirrored": is_mirrored,
        "from": checksums.digest(start.weights),
    }
    file = work / "run.json"
    if file.is_file() and file.read_text(encoding="utf-8", errors="replace") != json_text(run):
        raise ValueError(
            f"{work} holds the training of other photos, from another network, or with other "
            "options; give another --work folder, or remove it"
        )
    write_json(run, file)


def views_of(
    examples: Sequence[Example],
    size: tuple[int, int],
    is_mirrored: bool | None = None,
    repeat: int = 1,
) -> tf.data.Dataset:
    """Batches of (image float32 (n, *size, 3) in [0, 1], class int32 (n,)).

    `is_mirrored`: None for the photos as they are served, in their order; else
    random views of them, in random order, half of them mirrored if it is True.
    """
    paths = [os.fsencode(example.path) for example in examples]
    pairs = tf.data.Dataset.from_tensor_slices((paths, breeds_of(list(examples)).astype(np.int32)))
    if is_mirrored is not None:
        pairs = pairs.shuffle(len(paths), seed=SEED).repeat(repeat)

    def view(path: tf.Tensor, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        contents = tf.numpy_function(
            lambda name: photo_bytes(Path(os.fsdecode(name))), [path], "string"
        )
        image = decode(tf.ensure_shape(contents, ()))
        if is_mirrored is None:
            image = resize(image, size)
        else:
            image = resize(_crop(image), size)
            if is_mirrored:
                image = tf.image.random_flip_left_right(image)
            image = _change_light(image)
        return tf.ensure_shape(image, (*size, 3)), place

    return pairs.map(view, num_parallel_calls=2).batch(BATCH).prefetch(1)


def _crop(image: tf.Tensor) -> tf.Tensor:
    share = tf.sqrt(tf.random.uniform((), SMALLEST_CROP, 1.0))
    sides = tf.cast(tf.cast(tf.shape(image)[:2], tf.float32) * share, tf.int32)
    sides = tf.maximum(sides, 1)
    return tf.image.random_crop(image, tf.concat([sides, [3]], axis=0))


def _change_light(image: tf.Tensor) -> tf.Tensor:
    brighter = tf.image.random_brightness(image, BRIGHTNESS)
    return tf.clip_by_value(
        tf.image.random_contrast(brighter, 1 - CONTRAST, 1 + CONTRAST), 0.0, 1.0
    )


def features_and_logits(
    model: keras.Model, examples: Sequence[Example]
) -> tuple[np.ndarray, np.ndarray]:
    """Pooled features float32 (n, 2048) and logits float32 (n, classes) of
    photos as they are served.
    """
    both = keras.Model(model.input, [model.get_layer("features").output, model.output["breeds"]])
    images = views_of(examples, model.input_shape[1:3]).map(lambda image, _: image)
    features, logits = both.predict(images, verbose=0)
    return features, logits


def accuracy(model: keras.Model, examples: Sequence[Example]) -> float:
    """The share of photos whose largest logit is that of their class."""
    _, logits = features_and_logits(model, examples)
    return float(np.mean(logits.argmax(-1) == breeds_of(list(examples))))


def _fit_head(model: keras.Model, photos: ClassPhotos, is_mirrored: bool) -> None:
    """Fit the new head on pooled features of views, which are computed once."""
    extractor = architectures.feature_extractor(model)
    views = views_of(photos.training, model.input_shape[1:3], is_mirrored, HEAD_VIEWS)
    features = []
    places = []
    count = math.ceil(HEAD_VIEWS * len(photos.training) / BATCH)
    with click.progressbar(views, count, "head", file=sys.stderr) as batches:
        for images, classes in batches:
            features.append(extractor(images, training=False).numpy())
            places.append(classes.numpy())
    inputs = keras.Input(features[0].shape[1:])
    head = keras.Sequential([inputs, keras.layers.Dense(len(photos.labels))])
    head.compile(keras.optimizers.AdamW(HEAD_RATE, weight_decay=WEIGHT_DECAY), _loss())
    targets = keras.utils.to_categorical(np.concatenate(places), len(photos.labels))
    head.fit(np.concatenate(features), targets, 4 * BATCH, HEAD_EPOCHS, verbose=0)
    model.get_layer("breeds").set_weights(head.layers[-1].get_weights())


def _loss() -> keras.losses.Loss:
    return keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=SMOOTHING)


def _train_upper_blocks(
    model: keras.Model, photos: ClassPhotos, backup_folder: Path, is_mirrored: bool, report: Report
) -> None:
    """Train the blocks behind LAST_FROZEN and the head; goes on where a call
    before with this `backup_folder` was ended.
    """
    backbone = architectures.backbone_of(model)
    names = [layer.name for layer in backbone.layers]
    last = names.index(LAST_FROZEN) if LAST_FROZEN in names else len(names) // 2
    for layer in backbone.layers[: last + 1]:
        layer.trainable = False
    learner = keras.Model(model.input, model.output["breeds"])
    steps = math.ceil(len(photos.training) / BATCH)
    rate = keras.optimizers.schedules.CosineDecay(UPPER_RATE, UPPER_EPOCHS * steps)
    learner.compile(keras.optimizers.AdamW(rate, weight_decay=WEIGHT_DECAY), _loss())
    classes = len(photos.labels)
    views = views_of(photos.training, model.input_shape[1:3], is_mirrored).map(
        lambda images, places: (images, tf.one_hot(places, classes))
    )
    # Restored by Keras itself: weights, optimizer, epoch and step.
    backup = keras.callbacks.BackupAndRestore(str(backup_folder), save_freq=max(steps // 2, 1))
    whole = UPPER_EPOCHS * steps

    def tell_of(bar: Any) -> None:
        """Where no terminal shows it."""
        if not sys.stderr.isatty():
            eta = bar.format_eta()  # empty in the first second
            report(f"upper blocks: {bar.pos} of {whole} steps{f', {eta} left' if eta else ''}")

    with click.progressbar(length=whole, label="upper blocks", file=sys.stderr) as bar:
        progress = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: bar.update(epoch * steps - bar.pos),
            on_train_batch_end=lambda batch, logs: bar.update(1),
            on_epoch_end=lambda epoch, logs: tell_of(bar),
        )
        learner.fit(
            views, epochs=UPPER_EPOCHS, shuffle=False, verbose=0, callbacks=[backup, progress]
        )
