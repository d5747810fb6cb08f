"""Trains the head that finds every dog: maps of composed pictures, the head on
them, and the parameters of the second passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import click
import keras
import numpy as np
import tensorflow as tf
from dogsnap.exporting.export import read_stored
from dogsnap.files import write_json
from dogsnap.networks import dogs_head as dogs
from dogsnap.networks.architectures import save_stored_weights
from dogsnap.networks.box_head import overlap
from dogsnap.networks.every_dog import CELLS, EveryDog
from dogsnap.networks.second_pass import SecondPass
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.training import dataset
from dogsnap.training.scoring import share
from dogsnap.training.stored_arrays import load_arrays

from lab.array_files import keep_chunks
from lab.boxes import read_boxes, with_boxes
from lab.losses import dogs_loss
from lab.photo_lists import contents_of, every_second_photo
from lab.scenes import Scenes

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
        raise dataset.DatasetError(
            f"{file}: expected lines `photo dogs boxes difficult`, separated by tabs ({error})"
        ) from error
    return judged


def train(
    model: keras.Model,
    head: keras.Model,
    scenes: Scenes,
    pictures: int,
    epochs: int,
    work: Path,
) -> None:
    """Train a head for the network `model` on that many pictures.

    `work` keeps the maps, 0.7 MB a picture: called again with the same
    arguments it goes on where it stopped.
    """
    files = keep_chunks(work, "maps", range(pictures), CHUNK, partial(_maps, model, scenes))
    middle, last = head.input
    places = dogs.centres(middle.shape[1:], scenes.size)
    inputs = [keras.Input(each.shape[1:]) for each in (middle, last)]
    with_dropout = [keras.layers.SpatialDropout2D(DROPPED)(each) for each in inputs]
    trained = keras.Model(inputs, head(with_dropout))
    steps = epochs * pictures / BATCH
    schedule = keras.optimizers.schedules.CosineDecay(RATE, steps, alpha=0.02)
    trained.compile(
        keras.optimizers.AdamW(schedule, weight_decay=DECAY, clipnorm=CLIP),
        lambda targets, cells: dogs_loss(targets, cells, places),
    )
    random = np.random.default_rng(scenes.seed)
    for epoch in range(1, epochs + 1):
        losses = []
        for place in random.permutation(len(files)):  # all maps take 6 GB
            kept = load_arrays(files[place])
            maps = [kept["middle"], kept["last"]]
            losses += trained.fit(maps, kept["targets"], BATCH, verbose=0).history["loss"]
        click.echo(f"dogs: epoch {epoch} of {epochs}, loss {np.mean(losses):.3f}")


def _maps(model: keras.Model, scenes: Scenes, numbers: Sequence[int]) -> dict[str, np.ndarray]:
    """The maps, float16, and the boxes of pictures of these numbers."""
    backbone = model.get_layer("backbone")
    maps = keras.Model(model.input, dogs.maps_of(model)(backbone.input, training=False))
    targets = np.zeros((len(numbers), MOST_DOGS, 5), np.float32)
    images = []
    for target, number in zip(targets, numbers, strict=True):
        image, boxes = scenes.draw(number)
        images.append(image)
        target[: len(boxes), :4], target[: len(boxes), 4] = boxes[:MOST_DOGS], 1
    middle, last = (each.astype(np.float16) for each in maps.predict(np.stack(images), BATCH, 0))
    return {"middle": middle, "last": last, "targets": targets}


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
        boxes = []
        for each in cells:
            found, counts = every.find_dogs(each)
            boxes.append(found.numpy()[0, : int(counts[0])])
        chosen_on = shares(judged[::2], boxes[::2])
        others = shares(judged[1::2], boxes[1::2])
        value = sum(chosen_on[name] or 0 for name in CHOSEN_BY)
        tried.append((value, every, {"chosen_on": chosen_on, "others": others}))
    _, every, figures = max(tried, key=lambda each: each[0])
    return every, figures


def _cells(model: keras.Model, photo: Judged) -> tf.Tensor:
    images = photos_to_images(contents_of([photo.path]), model.input_shape[1:3])
    # Not as a graph: where that joins a rectifier with a convolution and a sum before
    # it (oneDNN), TensorFlow 2.21 takes a slope of 0.2, whatever is asked for.
    return tf.cast(model(images, training=False)[CELLS], tf.float32)


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


def run(
    data: Path,
    frames: Path | None,
    not_dogs: Path | None,
    judged: Path,
    out: Path,
    work: Path,
    pictures: int,
    epochs: int,
) -> Figures:
    """Train the head for the network in `out`, write it there, and return how
    it judges the photos that did not choose.

    `data`, `frames` and `not_dogs` (each second photo) train; `judged` chooses
    and measures, and its photos are not trained on. Raises DatasetError, ExportError, OSError.
    """
    photos = read_judged(judged)
    names = {each.path.stem.removeprefix("sd_") for each in photos}
    listed = dataset.read_list(data, "train_list")
    apart = [example for example in listed if example.path.stem not in names]
    examples = dataset.readable(with_boxes(apart, frames), click.echo)
    stored = read_stored(out.name, out, with_head=False)
    one = SecondPass.of(stored.description["scores"]["second_pass"])
    none = every_second_photo(not_dogs, 0, click.echo)
    scenes = Scenes(examples, none, stored.model.input_shape[1:3], SEED)
    keras.utils.set_random_seed(SEED)
    head = dogs.head_for(stored.model)
    train(stored.model, head, scenes, pictures, epochs, work)
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
