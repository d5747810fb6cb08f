"""A network that finds a dog of each colour in a picture, and photos of them: every dog gets an answer."""

from pathlib import Path

import keras
from dogsnap.exporting.export import Stored
from dogsnap.networks.every_dog import CELLS, EveryDog
from dogsnap.networks.temperature import Calibration
from dogsnap.serving.photos.photo import ORIENTATION

from support import spotting, upright_dogs
from support.exported import DESCRIPTION
from support.spotting import PASS, photo

EVERY = EveryDog(PASS, score=0.5, overlap=0.4, dog=0.7, margin=0.1, weight=1.0, sharpness=1.0)
RED, BLUE, GREEN = (10, 10, 150, 230), (200, 40, 300, 200), (160, 20, 190, 60)
DECISION = {"dog_threshold": 0.1, "confident_threshold": 0.9}


@keras.saving.register_keras_serializable("tests")
class ColouredParts(keras.layers.Layer):
    """Images (n, h, w, 3) -> cells (n, 3, 5): for each colour, 0.9 where it is there, else 0, and the box of its pixels."""

    def call(self, image):
        cells = []
        for channel in range(3):
            coloured = keras.ops.cast(
                image[..., channel] - keras.ops.min(image, axis=-1) > 0.3, "float32"
            )
            own = (
                keras.ops.cast(image[..., channel] >= keras.ops.max(image, axis=-1), "float32")
                * coloured
            )
            (left, right), (top, bottom) = (
                spotting._ends(keras.ops.max(own, axis=axis)) for axis in (1, 2)
            )
            score = 0.9 * keras.ops.max(own, axis=(1, 2))
            cells.append(
                keras.ops.stack(
                    [score, *(score * side for side in (left, top, right, bottom))], axis=-1
                )
            )
        return keras.ops.stack(cells, axis=1)


def export(model_folder: Path, every: dict | None = None, tells_orientation: bool = False) -> Path:
    plain = spotting.network()
    further = {CELLS: ColouredParts(name=CELLS)(plain.input)}
    if tells_orientation:
        further[ORIENTATION] = upright_dogs.orientation(plain.input)
    model = keras.Model(plain.input, plain.output | further)
    scores = {"second_pass": {**PASS.to_json(), "decision": DECISION}}
    dogs = {"every_dog": EVERY.to_json() if every is None else every}
    description = {**DESCRIPTION, "scores": scores, "dogs": dogs}
    return Stored(model, Calibration(1.0), description).export(model_folder).folder


TWO = photo([("red hound", RED), ("blue spaniel", BLUE)])
ONE = photo([("blue spaniel", BLUE)])
NONE = photo([])
