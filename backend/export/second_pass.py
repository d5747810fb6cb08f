"""A second pass of the network over the part of the photo that holds the dog, combined with the answer to the whole photo."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import tensorflow as tf

from backend.export import layers
from backend.export.layers import ImageInput
from backend.serving.photos.preprocessing import windows_to_images

Tensors = dict[str, tf.Tensor]
Network = Callable[[tf.Tensor], Tensors]

NEEDED = ("prediction", "dog", "box")  # outputs that a network needs for a second pass
SMALLEST_SIDE = 0.08  # of a window, as a fraction of the photo
LEAST = 1e-7  # probabilities below are raised to this before taking logarithms


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

    def images(self, contents: tf.Tensor, boxes: tf.Tensor, wanted: ImageInput) -> tuple[tf.Tensor, tf.Tensor]:
        """Photos string (n,) and boxes (n, 4) -> the network's input (m, ...) and the photos' indices (m,)."""
        windows = self.windows(boxes)
        rows = self.rows(windows)
        images = windows_to_images(tf.gather(contents, rows), tf.gather(windows, rows), wanted.size)
        return layers.fit(images, wanted), rows

    def combined(self, first: Tensors, second: Tensors, rows: tf.Tensor) -> Tensors:
        """The answers of the first pass (n, ...), those at `rows` combined with the second pass (m, ...).

        The logit of "dog" is the mean of both; other outputs, the box among them, are those of the first pass.
        """
        both = {name: tf.gather(value, rows) for name, value in first.items()}
        logarithms = (1 - self.weight) * _log(both["prediction"]) + self.weight * _log(second["prediction"])
        mixed = {
            "prediction": tf.nn.softmax(self.sharpness * logarithms),
            "dog": tf.sigmoid((_logit(both["dog"]) + _logit(second["dog"])) / 2),
        }
        places = rows[:, tf.newaxis]
        return {
            name: tf.tensor_scatter_nd_update(value, places, mixed[name]) if name in mixed else value
            for name, value in first.items()
        }

    def answers(self, network: Network, first: Tensors, contents: tf.Tensor, wanted: ImageInput) -> Tensors:
        """The answers after both passes; `first`: the network's answers to the whole photos `contents`."""
        images, rows = self.images(contents, first["box"], wanted)
        return tf.cond(tf.size(rows) > 0, lambda: self.combined(first, network(images), rows), lambda: dict(first))


def _log(probabilities: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(probabilities, LEAST))


def _logit(probabilities: tf.Tensor) -> tf.Tensor:
    return _log(probabilities) - _log(1 - probabilities)
