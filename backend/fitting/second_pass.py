"""The second pass: the network's answer to the part of a photo that holds the dog, combined with its answer to the whole photo.

`building/merging` puts it into versions.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import product

import keras
import numpy as np
import tensorflow as tf

from backend.fitting import scoring, thresholds
from backend.fitting.dataset import Example, photo_bytes
from backend.fitting.scoring import share
from backend.serving.photos.preprocessing import windows_to_images

Tensors = dict[str, tf.Tensor]

NEEDED = ("prediction", "dog", "box")  # outputs that a network needs for a second pass
SMALLEST_SIDE = 0.08  # of a window, as a fraction of the photo
BATCH = 32
LEAST = 1e-7  # probabilities below are raised to this before taking logarithms
# What `choose` tries.
MARGINS, WEIGHTS, LARGEST, SUREST = (0.05, 0.2), (0.4, 0.5, 0.6), (0.7, 1.0), (0.85, 0.95, 1.0)
MOST_PASSES = 0.5  # second passes per photo: more would cost more time than they gain


@dataclass(frozen=True)
class SecondPass:
    """Which part of a photo gets a second pass, and how both answers are combined; chosen on validation photos.

    `margin`: added to the box on each side, as a fraction of its width and height. `largest`: area of the window (the box with
    its margin), as a fraction of the photo, and `surest`: largest probability in the first pass, up to which there is a second
    pass; what is more certain than that hardly changes. The window is mirrored, so that its answer errs less often together with
    the first. `weight` in [0, 1] of the second pass's log-probabilities; the first pass has the rest. `sharpness`: factor of
    the weighted mean of the log-probabilities, an inverse temperature that calibrates the result.
    """

    margin: float
    largest: float
    surest: float
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

    def plan(self, first: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
        """The windows that get a second pass, (m, 4), and the indices of their photos, int64 (m,); `first`: answers (n, ...)."""
        windows = self.windows(first["box"])
        rows = self._rows(windows, first["prediction"])
        return tf.gather(windows, rows), rows

    def _rows(self, windows: tf.Tensor, prediction: tf.Tensor) -> tf.Tensor:
        areas = (windows[:, 2] - windows[:, 0]) * (windows[:, 3] - windows[:, 1])
        is_open = tf.reduce_max(prediction, axis=1) <= self.surest
        return tf.where(tf.logical_and(areas <= self.largest, is_open))[:, 0]

    def combined(self, first: Tensors, second: Tensors) -> Tensors:
        """The answers of the first pass (n, ...), those of the photos in `plan` combined with the second pass (m, ...)."""
        return self.combined_at(first, second, *self.plan(first))

    def combined_at(self, first: Tensors, second: Tensors, windows: tf.Tensor, rows: tf.Tensor) -> Tensors:
        """The same for these `windows` (m, 4) of the photos `rows` (m,).

        The box is that of the second pass, where the dog has more pixels; whether there is a dog, the first pass says.
        """
        both = {name: tf.gather(value, rows) for name, value in first.items()}
        mean = (1 - self.weight) * logarithms(both["prediction"]) + self.weight * logarithms(second["prediction"])
        mixed = {
            "prediction": tf.nn.softmax(self.sharpness * mean),
            "box": box_in_photo(windows, second["box"]),
        }
        places = rows[:, tf.newaxis]
        return {
            name: tf.tensor_scatter_nd_update(value, places, mixed[name]) if name in mixed else value
            for name, value in first.items()
        }


def second_images(contents: tf.Tensor, windows: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """What the second pass sees of each photo: as `windows_to_images`, mirrored."""
    return tf.reverse(windows_to_images(contents, windows, size), axis=[2])


def box_in_photo(windows: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    """Boxes (m, 4) that the second pass found in its mirrored images, in fractions of the photos; `windows` (m, 4)."""
    left, top, right, bottom = tf.unstack(boxes, axis=1)
    corners, sizes = tf.tile(windows[:, :2], [1, 2]), tf.tile(windows[:, 2:] - windows[:, :2], [1, 2])
    return corners + sizes * tf.stack([1 - right, top, 1 - left, bottom], axis=1)


def logarithms(probabilities: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(probabilities, LEAST))


def choose(model: keras.Model, examples: list[Example], calibration: Mapping, labels: list[dict]) -> dict[str, object]:
    """The parameters with the highest top-1 on `examples` and, among those, the fewest second passes; as stored in scores.json.

    Whole pictures and crops count alike, however many there are of each; at most MOST_PASSES of the photos get a second pass,
    and none where that gains nothing. `calibration`: of one pass, as stored.
    """
    breeds = np.array([example.breed for example in examples])
    whole = np.array([example.is_whole for example in examples])
    before, best = _best(model, examples, scoring.Calibration.of(calibration, len(labels)), breeds, whole)
    _, _, (margin, largest, sure, weight), twice, mixed = best
    sharpness = 1 / scoring.fit_temperature(mixed[twice], breeds[twice]) if twice.any() else 1.0
    probabilities = scoring.softmax(np.where(twice[:, np.newaxis], sharpness, 1.0) * mixed)
    places = {label["id"]: place for place, label in enumerate(labels)}
    groups = [[places[member] for member in group] for group in calibration["groups"]]
    right_once, right = before.argmax(-1) == breeds, mixed.argmax(-1) == breeds
    return {
        "margin": margin,
        "largest": largest,
        "surest": sure,
        "weight": weight,
        "sharpness": round(sharpness, 4),
        "decision": {
            "dog_threshold": calibration["dog_threshold"],
            **thresholds.fit_decision(probabilities, breeds, groups, whole),
        },
        "validation": {
            "photos": len(breeds),
            "top1_one_pass": share(right_once),
            "top1": share(right),
            "top1_whole_one_pass": share(right_once[whole]),
            "top1_whole": share(right[whole]),
            "second_passes": share(twice),
        },
    }


def _best(
    model: keras.Model,
    examples: list[Example],
    calibration: scoring.Calibration,
    breeds: np.ndarray,
    whole: np.ndarray,
) -> tuple[np.ndarray, tuple]:
    """The logarithms of one pass, and of the parameters that were tried the best: score, minus the share of second passes,
    the parameters (margin, largest, surest, weight), which photos get a second pass, and the logarithms after it.
    """
    photos = [photo_bytes(example.path) for example in examples]
    first = _answers(model, photos, None)
    before = _logarithms(calibration.scaled(first["breeds"]))
    confidences = np.exp(before.max(axis=1))
    none = np.zeros(len(breeds), bool)
    tried = [(_balanced(before, breeds, whole), 0.0, (0.0, 0.0, 0.0, 0.0), none, before)]
    for margin in MARGINS:
        windows = SecondPass(margin, 1.0, 1.0, 0.5, 1.0).windows(tf.constant(first["box"])).numpy()
        second = _answers(model, photos, windows)
        after = _logarithms(calibration.scaled(second["breeds"]))
        areas = (windows[:, 2] - windows[:, 0]) * (windows[:, 3] - windows[:, 1])
        for weight, largest, sure in product(WEIGHTS, LARGEST, SUREST):
            twice = (areas <= largest) & (confidences <= sure)
            if twice.mean() > MOST_PASSES:
                continue
            mixed = np.where(twice[:, np.newaxis], (1 - weight) * before + weight * after, before)
            score = _balanced(mixed, breeds, whole)
            tried.append((score, -twice.mean(), (margin, largest, sure, weight), twice, mixed))
    return before, max(tried, key=lambda each: each[:2])


def _balanced(logarithms: np.ndarray, breeds: np.ndarray, whole: np.ndarray) -> float:
    """The mean of the top-1 of whole pictures and of crops, to four digits."""
    right = logarithms.argmax(-1) == breeds
    return round(float(np.mean([right[whole == kind].mean() for kind in np.unique(whole)])), 4)


def _logarithms(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities, (n, classes)."""
    return np.log(np.maximum(scoring.softmax(logits), LEAST))


def _answers(model: keras.Model, photos: list[bytes], windows: np.ndarray | None) -> dict[str, np.ndarray]:
    """The model's outputs for the photos, or in the second pass for a window of each."""
    cut = windows_to_images if windows is None else second_images
    if windows is None:
        windows = np.tile(np.array([[0.0, 0.0, 1.0, 1.0]], np.float32), (len(photos), 1))
    batches = [slice(start, start + BATCH) for start in range(0, len(photos), BATCH)]
    parts = [
        model.predict_on_batch(cut(tf.constant(photos[batch]), tf.constant(windows[batch]), model.input_shape[1:3]))
        for batch in batches
    ]
    return {name: np.concatenate([part[name] for part in parts]).astype(np.float32) for name in ("breeds", "box")}
