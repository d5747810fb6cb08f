"""Trains the head that tells which way is up: views of whole pictures in all
turns, and the head on the maps that the network beside gives of them.
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import keras
import numpy as np
from dogsnap.exporting import SECOND_OPINION
from dogsnap.exporting.export import read_json, read_opinion
from dogsnap.files import write_json
from dogsnap.networks import orientation
from dogsnap.networks.architectures import save_stored_weights
from dogsnap.serving.photos.photo import DEGREES, ORIENTATION
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions import checksums
from dogsnap.training.dataset import DatasetError, Example
from dogsnap.training.scoring import share
from dogsnap.training.stored_arrays import Arrays

from lab import picture_views
from lab.array_files import keep_rows
from lab.photo_lists import contents_of

CHUNK, BATCH = 200, 128  # pictures of a file of maps, and turned ones of a step
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
    84 kB a picture in each turn: called again with the same arguments it goes
    on where it stopped, by the network and the pictures. Raises DatasetError,
    ExportError, OSError.
    """
    described = read_json(out / SECOND_OPINION)
    opinion = read_opinion(described, out, described.get("weights", ""))
    network = opinion.network
    whole = [example for example in training if example.frame]
    judged = [example for example in validation if example.frame]
    if not whole or not judged:
        raise DatasetError(
            "expected whole pictures of photos that train and of others to judge by, "
            f"received {len(whole)} and {len(judged)}; see --frames"
        )
    order = np.random.default_rng(SEED).permutation(len(whole))
    chosen = [whole[place] for place in order[:pictures]]
    kept = keep_rows(
        work / opinion.sha256[:16], MAPS, chosen, CHUNK, partial(_maps_of_views, network)
    )
    keras.utils.set_random_seed(SEED)
    head = orientation.head_for(network)
    _train(head, kept[MAPS], epochs)
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
    views = picture_views.views(list(examples), network.input_shape[1:3], plain=True)
    found = []
    for view in views.take(len(examples)):
        found.append(model.predict_on_batch(_turn(view.image.numpy())))
    return {MAPS: np.stack(found).astype(np.float16)}


def _turn(image: np.ndarray) -> np.ndarray:
    """A picture (h, w, 3), upright -> (turns, h, w, 3), in the order of DEGREES."""
    return np.stack([np.rot90(image, turns) for turns in range(len(DEGREES))])


def _train(head: keras.Model, maps: np.ndarray, epochs: int) -> None:
    """Train a head on MAPS."""
    turns = np.tile(np.arange(len(DEGREES)), len(maps))
    maps = maps.reshape(-1, *head.input_shape[1:])
    inputs = keras.Input(maps.shape[1:])
    trained = keras.Model(inputs, head(keras.layers.SpatialDropout2D(DROPPED)(inputs)))
    schedule = keras.optimizers.schedules.CosineDecay(RATE, epochs * math.ceil(len(maps) / BATCH))
    trained.compile(
        keras.optimizers.AdamW(schedule, weight_decay=DECAY),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    trained.fit(maps, turns, BATCH, epochs, verbose=0)


def measure(network: keras.Model, examples: Sequence[Example]) -> dict[str, float | None]:
    """How often the network `with_orientation` is right of whole pictures:
    `upright`, and `turned` by 90, 180 and 270 degrees.
    """
    found = []
    for example in examples:
        contents = contents_of([example.frame or example.path])
        image = photos_to_images(contents, network.input_shape[1:3])[0].numpy()
        told = network.predict_on_batch(_turn(image))[ORIENTATION]
        found.append(told.argmax(axis=-1) == np.arange(len(DEGREES)))
    right = np.array(found)
    return {"photos": len(right), "upright": share(right[:, 0]), "turned": share(right[:, 1:])}
