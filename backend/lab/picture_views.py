"""Views of whole pictures for training: random windows between the dog's box
and the whole picture, with the box in the view.

Lab note. Whole pictures at hand have 224 pixels, the dogs in them far less; the
crops of the same dogs have them at 224. So a view is of the picture as it is
(as photos of low resolution), of the enlarged picture with the crop pasted into
it (as photos of high resolution), or of the crop alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from dogsnap.serving.photos.preprocessing import decode, resize
from dogsnap.training.dataset import Example, paths_of, photo_bytes

from lab import augmentation
from lab.augmentation import uniform
from lab.boxes import WHOLE_BOX

CROP_SHARE = 0.15  # of the views of a picture with a box that show the crop alone
STRONG_SHARE = 0.5  # of the views of a crop that `augmentation.augment` makes
SHARP_SHARE = 0.38  # of the views of a picture with a box that have the crop pasted in
ENLARGED = 1.25  # sides of the enlarged picture over those of the view
# of the crop's sides, over which it fades into the picture: a hard edge would show the box
FEATHER = 0.08
# of the windows; the rest lies between box and picture
WHOLE_SHARE, FAR_SHARE, TIGHT_SHARE = 0.30, 0.06, 0.30
FARTHEST = 1.35  # sides of the largest window over those of the picture
# of tight windows, over the box's: of all sides, of each in addition
MARGINS, MARGIN_SPREAD = (-0.03, 0.3), (-0.08, 0.1)
BETWEEN_SPREAD = 0.25  # standard deviation of the place of each side between box and picture
TURNED_SHARE, LARGEST_TURN = 0.35, 0.15  # radians
BLUR_SHARE, JPEG_SHARE, JPEG_QUALITY = 0.1, 0.2, (35, 95)
SPLITS = (0.38, 0.62)  # width of the first of two views side by side, over that of both
OUTWARDS = (-1.0, -1.0, 1.0, 1.0)


class Files(NamedTuple):
    """Of an example: its `path`, the `frame`'s or "", and `box` (4,) in that."""

    path: tf.Tensor
    frame: tf.Tensor
    box: tf.Tensor


class Picture(NamedTuple):
    """`crop` uint8 (h, w, 3); `frame` uint8 (h', w', 3) and the crop's `box`
    (4,) in it, both meaningless unless `framed`.
    """

    crop: tf.Tensor
    frame: tf.Tensor
    box: tf.Tensor
    framed: tf.Tensor


class View(NamedTuple):
    """`image` float32 (h, w, 3) in [0, 1]; `box` (4,) of the dog in it; `known`
    1.0 where that is known, else 0.0.
    """

    image: tf.Tensor
    box: tf.Tensor
    known: tf.Tensor


def files(examples: list[Example]) -> tf.data.Dataset:
    """The `Files` of each example."""
    frames = [str(example.frame or "") for example in examples]
    boxes = np.array([example.box or WHOLE_BOX for example in examples], np.float32)
    paths = list(map(str, paths_of(examples)))
    return tf.data.Dataset.from_tensor_slices(Files(paths, frames, boxes))


def map_in_parallel(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)


def read(path: tf.Tensor) -> tf.Tensor:
    """Decode a photo file (a scalar string) of any of the formats in
    `photo_endings.READ_ENDINGS`.
    """
    contents = tf.numpy_function(lambda name: photo_bytes(Path(name.decode())), [path], tf.string)
    return decode(tf.ensure_shape(contents, ()))


def load(files_of_example: Files) -> Picture:
    """Decode an example's files."""
    path, frame, box = files_of_example
    is_framed = tf.strings.length(frame) > 0
    crop = read(path)
    return Picture(crop, tf.cond(is_framed, lambda: read(frame), lambda: crop), box, is_framed)


def view(picture: Picture, size: tuple[int, int], plain: bool = False) -> View:
    """One random view of a picture.

    Turned ones and those with a pasted crop do not count for the box; `plain`:
    none of these.
    """
    draw, whole = uniform(0, 1), tf.constant(WHOLE_BOX)
    alone = tf.logical_or(tf.logical_not(picture.framed), draw < CROP_SHARE)
    sharp = tf.logical_and(tf.logical_not(alone), draw < CROP_SHARE + SHARP_SHARE * (not plain))
    strongly = tf.logical_and(alone, uniform(0, 1) < STRONG_SHARE * (not plain))
    image, box, known = tf.cond(
        strongly,
        lambda: View(augmentation.augment(picture.crop, size), whole, tf.zeros(())),
        lambda: _cut_window(picture, alone, sharp, size, TURNED_SHARE * (not plain)),
    )
    image = tf.ensure_shape(image, (*size, 3))
    return View(image, tf.ensure_shape(box, (4,)), tf.ensure_shape(known, ()))


def _cut_window(
    picture: Picture, alone: tf.Tensor, sharp: tf.Tensor, size: tuple[int, int], turned_share: float
) -> View:
    seen = tf.cond(
        sharp,
        lambda: paste_back(picture, round(size[0] * ENLARGED)),
        lambda: tf.image.convert_image_dtype(
            tf.cond(alone, lambda: picture.crop, lambda: picture.frame), tf.float32
        ),
    )
    box = tf.where(alone, tf.constant(WHOLE_BOX), picture.box)
    window = random_window(box)
    turned, mirrored = uniform(0, 1) < turned_share, uniform(0, 1) < 0.5
    turn = tf.where(turned, uniform(-LARGEST_TURN, LARGEST_TURN), 0.0)
    image = augmentation.sample_window(seen, window, size, turn, mirrored)
    image = augmentation.degrade(image, BLUR_SHARE, JPEG_SHARE, JPEG_QUALITY)
    known = tf.cast(tf.logical_not(tf.logical_or(turned, sharp)), tf.float32)
    return View(image, box_in(window, box, mirrored), known)


def side_by_side(one: View, other: View) -> View:
    """Two views in one picture, the second to the right of the first, with the
    box of either: of two dogs, one is answered.
    """
    height, width = one.image.shape[:2]
    share = uniform(*SPLITS)
    split = tf.cast(tf.round(share * width), tf.int32)
    halves = [resize(one.image, (height, split)), resize(other.image, (height, width - split))]
    image = tf.ensure_shape(tf.concat(halves, axis=1), one.image.shape)
    left = one.box * [share, 1, share, 1]
    right = other.box * [1 - share, 1, 1 - share, 1] + [share, 0, share, 0]
    return View(image, tf.where(uniform(0, 1) < 0.5, left, right), one.known * other.known)


def paste_back(picture: Picture, side: int) -> tf.Tensor:
    """The frame enlarged to (side, side) with the crop at its place, fading at
    its edges: float32 (side, side, 3) in [0, 1].
    """
    ground = resize(picture.frame, (side, side))
    sides = tf.cast(tf.round(picture.box * side), tf.int32)
    # At least two pixels a side.
    left, top = tf.unstack(tf.clip_by_value(sides[:2], 0, side - 2))
    wide = tf.clip_by_value(sides[2] - left, 2, side - left)
    high = tf.clip_by_value(sides[3] - top, 2, side - top)
    place = (top, left, side, side)
    mask = tf.image.pad_to_bounding_box(
        _ramp(high)[:, tf.newaxis, tf.newaxis] * _ramp(wide)[:, tf.newaxis], *place
    )
    dog = tf.image.pad_to_bounding_box(resize(picture.crop, tf.stack([high, wide])), *place)
    return ground * (1 - mask) + dog * mask


def _ramp(length: tf.Tensor) -> tf.Tensor:
    """From 0 at both ends to 1 within FEATHER of the length."""
    whole = tf.cast(length, tf.float32)
    places = tf.range(whole) + 0.5
    return tf.minimum(tf.minimum(places, whole - places) / (FEATHER * whole), 1.0)


def random_window(box: tf.Tensor) -> tf.Tensor:
    """A window, (4,) in fractions of the picture: the whole, more than it,
    hardly more than the box, or anything between.
    """
    whole, outwards = tf.constant(WHOLE_BOX), tf.constant(OUTWARDS)
    size = tf.tile(box[2:] - box[:2], [2])
    nearly = whole - outwards * tf.random.uniform((4,), -0.06, 0.08)
    within = box - outwards * 0.1 * size  # cuts off a tenth of the dog at most
    nearly = tf.where(outwards < 0, tf.minimum(nearly, within), tf.maximum(nearly, within))
    far = 0.5 + (whole - 0.5) * uniform(1.0, FARTHEST)
    margin = uniform(*MARGINS) + tf.random.uniform((4,), *MARGIN_SPREAD)
    tight = tf.clip_by_value(box + outwards * margin * size, 0.0, 1.0)
    way = tf.clip_by_value(uniform(0, 1) + tf.random.normal((4,), stddev=BETWEEN_SPREAD), 0.0, 1.0)
    between = box + way * (whole - box)
    draw, far_end = uniform(0, 1), WHOLE_SHARE + FAR_SHARE
    window = tf.where(draw < far_end + TIGHT_SHARE, tight, between)
    window = tf.where(draw < far_end, far, window)
    return tf.where(draw < WHOLE_SHARE, nearly, window)


def box_in(window: tf.Tensor, box: tf.Tensor, mirrored: tf.Tensor) -> tf.Tensor:
    """The part of a box that a window shows, in fractions of the window: (4,)."""
    corner, size = tf.tile(window[:2], [2]), tf.tile(window[2:] - window[:2], [2])
    left, top, right, bottom = tf.unstack(tf.clip_by_value((box - corner) / size, 0.0, 1.0))
    return tf.stack(
        [tf.where(mirrored, 1 - right, left), top, tf.where(mirrored, 1 - left, right), bottom]
    )
