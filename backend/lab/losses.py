"""What the training of the heads for one dog and for every dog minimises."""

import tensorflow as tf
from dogsnap.networks.box_head import Centres, grid, overlap, shared_and_joined, unfold
from keras import ops

CENTRE = 0.5  # a cell is the dog's if it lies in the middle half of the box, along both axes
BOX_SCORE_SHARE = 0.3  # of the loss
FOCUS = 2.0  # exponent of the focal loss
DOGS_SCORE_SHARE = 4.0  # of the scores in the loss, over that of the overlap


def generalised_overlap(boxes: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """The overlap, minus the share of the hull of both boxes that is in neither
    (Rezatofighi et al. 2019): in [-1, 1].
    """
    shared, joined = shared_and_joined(boxes, others)
    corner = ops.minimum(boxes[..., :2], others[..., :2])
    end = ops.maximum(boxes[..., 2:], others[..., 2:])
    hull = ops.prod(end - corner, axis=-1)
    return shared / joined - (hull - joined) / (hull + 1e-7)


def box_loss(targets: tf.Tensor, cells: tf.Tensor, centres: Centres) -> tf.Tensor:
    """The mean loss over the pictures whose box is known, a scalar; 0 where
    none is.

    `cells` (n, rows, columns, 5); `targets` float32 (n, 5): the box, and 1
    where it is known, else 0. For the cells in the middle of the dog: one minus
    the generalised overlap and the absolute differences of the sides; for the
    scores, cross entropy against these cells in equal parts.
    """
    scores, boxes = unfold(cells, centres)
    box, known = targets[:, :4], targets[:, 4]
    own = _share_of_cells(box, centres)
    entropy = -ops.sum(own * ops.log(ops.maximum(own, 1e-9)), axis=-1)
    score = ops.categorical_crossentropy(own, scores, from_logits=True) - entropy
    true = box[:, None]
    sides = ops.sum(ops.abs(ops.clip(boxes, -0.05, 1.05) - true), axis=-1)
    fit = ops.sum(own * (1.0 - generalised_overlap(boxes, true) + sides), axis=-1)
    return ops.sum(known * (BOX_SCORE_SHARE * score + fit)) / (ops.sum(known) + 1e-6)


def way_from_middle(box: tf.Tensor, centres: Centres) -> tf.Tensor:
    """Where the cells lie between the middles of boxes (..., 4), 0, and their
    sides, 1, along the farther axis: (..., cells).
    """
    down, across = grid(centres)
    points = tf.reshape(tf.stack([across, down], axis=-1), (-1, 2))
    middle = (box[..., None, :2] + box[..., None, 2:]) / 2
    half = (box[..., None, 2:] - box[..., None, :2]) / 2
    return ops.max(ops.abs(points - middle) / ops.maximum(half, 1e-3), axis=-1)


def _share_of_cells(box: tf.Tensor, centres: Centres) -> tf.Tensor:
    """How the score is shared among the cells, (n, cells): equally among those
    in the box's middle, else the nearest has all.
    """
    far = way_from_middle(box, centres)
    nearest = far <= ops.min(far, axis=-1, keepdims=True)
    inside = ops.cast(ops.logical_or(far < CENTRE, nearest), "float32")
    return inside / ops.sum(inside, axis=-1, keepdims=True)


def dogs_loss(targets: tf.Tensor, cells: tf.Tensor, places: Centres) -> tf.Tensor:
    """The mean loss of a cell that shows a dog; `cells` (n, h, w, 5), `targets`
    (n, k, 5): the dogs' boxes, and 1 for each.

    A cell in the middle of a dog's box is to tell that box, by its generalised
    overlap (Rezatofighi et al. 2019), and to have the overlap that it reaches
    as its score; all others are to have 0 (quality focal loss, Li et al. 2020).
    """
    logits, found = unfold(cells, places)
    true, own = _assign_cells(targets, places)
    generalised = generalised_overlap(found, true)
    quality = tf.stop_gradient(own * overlap(tf.clip_by_value(found, 0.0, 1.0), true))
    gap = ops.abs(quality - ops.sigmoid(logits)) ** FOCUS
    score = gap * tf.nn.sigmoid_cross_entropy_with_logits(quality, logits)
    dogs = ops.maximum(ops.sum(own), 1.0)
    return (DOGS_SCORE_SHARE * ops.sum(score) + ops.sum(own * (1.0 - generalised))) / dogs


def _assign_cells(targets: tf.Tensor, places: Centres) -> tuple[tf.Tensor, tf.Tensor]:
    """The box that each cell is to tell, (n, cells, 4), and 1 where it is to
    tell one, (n, cells).
    """
    far, known = way_from_middle(targets[..., :4], places), targets[..., None, 4]
    nearest = far <= tf.reduce_min(far, axis=-1, keepdims=True)
    # A dog between the centres has one cell, whatever lies there besides.
    far = tf.where(nearest, far * 1e-3, far)
    far = tf.where(known > 0, far, 1e9)
    own = tf.cast(tf.reduce_min(far, axis=1) < CENTRE, tf.float32)
    return tf.gather(targets[..., :4], tf.argmin(far, axis=1), batch_dims=1), own
