"""What the network sees in photos, before any head says what that means: the
ranges for its int8, and the features of its passes, kept to go on from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click
import keras
import numpy as np
import tensorflow as tf
from dogsnap.exporting import layers
from dogsnap.exporting.acceleration import Acceleration, choose, convert
from dogsnap.exporting.export import Stored
from dogsnap.exporting.freezing import FrozenGraph, freeze
from dogsnap.exporting.quantization import Ranges
from dogsnap.networks.second_pass import second_images
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions.openvino_runtime import (
    EXACT,
    NETWORK,
    Network,
    import_openvino,
)
from dogsnap.training.ranges import find_ranges
from dogsnap.training.stored_arrays import Arrays, join_rows

from lab.array_files import keep_rows
from lab.photo_lists import contents_of
from lab.second_pass_choice import NEVER

OPINION = "opinion"  # what the network beside tells
OPINION_OF = {"fast": "opinion_fast", "after": "opinion_after"}  # by the pass
TOLD = ("features", "box", OPINION)  # outputs
CHUNK, BATCH = 256, 16  # photos of a file, and that are decoded together


@dataclass(frozen=True)
class Passes:
    """The passes of a network over photos.

    `stored`: the network, perhaps with a second opinion; `ranged`: photos to
    find the ranges for int8 on. `work`: a folder for features: asked again for
    the same photos, they are not computed again.
    """

    stored: Stored
    ranged: Sequence[Path]
    work: Path

    @cached_property
    def ranges(self) -> Ranges:
        """The ranges for int8."""
        click.echo(f"finding ranges on {len(self.ranged)} photos")
        folder, _ = self._network_files
        model = import_openvino().Core().read_model(folder / NETWORK)
        return find_ranges(model, (self._images([photo])[0] for photo in self.ranged))

    @property
    def precision(self) -> str:
        """The fastest precision on this processor, in which `fast` and `after` are."""
        return self._fast.precision

    def features(
        self, name: str, photos: Sequence[Path | bytes], near: bool = False
    ) -> dict[str, np.ndarray]:
        """Pooled features float32 (n, f) of each photo: `exact` of one pass in
        float32, `fast` in the fastest precision.

        Where the network tells boxes, `after`: of the second pass in that; with
        `near`, `nearer`: of that in float32. With a second opinion, which only
        versions in the fastest precision have, these two and `opinion_fast`,
        `opinion_after` (n, 1281): the features and odds of the network beside.
        They are kept by `name` and photos.
        """
        return keep_rows(self.work, name, photos, CHUNK, lambda chunk: self._compute(chunk, near))

    def _compute(self, photos: Sequence[Path | bytes], near: bool) -> dict[str, np.ndarray]:
        rows = []
        for start in range(0, len(photos), BATCH):
            rows.append(self._run_batch(photos[start : start + BATCH], near))
        return join_rows(rows)

    def _run_batch(self, photos: Sequence[Path | bytes], near: bool) -> Arrays:
        images = self._images(photos)
        told = {"fast": self._fast.run(images)}
        if not self.stored.opinion:
            told["exact"] = self._exact.run(images)
        if "box" in told["fast"]:
            told["after"] = self._fast.run(self._windows(photos, told["fast"]["box"]))
        if near and "box" in told.get("exact", ()):
            told["nearer"] = self._exact.run(self._windows(photos, told["exact"]["box"]))
        found = {name: answer["features"] for name, answer in told.items()}
        if self.stored.opinion:
            found |= {OPINION_OF[name]: answer[OPINION] for name, answer in told.items()}
        return found

    def _images(self, photos: Sequence[Path | bytes]) -> np.ndarray:
        return photos_to_images(contents_of(photos), self._size).numpy()

    def _windows(self, photos: Sequence[Path | bytes], boxes: np.ndarray) -> np.ndarray:
        windows = NEVER.windows(tf.constant(boxes))
        return second_images(contents_of(photos), windows, self._size).numpy()

    @property
    def _size(self) -> tuple[int, int]:
        height, width = self.stored.model.input_shape[1:3]
        return height, width

    @cached_property
    def _graph(self) -> FrozenGraph:
        model = self.stored.model
        outputs = {**model.output, "features": model.get_layer("features").output}
        if opinion := self.stored.opinion:
            told = opinion.look(model.input)
            outputs[OPINION] = keras.ops.concatenate([told["features"], told["odds"]], axis=-1)
        network = keras.Model(model.input, outputs)

        def run_network(*, image: tf.Tensor) -> dict[str, tf.Tensor]:
            answers = network(image, training=False)
            told = {name: answers[name] for name in TOLD if name in answers}
            return {**told, "prediction": layers.softmax(answers["breeds"])}

        image = tf.TensorSpec((None, *model.input_shape[1:]), tf.float32, name="image")
        compiled = tf.function(run_network, autograph=False)
        return freeze(compiled.get_concrete_function(image=image))

    @cached_property
    def _network_files(self) -> tuple[Path, Sequence[str]]:
        """The folder of the network in float32, and its outputs."""
        folder = self._folder("exact")
        return folder, convert(self._graph, folder)

    @cached_property
    def _exact(self) -> Network:
        folder, outputs = self._network_files
        return Network(folder / NETWORK, EXACT, outputs)

    @cached_property
    def _fast(self) -> Network:
        """The network in the fastest precision."""
        folder = self._folder("fast")
        function = self._graph.function()
        acceleration = Acceleration(self._graph, function, {}, fast=True, ranges=self.ranges)
        manifest = choose(acceleration, folder, click.echo)
        return Network(folder / NETWORK, manifest.precision, manifest.outputs)

    def _folder(self, name: str) -> Path:
        folder = self.work / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
