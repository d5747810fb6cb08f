"""A network that sees dogs only upright: it looks at the upper half of a picture alone, and photos for it."""

from pathlib import Path

import keras
import numpy as np
from dogsnap.exporting.export import Stored
from dogsnap.networks.temperature import Calibration

from support.exported import DESCRIPTION, SIZE, png
from support.spotting import COLOURS

SIDE = 200  # pixels
HALVES = {
    "top": np.s_[: SIDE // 2, :],
    "bottom": np.s_[SIDE // 2 :, :],
    "left": np.s_[:, : SIDE // 2],
    "right": np.s_[:, SIDE // 2 :],
}


def network() -> keras.Model:
    """Its probabilities are near 1 where one colour fills the upper half, and it sees no dog where one fills half of that."""
    image = keras.Input((*SIZE, 3), name="image")
    upper = keras.layers.Cropping2D(((0, SIZE[0] // 2), (0, 0)))(image)
    mean = keras.layers.GlobalAveragePooling2D(name="features")(upper)
    breeds, dog = keras.layers.Dense(3, name="breeds"), keras.layers.Dense(1, name="dog")
    model = keras.Model(image, {"breeds": breeds(mean), "dog": dog(mean)})
    breeds.set_weights([10 * np.eye(3, dtype=np.float32), np.zeros(3, np.float32)])
    dog.set_weights([np.full((3, 1), 20, np.float32), np.array([-17], np.float32)])
    return model


def export(model_folder: Path, decision: dict[str, float], **fields: str) -> Path:
    """`fields`: further ones of the description."""
    description = {**DESCRIPTION, "decision": decision, **fields}
    return Stored(network(), Calibration(1.0), description).export(model_folder).folder


def photo(half: str, name: str = "red hound", rest: tuple[int, int, int] = (0, 0, 0)) -> bytes:
    """A square whose `half` has a colour of COLOURS, and the rest another."""
    pixels = np.full((SIDE, SIDE, 3), rest, np.uint8)
    pixels[HALVES[half]] = COLOURS[name]
    return png(pixels)
