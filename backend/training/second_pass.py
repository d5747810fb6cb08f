"""The second pass: the network's answer to the part of a photo that holds the dog, combined with its answer to the whole photo.

`export/merge.py` puts it into versions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product

import keras
import numpy as np
import tensorflow as tf

from backend.serving.photos.preprocessing import windows_to_images
from backend.training import evaluation, levels
from backend.training.dataset import Example

Tensors = dict[str, tf.Tensor]

NEEDED = ("prediction", "dog", "box")  # outputs that a network needs for a second pass
SMALLEST_SIDE = 0.08  # of a window, as a fraction of the photo
BATCH = 32
LEAST = 1e-7  # probabilities below are raised to this before taking logarithms
MARGINS, WEIGHTS, LARGEST = (0.08, 0.2), (0.4, 0.5, 0.6, 0.7), (0.5, 0.65, 0.8)


@dataclass(frozen=True)
class SecondPass:
    """Which part of a photo gets a second pass, and how both answers are combined; chosen on validation photos.

    `margin`: added to the box on each side, as a fraction of its width and height. `largest`: area of the window (the box with
    its margin), as a fraction of the photo, up to which there is a second pass; a larger window shows little more than the
    whole photo. `weight` in [0, 1] of the second pass's log-probabilities; the first pass has the rest. `sharpness`: factor of
    the weighted mean of the log-probabilities, an inverse temperature that calibrates the result.
    """

    margin: float
    largest: float
    weight: float
    sharpness: float

    @classmethod
    def of(cls, stated: Mapping) -> "SecondPass":
        """From a version's description; ignores further keys."""
        return cls(**{name: float(stated[name]) for name in cls.__dataclass_fields__})

    def to_json(self) -> dict[str, float]:
        """For a version's description."""
        return asdict(self)

    def windows(self, boxes: tf.Tensor) -> tf.Tensor:
        """Boxes (n, 4) with their margin, clipped to the photo: (n, 4)."""
        corner, end = boxes[:, :2], boxes[:, 2:]
        middle, half = (corner + end) / 2, tf.maximum((end - corner) * (0.5 + self.margin), SMALLEST_SIDE / 2)
        return tf.clip_by_value(tf.concat([middle - half, middle + half], axis=1), 0.0, 1.0)

    def rows(self, windows: tf.Tensor) -> tf.Tensor:
        """The indices of the photos that get a second pass, int64 (m,)."""
        areas = (windows[:, 2] - windows[:, 0]) * (windows[:, 3] - windows[:, 1])
        return tf.where(areas <= self.largest)[:, 0]

    def combined(self, first: Tensors, second: Tensors, rows: tf.Tensor) -> Tensors:
        """The answers of the first pass (n, ...), those at `rows` combined with the second pass (m, ...).

        The logit of "dog" is the mean of both, the box that of the second pass, where the dog has more pixels.
        """
        both = {name: tf.gather(value, rows) for name, value in first.items()}
        logarithms = (1 - self.weight) * _log(both["prediction"]) + self.weight * _log(second["prediction"])
        windows = self.windows(both["box"])
        corners, sizes = tf.tile(windows[:, :2], [1, 2]), tf.tile(windows[:, 2:] - windows[:, :2], [1, 2])
        mixed = {
            "prediction": tf.nn.softmax(self.sharpness * logarithms),
            "box": corners + sizes * second["box"],
            "dog": tf.sigmoid((_logit(both["dog"]) + _logit(second["dog"])) / 2),
        }
        places = rows[:, tf.newaxis]
        return {
            name: tf.tensor_scatter_nd_update(value, places, mixed[name]) if name in mixed else value
            for name, value in first.items()
        }


def _log(probabilities: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(probabilities, LEAST))


def _logit(probabilities: tf.Tensor) -> tf.Tensor:
    return _log(probabilities) - _log(1 - probabilities)


def choose(
    model: keras.Model, examples: list[Example], others: np.ndarray, calibration: Mapping, labels: list[dict]
) -> dict[str, object]:
    """The parameters with the highest top-1 on `examples` and, among those, the fewest second passes; as stored in scores.json.

    `others`: dog logits of photos without a dog, which count with one pass. `calibration`: of one pass, as stored.
    """
    breeds = np.array([example.breed for example in examples])
    photos = [example.path.read_bytes() for example in examples]
    temperature = calibration["temperature"]
    first = _answers(model, photos, None)
    before = _logarithms(first["breeds"] / temperature)
    tried = []
    for margin in MARGINS:
        windows = SecondPass(margin, 1.0, 0.5, 1.0).windows(tf.constant(first["box"])).numpy()
        second = _answers(model, photos, windows)
        after = _logarithms(second["breeds"] / temperature)
        areas = (windows[:, 2] - windows[:, 0]) * (windows[:, 3] - windows[:, 1])
        for weight, largest in product(WEIGHTS, LARGEST):
            twice = areas <= largest
            mixed = np.where(twice[:, np.newaxis], (1 - weight) * before + weight * after, before)
            top1 = round(float((mixed.argmax(-1) == breeds).mean()), 4)
            tried.append((top1, -twice.mean(), (margin, largest, weight), twice, mixed, second["dog"]))
    top1, _, (margin, largest, weight), twice, mixed, second_dog = max(tried, key=lambda each: each[:2])
    sharpness = 1 / evaluation.fit_temperature(mixed[twice], breeds[twice]) if twice.any() else 1.0
    probabilities = evaluation.softmax(np.where(twice[:, np.newaxis], sharpness, 1.0) * mixed)
    places = {label["id"]: place for place, label in enumerate(labels)}
    groups = [[places[member] for member in group] for group in calibration["groups"]]
    whole = np.array([example.is_whole for example in examples])
    dogs = np.where(twice, (first["dog"] + second_dog)[:, 0] / 2, first["dog"][:, 0])
    threshold = evaluation.dog_threshold(evaluation.sigmoid(dogs), evaluation.sigmoid(others))
    return {
        "margin": margin,
        "largest": largest,
        "weight": weight,
        "sharpness": round(sharpness, 4),
        "decision": {
            "dog_threshold": round(threshold, 4),
            **levels.fit_decision(probabilities, breeds, groups, whole),
        },
        "validation": {
            "photos": len(breeds),
            "top1_one_pass": round(float((before.argmax(-1) == breeds).mean()), 4),
            "top1": top1,
            "second_passes": round(float(twice.mean()), 4),
        },
    }


def _logarithms(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities, (n, classes)."""
    return np.log(np.maximum(evaluation.softmax(logits), LEAST))


def _answers(model: keras.Model, photos: list[bytes], windows: np.ndarray | None) -> dict[str, np.ndarray]:
    """The model's outputs for the photos, or for a window of each."""
    whole = np.tile(np.array([[0.0, 0.0, 1.0, 1.0]], np.float32), (len(photos), 1))
    parts = [
        model.predict_on_batch(windows_to_images(tf.constant(photos[part]), tf.constant(seen), model.input_shape[1:3]))
        for part, seen in _batches(whole if windows is None else windows, BATCH)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in ("breeds", "dog", "box")}


def _batches(windows: np.ndarray, size: int) -> Iterator[tuple[slice, np.ndarray]]:
    for start in range(0, len(windows), size):
        part = slice(start, start + size)
        yield part, windows[part]
