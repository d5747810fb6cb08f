"""Trains the head that finds every dog: maps of composed pictures, the head on
them, and the parameters of the second passes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import click
import keras
import numpy as np
import tensorflow as tf
from dogsnap.exporting.export import Trained, read_stored
from dogsnap.files import write_json
from dogsnap.networks import dogs_head as dogs
from dogsnap.networks.architectures import save_stored_weights
from dogsnap.networks.box_head import overlap
from dogsnap.networks.every_dog import CELLS, EveryDog
from dogsnap.networks.second_pass import SecondPass
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.training import dataset
from dogsnap.training.dataset import DatasetError, Example, photo_bytes
from dogsnap.training.scoring import share
from dogsnap.training.stored_arrays import load_arrays

from lab.array_files import keep_arrays
from lab.boxes import read_boxes, with_boxes
from lab.losses import dogs_loss
from lab.photo_lists import every_second_photo
from lab.scenes import Scenes
from lab.trainer import in_precision

MOST_DOGS = 16  # of a training picture
CHUNK, BATCH = 256, 32  # pictures of a file of maps, and of a step
RATE, DECAY, CLIP = 2e-3, 1e-3, 5.0
DROPPED = 0.15  # of the maps' channels: without it, the head learns 6,000 pictures by heart
# What `choose` tries.
SCORES = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
CHOSEN_BY = ("several_told", "recall", "precision", "one_told")
SAME = 0.5  # overlap of a found box with a true one
SEED = 20  # composes the same pictures again
Figures: TypeAlias = dict[str, float | None]  # what `shares` gives


@dataclass(frozen=True)
class Judged:
    """A photo with the boxes of all its dogs, float32 (k, 4), and whether each
    is hard to see, bool (k,).
    """

    path: Path
    boxes: np.ndarray
    hard: np.ndarray


def read_judged(folder: Path) -> list[Judged]:
    """The photos of `boxes.tsv`, a line `photo dogs boxes difficult` each,
    below `folder`. Raises DatasetError.
    """
    file, judged = folder / "boxes.tsv", []
    try:
        for row in dataset.read_table(file):
            boxes = np.array(read_boxes(row["boxes"]), np.float32).reshape(-1, 4)
            hard = np.array([flag == "1" for flag in row["difficult"].split(";") if flag])
            judged.append(Judged(folder / row["photo"], boxes, hard))
    except (KeyError, OSError, ValueError) as error:
        raise DatasetError(
            f"{file}: expected lines `photo dogs boxes difficult`, separated by tabs ({error})"
        ) from error
    return judged


def train(
    model: keras.Model,
    head: keras.Model,
    scenes: Scenes,
    pictures: int,
    epochs: int,
    folder: Path,
) -> None:
    """Train a head for the network `model` on that many pictures.

    `folder` keeps the maps, 0.7 MB a picture: called again with the same
    arguments it goes on where it stopped.
    """
    files = []
    for start in range(0, pictures, CHUNK):
        numbers = range(start, min(pictures, start + CHUNK))
        files.append(folder / f"maps-{numbers.start}-{numbers.stop}.npz")
        keep_arrays(files[-1], partial(_maps, model, scenes, numbers))
        click.echo(f"maps of {numbers.stop} pictures")
    middle, last = head.input
    maps = tuple(tf.TensorSpec(each.shape, tf.float32) for each in (middle, last))
    kinds = (maps, tf.TensorSpec((None, MOST_DOGS, 5), tf.float32))
    batches = tf.data.Dataset.from_generator(
        lambda: _batches(files, scenes.seed), output_signature=kinds
    ).prefetch(2)
    steps = max(1, math.ceil(min(pictures, CHUNK) / BATCH) * len(files))
    schedule = keras.optimizers.schedules.CosineDecay(RATE, steps * epochs, alpha=0.02)
    places = dogs.centres(middle.shape[1:], scenes.size)
    inputs = [keras.Input(each.shape[1:]) for each in (middle, last)]
    with_dropout = [keras.layers.SpatialDropout2D(DROPPED)(each) for each in inputs]
    trained = keras.Model(inputs, head(with_dropout))
    trained.compile(
        keras.optimizers.AdamW(schedule, weight_decay=DECAY, clipnorm=CLIP),
        lambda targets, cells: dogs_loss(targets, cells, places),
    )
    trained.fit(batches, epochs=epochs, steps_per_epoch=steps, shuffle=False, verbose=0)
    losses = trained.history.history["loss"]
    click.echo(f"dogs: {pictures} pictures, loss {losses[0]:.3f} to {losses[-1]:.3f}")


def _maps(model: keras.Model, scenes: Scenes, numbers: range) -> dict[str, np.ndarray]:
    """The maps, float16, and the boxes of pictures of these numbers."""
    backbone = model.get_layer("backbone")
    maps = keras.Model(model.input, dogs.maps_of(model)(backbone.input, training=False))
    targets = np.zeros((len(numbers), MOST_DOGS, 5), np.float32)
    images = []
    for target, number in zip(targets, numbers, strict=True):
        image, boxes = scenes.draw(number)
        images.append(image)
        target[: len(boxes), :4], target[: len(boxes), 4] = boxes[:MOST_DOGS], 1
    middle, last = maps.predict(np.stack(images), BATCH, verbose=0)
    return {
        "middle": middle.astype(np.float16),
        "last": last.astype(np.float16),
        "targets": targets,
    }


def _batches(
    files: Sequence[Path], seed: int
) -> Iterator[tuple[tuple[np.ndarray, np.ndarray], np.ndarray]]:
    """Endless batches in another order each time, half of them mirrored."""
    random = np.random.default_rng(seed)
    while True:
        for number in random.permutation(len(files)):
            kept = load_arrays(files[number])
            order = random.permutation(len(kept["targets"]))
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                targets, step = kept["targets"][rows], 1
                if random.random() < 0.5:
                    targets, step = _mirror_targets(targets), -1
                middle = kept["middle"][rows].astype(np.float32)[:, :, ::step]
                last = kept["last"][rows].astype(np.float32)[:, :, ::step]
                yield (middle, last), targets


def _mirror_targets(targets: np.ndarray) -> np.ndarray:
    left, top, right, bottom, known = np.moveaxis(targets, -1, 0)
    return np.stack([(1 - right) * known, top, (1 - left) * known, bottom, known], axis=-1)


def choose(
    model: keras.Model, one: SecondPass, judged: Sequence[Judged]
) -> tuple[EveryDog, dict[str, Figures]]:
    """The score that judges every second photo best, and what they find there,
    `chosen_on`, and in the `others`, before a second pass.

    `model`: with its head. Best is the mean of CHOSEN_BY.
    """
    cells = [_cells(model, photo) for photo in judged]
    tried = []
    for score in SCORES:
        every = EveryDog(one, score)
        boxes = [_find_boxes(every, each) for each in cells]
        chosen_on = shares(judged[::2], boxes[::2])
        others = shares(judged[1::2], boxes[1::2])
        value = sum(chosen_on[name] or 0 for name in CHOSEN_BY)
        tried.append((value, every, {"chosen_on": chosen_on, "others": others}))
    _, every, figures = max(tried, key=lambda each: each[0])
    return every, figures


def _cells(model: keras.Model, photo: Judged) -> tf.Tensor:
    images = photos_to_images(tf.constant([photo_bytes(photo.path)]), model.input_shape[1:3])
    # Not as a graph: where that joins a rectifier with a convolution and a sum before
    # it (oneDNN), TensorFlow 2.21 takes a slope of 0.2, whatever is asked for.
    return tf.cast(model(images, training=False)[CELLS], tf.float32)


def _find_boxes(every: EveryDog, cells: tf.Tensor) -> np.ndarray:
    boxes, counts = every.find_dogs(cells)
    return boxes.numpy()[0, : int(counts[0])]


def shares(judged: Sequence[Judged], found: Sequence[np.ndarray]) -> Figures:
    """How well boxes (k, 4) of each photo, the largest first, are those of its
    dogs.

    `several_told`, `one_told`, `none_told`: shares of the photos with two or
    more dogs that get two or more, of those with one that get one, and of those
    with none that get none; `recall`, `precision`: shares of dogs and of boxes
    in photos with two or more dogs that overlap by half with a box or a dog of
    their own. Dogs that are hard to see count in neither.
    """
    counts = np.array([len(each.boxes) for each in judged])
    told = np.array([len(boxes) for boxes in found])
    right = wrong = there = 0
    for photo, boxes in zip(judged, found, strict=True):
        if len(photo.boxes) > 1:
            hits, misses = _match_boxes(photo, boxes)
            right += hits
            wrong += misses
            there += int((~photo.hard).sum())
    return {
        "photos": len(judged),
        "several_told": share(told[counts > 1] > 1),
        "one_told": share(told[counts == 1] == 1),
        "none_told": share(told[counts == 0] == 0),
        "recall": round(right / max(there, 1), 4),
        "precision": round(right / max(right + wrong, 1), 4),
    }


def _match_boxes(photo: Judged, boxes: np.ndarray) -> tuple[int, int]:
    """How many boxes are dogs, and how many are none."""
    right = wrong = 0
    is_free = np.ones(len(photo.boxes), bool)
    for box in boxes:
        overlaps = np.asarray(overlap(box[None], photo.boxes))
        of_free = np.where(is_free, overlaps, 0.0)
        if of_free.max() >= SAME:
            own = of_free.argmax()
            is_free[own] = False
            right += int(not photo.hard[own])
        elif not (photo.hard & (overlaps >= SAME)).any():
            wrong += 1
    return right, wrong


@dataclass(frozen=True)
class Sources:
    """Folders: `data`, `frames` and `not_dogs` (each second photo) to train on;
    `judged` to choose and to measure on.
    """

    data: Path
    judged: Path
    frames: Path | None = None
    not_dogs: Path | None = None


def run(sources: Sources, out: Path, work: Path, pictures: int, epochs: int) -> Figures:
    """Train the head for the network in `out`, write it there, and return how
    it judges the photos that did not choose.

    Computes in Keras' dtype policy. Photos that are judged are not trained on.
    Raises DatasetError, ExportError, OSError.
    """
    photos = read_judged(sources.judged)
    stored = read_stored(out.name, out, with_head=False)
    one = SecondPass.of(stored.description["scores"]["second_pass"])
    policy = keras.config.dtype_policy().name
    trained = Trained.read(out, out.name)
    build = partial(trained.build, len(trained.labels))
    network = in_precision(policy, stored.model, build)
    scenes = Scenes(*_examples(sources, photos), network.input_shape[1:3], SEED)
    work.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(SEED)
    head = dogs.head_for(network)
    train(network, head, scenes, pictures, epochs, work)
    head = in_precision("float32", head, lambda: dogs.head_for(network))
    click.echo(f"choosing on {len(photos[::2])} photos")
    every, measured = choose(dogs.with_dogs(stored.model, head), one, photos)
    save_stored_weights(head, out / dogs.WEIGHTS)
    stated = {
        "maps": dogs.digest_of(stored.model),
        "filters": dogs.FILTERS,
        "every_dog": every.to_json(),
        "pictures": pictures,
        "epochs": epochs,
        "seed": SEED,
        **measured,
    }
    write_json(stated, out / dogs.DESCRIPTION)
    return measured["others"]


def _examples(sources: Sources, judged: Sequence[Judged]) -> tuple[list[Example], list[Example]]:
    """Photos of dogs, and of none."""
    names = {each.path.stem.removeprefix("sd_") for each in judged}
    listed = dataset.read_list(sources.data, "train_list")
    apart = [example for example in listed if example.path.stem not in names]
    examples = dataset.readable(with_boxes(apart, sources.frames), click.echo)
    without = every_second_photo(sources.not_dogs, 0, click.echo)
    return examples, [Example(path, 0) for path in without]
