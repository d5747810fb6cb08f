"""What the network sees in photos, before any head says what that means: the
features of its passes, kept to go on from.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from dogsnap.exporting import Report, layers
from dogsnap.exporting.acceleration import Acceleration, choose
from dogsnap.exporting.export import Stored
from dogsnap.exporting.freezing import FrozenGraph, freeze
from dogsnap.exporting.quantization import Ranges
from dogsnap.networks.second_pass import SecondPass, second_images
from dogsnap.serving.photos.preprocessing import photos_to_images
from dogsnap.serving.versions.openvino_runtime import (
    EXACT,
    NETWORK,
    IncompatibleNetwork,
    Network,
)
from dogsnap.training.stored_arrays import Arrays, join_rows, load_arrays

from lab.array_files import save_arrays
from lab.photo_lists import contents_of

OPINION = "opinion"  # what the network beside tells
OPINION_OF = {"fast": "opinion_fast", "after": "opinion_after"}  # by the pass
TOLD = ("features", "box", OPINION)  # outputs
CHUNK, BATCH = 256, 16  # photos of a file, and that are decoded together
Run = Callable[[np.ndarray], Arrays]  # images (n, h, w, 3) -> each output (n, ...)


@dataclass(frozen=True)
class Passes:
    """The passes of a network over photos.

    `stored`: the network, perhaps with a second opinion; `ranges`: for int8;
    `margin`: of the second pass's window.

    `work`: a folder for what is computed: asked again for the same photos,
    nothing is computed again.
    """

    stored: Stored
    ranges: Ranges
    margin: float
    work: Path
    report: Report

    @property
    def twice(self) -> bool:
        """Whether the network tells the box that a second pass needs."""
        return "box" in self.stored.model.output

    @cached_property
    def precision(self) -> str:
        """The fastest precision on this processor, in which `fast` and `after` are."""
        file = self.work / "precision"
        if not file.is_file():
            file.write_text(self._fast[1], encoding="utf-8")
        return file.read_text(encoding="utf-8")

    def features(
        self, name: str, photos: Sequence[Path | bytes], near: bool = False
    ) -> dict[str, np.ndarray]:
        """Pooled features float32 (n, f) of each photo: `exact` of one pass in
        float32, `fast` in the fastest precision.

        Where the network tells boxes, `after`: of the second pass in that; with
        `near`, `nearer`: of that in float32. With a second opinion, which only
        versions in the fastest precision have, these two and `opinion_fast`,
        `opinion_after` (n, 1281): the features and odds of the network beside.
        They are kept by `name`, ranges, margin and photos.
        """
        seen_by = f"{self.ranges} {self.margin}"
        parts = []
        for start in range(0, len(photos), CHUNK):
            chunk = photos[start : start + CHUNK]
            shown = "\n".join([seen_by, *map(str, chunk)])
            file = self.work / f"{name}-{hashlib.sha256(shown.encode()).hexdigest()[:16]}.npz"
            if not file.is_file():
                save_arrays(file, self._compute(chunk, near))
                self.report(f"{name}: {start + len(chunk)} of {len(photos)} photos")
            parts.append(load_arrays(file))
        return join_rows(parts)

    def _compute(self, photos: Sequence[Path | bytes], near: bool) -> dict[str, np.ndarray]:
        rows = []
        for start in range(0, len(photos), BATCH):
            batch = photos[start : start + BATCH]
            files = [contents_of(photo) for photo in batch]
            rows.append(self._run_batch(tf.constant(files), near))
        return join_rows(rows)

    def _run_batch(self, photos: tf.Tensor, near: bool) -> Arrays:
        images = photos_to_images(photos, self._size).numpy()
        if self.stored.opinion:
            return self._run_both(photos, images)
        exact, fast = self._exact[0](images), self._fast[0](images)
        found = {"exact": exact["features"], "fast": fast["features"]}
        if self.twice:
            found["after"] = self._fast[0](self._windows(photos, fast["box"]))["features"]
            if near:
                found["nearer"] = self._exact[0](self._windows(photos, exact["box"]))["features"]
        return found

    def _run_both(self, photos: tf.Tensor, images: np.ndarray) -> Arrays:
        first = self._fast[0](images)
        second = self._fast[0](self._windows(photos, first["box"]))
        return {
            "fast": first["features"],
            "after": second["features"],
            OPINION_OF["fast"]: first[OPINION],
            OPINION_OF["after"]: second[OPINION],
        }

    def _windows(self, photos: tf.Tensor, boxes: np.ndarray) -> np.ndarray:
        passing = SecondPass(self.margin, 1.0, 1.0, 1.0, 1.0)
        return second_images(photos, passing.windows(tf.constant(boxes)), self._size).numpy()

    @property
    def _size(self) -> tuple[int, int]:
        height, width = self.stored.description["input_size"]
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
    def _exact(self) -> tuple[Run, str]:
        return self._network(fast=False)

    @cached_property
    def _fast(self) -> tuple[Run, str]:
        return self._network(fast=True)

    def _network(self, fast: bool) -> tuple[Run, str]:
        """What runs the network, and in which precision; TensorFlow where
        OpenVINO cannot, as in versions.
        """
        function = self._graph.function()
        acceleration = Acceleration(self._graph, function, {}, fast=fast, ranges=self.ranges)
        folder = self.work / ("fast" if fast else "exact")
        folder.mkdir(exist_ok=True)
        try:
            manifest = choose(acceleration, folder, self.report)
        except (IncompatibleNetwork, RuntimeError) as error:
            self.report(f"TensorFlow runs the network: {error}")
            return _in_tensorflow(function), EXACT
        network = Network(folder / NETWORK, manifest.precision, manifest.outputs)
        return network.run, manifest.precision


def _in_tensorflow(function: Callable[[tf.Tensor], Mapping[str, tf.Tensor]]) -> Run:
    def run(images: np.ndarray) -> dict[str, np.ndarray]:
        return {name: value.numpy() for name, value in function(tf.constant(images)).items()}

    return run
