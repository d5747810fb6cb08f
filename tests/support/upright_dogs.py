"""A network that sees dogs only upright: it looks at the upper half of a picture alone, and photos for it."""

from pathlib import Path

import keras
import numpy as np
from dogsnap.exporting.export import Stored
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.photos.photo import ORIENTATION

from support.exported import DESCRIPTION, SIZE, png
from support.spotting import COLOURS

SIDE = 200  # pixels
HALVES = {
    "top": np.s_[: SIDE // 2, :],
    "bottom": np.s_[SIDE // 2 :, :],
    "left": np.s_[:, : SIDE // 2],
    "right": np.s_[:, SIDE // 2 :],
}


def network(tells_orientation: bool = False) -> keras.Model:
    """Its probabilities are near 1 where one colour fills the upper half, and it sees no dog where one fills half of that.

    If it `tells_orientation`, the brightest half is the upper one once the picture is turned.
    """
    image = keras.Input((*SIZE, 3), name="image")
    upper = keras.layers.Cropping2D(((0, SIZE[0] // 2), (0, 0)))(image)
    mean = keras.layers.GlobalAveragePooling2D(name="features")(upper)
    breeds, dog = keras.layers.Dense(3, name="breeds"), keras.layers.Dense(1, name="dog")
    outputs = {"breeds": breeds(mean), "dog": dog(mean)}
    if tells_orientation:
        outputs[ORIENTATION] = orientation(image)
    model = keras.Model(image, outputs)
    breeds.set_weights([10 * np.eye(3, dtype=np.float32), np.zeros(3, np.float32)])
    dog.set_weights([np.full((3, 1), 20, np.float32), np.array([-17], np.float32)])
    return model


def orientation(image: keras.KerasTensor) -> keras.KerasTensor:
    """Images (n, h, w, 3) -> (n, 4): the brighter the half that a turn by 0, 90, 180 or 270 degrees lays on top, the more."""
    height, width = SIZE[0] // 2, SIZE[1] // 2
    cut = {
        "top": ((0, height), (0, 0)),
        "left": ((0, 0), (0, width)),
        "bottom": ((height, 0), (0, 0)),
        "right": ((0, 0), (width, 0)),
    }
    halves = [keras.layers.Cropping2D(sides)(image) for sides in cut.values()]
    brightness = keras.ops.stack([keras.ops.mean(half, axis=(1, 2, 3)) for half in halves], axis=1)
    return keras.layers.Softmax()(10 * brightness)


def export(
    model_folder: Path, decision: dict[str, float], tells_orientation: bool = False, **fields: str
) -> Path:
    """`fields`: further ones of the description."""
    description = {**DESCRIPTION, "decision": decision, **fields}
    model = network(tells_orientation)
    return Stored(model, Calibration(1.0), description).export(model_folder).folder


def photo(half: str, name: str = "red hound", rest: tuple[int, int, int] = (0, 0, 0)) -> bytes:
    """A square whose `half` has a colour of COLOURS, and the rest another."""
    pixels = np.full((SIDE, SIDE, 3), rest, np.uint8)
    pixels[HALVES[half]] = COLOURS[name]
    return png(pixels)
