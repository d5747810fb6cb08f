"""Trains the head that tells which way is up: views of whole pictures in all
turns, and the head on the maps that the network beside gives of them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click
import keras
import numpy as np
import tensorflow as tf
from dogsnap.exporting import SECOND_OPINION
from dogsnap.exporting.export import read_json, read_opinion
from dogsnap.files import write_json
from dogsnap.networks import orientation
from dogsnap.networks.architectures import save_stored_weights
from dogsnap.serving.photos.photo import DEGREES, ORIENTATION
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions import checksums
from dogsnap.training.dataset import DatasetError, Example, photo_bytes
from dogsnap.training.scoring import share
from dogsnap.training.stored_arrays import Arrays, load_arrays

from lab import picture_views
from lab.array_files import keep_arrays

CHUNK, BATCH = 200, 32  # pictures of a file of maps, and of a step, each in all turns
RATE, DECAY, DROPPED = 2e-3, 1e-3, 0.1
SEED = 22
MADE_BY = "python -m lab train orientation"
MAPS = "maps"


def run(
    training: Sequence[Example],
    validation: Sequence[Example],
    out: Path,
    work: Path,
    pictures: int,
    epochs: int,
) -> dict[str, float | None]:
    """Train the head for the network beside that lies in `out` on that many of
    the `training` pictures, write it there, and return how it judges the
    `validation` pictures.

    Of either, those count whose whole picture is known. `work` keeps the maps,
    84 kB a picture: called again with the same arguments it goes on where it
    stopped, by the network and the pictures. Raises DatasetError, ExportError,
    OSError.
    """
    described = read_json(out / SECOND_OPINION)
    network = read_opinion(described, out, described.get("weights", "")).network
    random = np.random.default_rng(SEED)
    whole = [example for example in training if example.frame is not None]
    judged = [example for example in validation if example.frame is not None]
    if not whole or not judged:
        raise DatasetError(
            "expected whole pictures of photos that train and of others to judge by, "
            f"received {len(whole)} and {len(judged)}; see --frames"
        )
    chosen = [whole[place] for place in random.permutation(len(whole))[:pictures]]
    work.mkdir(parents=True, exist_ok=True)
    files = []
    for start in range(0, len(chosen), CHUNK):
        chunk = chosen[start : start + CHUNK]
        shown = f"{described['network']['sha256']} {[str(example.frame) for example in chunk]}"
        name = hashlib.sha256(shown.encode()).hexdigest()[:16]
        files.append(work / f"maps-{name}.npz")
        keep_arrays(files[-1], partial(_maps_of_views, network, chunk))
        click.echo(f"maps of {start + len(chunk)} pictures")
    keras.utils.set_random_seed(SEED)
    head = orientation.head_for(network)
    _train(head, files, len(chosen), epochs)
    measured = measure(orientation.with_orientation(network, head), judged)
    save_stored_weights(head, out / orientation.WEIGHTS)
    stated = {
        "sha256": checksums.digest(out / orientation.WEIGHTS),
        "made_by": MADE_BY,
        "pictures": len(chosen),
        "epochs": epochs,
        "validation": measured,
    }
    write_json({**described, ORIENTATION: stated}, out / SECOND_OPINION)
    return measured


def _maps_of_views(network: keras.Model, examples: Sequence[Example]) -> Arrays:
    """MAPS float16 (n, turns, h, w, c) of one random view of each picture, which
    turns clockwise by each of DEGREES set upright.
    """
    maps = keras.ops.concatenate(orientation.maps_of(network), axis=-1)
    model = keras.Model(network.input, maps)
    size = network.input_shape[1:3]
    views = picture_views.map_in_parallel(
        picture_views.files(list(examples)),
        lambda files: picture_views.view(picture_views.load(files), size, plain=True).image,
    )
    found = [model.predict_on_batch(_turn(image.numpy())) for image in views]
    return {MAPS: np.stack(found).astype(np.float16)}


def _turn(image: np.ndarray) -> np.ndarray:
    """A picture (h, w, 3), upright -> (turns, h, w, 3), in the order of DEGREES."""
    return np.stack([np.rot90(image, turns) for turns in range(len(DEGREES))])


def _train(head: keras.Model, files: Sequence[Path], pictures: int, epochs: int) -> None:
    steps = max(1, pictures // BATCH)
    shape = head.input_shape[1:]
    batches = tf.data.Dataset.from_generator(
        lambda: _batches(files),
        output_signature=(
            tf.TensorSpec((None, *shape), tf.float32),
            tf.TensorSpec((None,), tf.int64),
        ),
    ).prefetch(2)
    maps = keras.Input(shape)
    trained = keras.Model(maps, head(keras.layers.SpatialDropout2D(DROPPED)(maps)))
    schedule = keras.optimizers.schedules.CosineDecay(RATE, steps * epochs)
    trained.compile(
        keras.optimizers.AdamW(schedule, weight_decay=DECAY),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    trained.fit(batches, epochs=epochs, steps_per_epoch=steps, shuffle=False, verbose=0)
    losses = trained.history.history["loss"]
    click.echo(f"orientation: {pictures} pictures, loss {losses[0]:.3f} to {losses[-1]:.3f}")


def _batches(files: Sequence[Path]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Endless batches of maps and the places of their turns, in another order each time."""
    random = np.random.default_rng(SEED)
    while True:
        for number in random.permutation(len(files)):
            maps = load_arrays(files[number])[MAPS]
            order = random.permutation(len(maps))
            for start in range(0, len(order), BATCH):
                rows = maps[order[start : start + BATCH]].astype(np.float32)
                turns = np.tile(np.arange(len(DEGREES)), len(rows))
                yield rows.reshape(-1, *rows.shape[2:]), turns


def measure(network: keras.Model, examples: Sequence[Example]) -> dict[str, float | None]:
    """How often the network `with_orientation` is right of whole pictures:
    `upright`, and `turned` by 90, 180 and 270 degrees.
    """
    found = []
    for example in examples:
        contents = tf.constant([photo_bytes(example.frame or example.path)])
        image = photos_to_images(contents, network.input_shape[1:3])[0].numpy()
        told = network.predict_on_batch(_turn(image))[ORIENTATION]
        found.append(told.argmax(axis=-1) == np.arange(len(DEGREES)))
    right = np.array(found)
    return {"photos": len(right), "upright": share(right[:, 0]), "turned": share(right[:, 1:])}
