"""The second pass: the network's answer to the part of a photo that holds the
dog, combined with its answer to the whole photo.

`exporting/merging` puts it into versions.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow as tf

from dogsnap.serving.photos.preprocessing import ROWS, WINDOWS, windows_to_images

Tensors = dict[str, tf.Tensor]

NEEDED = ("prediction", "dog", "box")  # outputs that a network needs for a second pass
SMALLEST_SIDE = 0.08  # of a window, as a fraction of the photo
LEAST = 1e-7  # probabilities below are raised to this before taking logarithms


@dataclass(frozen=True)
class SecondPass:
    """Which part of a photo gets a second pass, and how both answers are
    combined; chosen on validation photos.

    `margin`: added to the box on each side, as a fraction of its width and
    height. `largest`: area of the window (the box with its margin), as a
    fraction of the photo, and `surest`: largest probability in the first pass,
    up to which there is a second pass; what is more certain than that hardly
    changes. The window is mirrored, so that its answer errs less often together
    with the first. `weight` in [0, 1] of the second pass's log-probabilities;
    the first pass has the rest. `sharpness`: factor of the weighted mean of the
    log-probabilities, an inverse temperature that calibrates the result.
    """

    margin: float
    largest: float
    surest: float
    weight: float
    sharpness: float

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> "SecondPass":
        """From a version's description; ignores further keys."""
        return cls(**{name: float(stated[name]) for name in cls.__dataclass_fields__})

    def to_json(self) -> dict[str, float]:
        """For a version's description."""
        return asdict(self)

    def windows(self, boxes: tf.Tensor) -> tf.Tensor:
        """Boxes (n, 4) with their margin, clipped to the photo: (n, 4)."""
        corner = boxes[:, :2]
        end = boxes[:, 2:]
        middle = (corner + end) / 2
        half = tf.maximum((end - corner) * (0.5 + self.margin), SMALLEST_SIDE / 2)
        return tf.clip_by_value(tf.concat([middle - half, middle + half], axis=1), 0.0, 1.0)

    def plan(self, first: Tensors) -> Tensors:
        """The WINDOWS that get a second pass, (m, 4), and as ROWS the indices
        of their photos, int64 (m,); `first`: answers (n, ...).
        """
        windows = self.windows(first["box"])
        is_open = tf.reduce_max(first["prediction"], axis=1) <= self.surest
        rows = tf.where(tf.logical_and(areas(windows) <= self.largest, is_open))[:, 0]
        return {WINDOWS: tf.gather(windows, rows), ROWS: rows}

    def combine(self, first: Tensors, second: Tensors, planned: Tensors) -> Tensors:
        """The answers of the first pass (n, ...), those of the photos in
        `planned` combined with the second pass (m, ...).

        The box is that of the second pass, where the dog has more pixels. There
        is a dog if either pass sees one: a small one is seen in the window
        alone.
        """
        windows = planned[WINDOWS]
        rows = planned[ROWS]
        both = {name: tf.gather(value, rows) for name, value in first.items()}
        before = logarithms(both["prediction"])
        after = logarithms(second["prediction"])
        mean = (1 - self.weight) * before + self.weight * after
        mixed = {
            "prediction": tf.nn.softmax(self.sharpness * mean),
            "box": box_in_photo(windows, second["box"]),
            "dog": tf.maximum(both["dog"], second["dog"]),
        }
        combined = dict(first)
        for name, value in mixed.items():
            combined[name] = tf.tensor_scatter_nd_update(first[name], rows[:, tf.newaxis], value)
        return combined


def second_images(
    contents: tf.Tensor,
    windows: tf.Tensor,
    size: tuple[int, int],
    picture: tf.Tensor | None = None,
) -> tf.Tensor:
    """What the second pass sees of each photo: as `windows_to_images`, mirrored."""
    return tf.reverse(windows_to_images(contents, windows, size, picture), axis=[2])


def areas(boxes: tf.Tensor) -> tf.Tensor:
    """Boxes (..., 4) -> (...), as fractions of the photo."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def box_in_photo(windows: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    """Boxes (m, 4) that the second pass found in its mirrored images, in
    fractions of the photos; `windows` (m, 4).
    """
    left, top, right, bottom = tf.unstack(boxes, axis=1)
    corners = tf.tile(windows[:, :2], [1, 2])
    sizes = tf.tile(windows[:, 2:] - windows[:, :2], [1, 2])
    return corners + sizes * tf.stack([1 - right, top, 1 - left, bottom], axis=1)


def logarithms(probabilities: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(probabilities, LEAST))
