"""Where the dog is: boxes from the cells of a feature map, and how well they
overlap.

A box is (left, top, right, bottom) in fractions of the picture's width and
height. Every cell of the map gives a score and the distances from its centre to
the four sides (as FCOS, Tian et al. 2019); the best cell answers, together with
those that mean the same dog. A mean over all cells would lie between two dogs.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

# of the cells: rows and columns, fractions of the picture
Centres = tuple[tuple[float, ...], tuple[float, ...]]

CELL_NUMBERS = 5  # a score, and the logarithms of four distances
UNIT = 0.25  # the distance, as a fraction of the picture, that the logarithm 0 stands for
OUTWARD = (-UNIT, -UNIT, UNIT, UNIT)  # from the centre to the left, top, right and bottom side
# logarithms of distances
SMALLEST = -4.0
LARGEST = 2.0
SAME_DOG = 0.6  # cells whose boxes overlap so far with the best cell's mean the same dog


class CellBoxes(keras.layers.Layer):
    """Numbers of the cells, float32 (n, rows, columns, 5) -> the box of the
    dog, float32 (n, 4) in [0, 1].
    """

    def __init__(self, centres: Centres, **options: Any) -> None:
        super().__init__(**options)
        self.centres = centres

    def call(self, cells: tf.Tensor) -> tf.Tensor:
        """The mean of the boxes that overlap with the best cell's, weighted by
        their scores.
        """
        scores, boxes = unfold(cells, self.centres)
        # Keras warns of a softmax over one cell, and OpenVINO lacks a part of its argmax.
        shares = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
        best = ops.cast(scores >= ops.max(scores, axis=-1, keepdims=True), "float32")
        found = _mean(boxes, best)[:, None]
        shares = shares * ops.cast(overlap(boxes, found) > SAME_DOG, "float32")
        return ops.clip(_mean(boxes, shares), 0.0, 1.0)


def _mean(boxes: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
    """Of boxes (n, cells, 4), weighted by shares (n, cells): (n, 4)."""
    total = ops.sum(shares[..., None] * boxes, axis=1)
    return total / ops.maximum(ops.sum(shares, axis=1, keepdims=True), 1e-9)


def grid(centres: Centres) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows and the columns of the centres of all cells, each (rows, columns)."""
    rows, columns = centres
    sides = tf.constant(rows, tf.float32), tf.constant(columns, tf.float32)
    down, across = tf.meshgrid(*sides, indexing="ij")
    return down, across


def unfold(cells: tf.Tensor, centres: Centres) -> tuple[tf.Tensor, tf.Tensor]:
    """Cells (n, rows, columns, 5) -> their scores (n, cells) and boxes (n, cells, 4)."""
    down, across = grid(centres)
    middles = tf.stack([across, down, across, down], axis=-1)
    # One product and one sum for all sides: what OpenVINO compiles for each of them takes memory.
    distances = tf.constant(OUTWARD) * ops.exp(ops.clip(cells[..., 1:], SMALLEST, LARGEST))
    count = len(centres[0]) * len(centres[1])
    scores = ops.reshape(cells[..., 0], (-1, count))
    return scores, ops.reshape(middles + distances, (-1, count, 4))


def overlap(boxes: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Intersection over union of boxes (..., 4), in [0, 1]: (...)."""
    shared, joined = shared_and_joined(boxes, others)
    return shared / joined


def box_areas(boxes: tf.Tensor) -> tf.Tensor:
    """Boxes (..., 4) -> areas (...)."""
    return ops.prod(ops.maximum(boxes[..., 2:] - boxes[..., :2], 0.0), axis=-1)


def shared_and_joined(boxes: tf.Tensor, others: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    corner = ops.maximum(boxes[..., :2], others[..., :2])
    end = ops.minimum(boxes[..., 2:], others[..., 2:])
    shared = ops.prod(ops.maximum(end - corner, 0.0), axis=-1)
    areas = box_areas(boxes) + box_areas(others)
    return shared, areas - shared + 1e-7
