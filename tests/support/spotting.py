"""A network that tells the three colours of `exported` apart by the mean of a picture, and boxes everything that is not grey."""

from pathlib import Path

import keras
import numpy as np
import pytest
from dogsnap.exporting.export import Stored
from dogsnap.exporting.merging.merge import Options, merge
from dogsnap.networks.second_pass import SecondPass
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import LocalServable

from support import accelerated
from support.exported import DESCRIPTION, LABELS, SIZE, png

PASS = SecondPass(margin=0.1, largest=0.5, surest=0.9, weight=0.75, sharpness=1.0)
COLOURS = {
    "red hound": (230, 40, 40),
    "green terrier": (40, 230, 40),
    "blue spaniel": (40, 40, 230),
}


@keras.saving.register_keras_serializable("tests")
class ColouredPart(keras.layers.Layer):
    """Images (n, h, w, 3) -> the box (n, 4) of the pixels that are not grey; of the whole where all are."""

    def call(self, image):
        """Left, top, right, bottom, in fractions."""
        spread = keras.ops.max(image, axis=-1) - keras.ops.min(image, axis=-1)
        coloured = keras.ops.cast(spread > 0.3, "float32")
        (left, right), (top, bottom) = (
            _ends(keras.ops.max(coloured, axis=axis)) for axis in (1, 2)
        )
        return keras.ops.stack([left, top, right, bottom], axis=-1)


def _ends(line):
    """Where the ones of each row of (n, length) begin and end, as fractions of the length; 0 and 1 where there are none."""
    length = line.shape[-1]
    places = np.arange(length, dtype=np.float32)
    first, last = (
        length - keras.ops.max((length - places) * line, axis=-1),
        keras.ops.max((places + 1) * line, axis=-1),
    )
    none = keras.ops.cast(last < 0.5, "float32")
    return first * (1 - none) / length, keras.ops.maximum(last, none * length) / length


def network() -> keras.Model:
    image = keras.Input((*SIZE, 3), name="image")
    mean = keras.layers.GlobalAveragePooling2D(name="features")(image)
    breeds, dog = (
        keras.layers.Dense(3, name="breeds", use_bias=False),
        keras.layers.Dense(1, name="dog"),
    )
    outputs = {"breeds": breeds(mean), "dog": dog(mean), "box": ColouredPart(name="box")(image)}
    model = keras.Model(image, outputs)
    breeds.set_weights([10 * np.eye(3, dtype=np.float32)])
    dog.set_weights([np.ones((3, 1), np.float32), np.zeros(1, np.float32)])
    return model


def export(
    model_folder: Path,
    second_pass: SecondPass | None = PASS,
    model: keras.Model | None = None,
) -> Path:
    decision = {"dog_threshold": 0.1, "confident_threshold": 0.9}
    scores = {"second_pass": {**second_pass.to_json(), "decision": decision}} if second_pass else {}
    description = {**DESCRIPTION, "scores": scores}
    return Stored(model or network(), Calibration(1.0), description).export(model_folder).folder


RUNTIMES = {"tensorflow": 2, "openvino": 3}  # and the numbers of `versions`


def versions(one: Path) -> Path:
    """The model folder of version `one`, with 2, which has a second pass in TensorFlow, and 3, which has it in OpenVINO."""
    merge(one, Options(second_pass=True))
    with pytest.MonkeyPatch.context() as monkeypatch:
        accelerated.patch(monkeypatch)
        merge(one, Options(second_pass=True))
    return one.parent


def load(folder: Path) -> LocalServable:
    return LocalServable(ServableId("tiny", int(folder.name)), folder)


def scores(servable: LocalServable, *photos: bytes) -> dict[str, np.ndarray]:
    return servable.run_photos(servable.signature("scores"), list(photos))


def photo(
    spots: list[tuple[str, tuple[int, int, int, int]]], size: tuple[int, int] = (320, 240)
) -> bytes:
    """A grey PNG of `size` (width, height) with coloured spots: a name of COLOURS and left, top, right, bottom in pixels."""
    pixels = np.full((size[1], size[0], 3), 120, np.uint8)
    for name, (left, top, right, bottom) in spots:
        pixels[top:bottom, left:right] = COLOURS[name]
    return png(pixels)


def place(name: str) -> int:
    return [label["name"] for label in LABELS].index(name)
