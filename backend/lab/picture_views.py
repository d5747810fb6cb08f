"""Views of whole pictures for training: random windows between the dog's box
and the whole picture, with the box in the view.

Lab note. Whole pictures at hand have 224 pixels, the dogs in them far less; the
crops of the same dogs have them at 224. So a view is of the picture as it is
(as photos of low resolution), of the enlarged picture with the crop pasted into
it (as photos of high resolution), or of the crop alone.
"""

import math
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from dogsnap.serving.photos.preprocessing import decode, resize
from dogsnap.training.dataset import Example, paths_of, photo_bytes
from PIL import Image

from lab.boxes import WHOLE_BOX
from lab.scenes import paste_crop

CROP_SHARE = 0.15  # of the views that show the crop alone
SHARP_SHARE = 0.38  # of the views that have the crop pasted into the picture
ENLARGED = 1.25  # sides of the enlarged picture over those of the view
# Of each side of a window: its way from the box to the picture's end, of which 0 and 1 are
# drawn often; how far the ways of the four sides differ, a standard deviation; where 0 is, over
# the box's sides.
WAY, SPREAD, MARGIN = (-0.4, 1.4), 0.25, (-0.1, 0.25)
TURNED_SHARE, LARGEST_TURN = 0.35, 0.15  # radians
JPEG_SHARE, JPEG_QUALITY = 0.2, (35, 95)
SPLITS = (0.38, 0.62)  # width of the first of two views side by side, over that of both


class View(NamedTuple):
    """`image` float32 (h, w, 3) in [0, 1]; `box` (4,) of the dog in it; `known`
    1.0 where that is known, else 0.0; `row` of the example.
    """

    image: tf.Tensor
    box: tf.Tensor
    known: tf.Tensor
    row: tf.Tensor


def views(examples: list[Example], size: tuple[int, int], plain: bool = False) -> tf.data.Dataset:
    """Random `View`s of one example after the other, without end, in another order
    each time.

    Turned ones and those with a pasted crop do not count for the box; `plain`:
    none of these.
    """
    paths = list(map(str, paths_of(examples)))
    pictures = [str(example.frame or example.path) for example in examples]
    boxes = np.array([example.box or WHOLE_BOX for example in examples], np.float32)
    files = tf.data.Dataset.from_tensor_slices((paths, pictures, boxes, np.arange(len(examples))))
    files = files.shuffle(len(examples)).repeat()
    turn = keras.layers.RandomRotation(LARGEST_TURN / (2 * math.pi), fill_mode="reflect")

    def view(path: tf.Tensor, picture: tf.Tensor, box: tf.Tensor, row: tf.Tensor) -> View:
        crop, whole = read(path), read(picture)
        draw = uniform()
        alone, sharp = draw < CROP_SHARE, draw > 1 - SHARP_SHARE * (not plain)
        given = whole, crop, box, round(size[0] * ENLARGED)
        seen = tf.case(
            [
                (alone, lambda: crop),
                (sharp, lambda: tf.numpy_function(paste_back, given, tf.uint8)),
            ],
            default=lambda: whole,
        )
        seen = tf.image.convert_image_dtype(tf.ensure_shape(seen, (None, None, 3)), tf.float32)
        box = tf.where(alone, tf.constant(WHOLE_BOX), box)
        window, mirrored = random_window(box), uniform() < 0.5
        turned = uniform() < TURNED_SHARE * (not plain)
        corners = tf.gather(window, [1, 0, 3, 2])[tf.newaxis]
        image = tf.image.crop_and_resize(seen[tf.newaxis], corners, [0], size)[0]
        image = tf.cond(mirrored, lambda: tf.image.flip_left_right(image), lambda: image)
        image = tf.cond(turned, lambda: turn(image), lambda: image)
        known = tf.cast(tf.logical_not(tf.logical_or(turned, sharp)), tf.float32)
        image = tf.ensure_shape(change_light(image), (*size, 3))
        return View(image, box_in(window, box, mirrored), known, row)

    return files.map(view, num_parallel_calls=tf.data.AUTOTUNE)


def read(path: tf.Tensor) -> tf.Tensor:
    """Decode a photo file (a scalar string) of any of the formats in
    `photo_endings.READ_ENDINGS`.
    """
    contents = tf.numpy_function(lambda name: photo_bytes(Path(name.decode())), [path], tf.string)
    return decode(tf.ensure_shape(contents, ()))


def uniform(low: float = 0.0, high: float = 1.0) -> tf.Tensor:
    return tf.random.uniform((), low, high)


def change_light(view: tf.Tensor) -> tf.Tensor:
    """A view in another light, at times compressed."""
    view = tf.image.random_brightness(view, 0.18)
    view = tf.image.random_contrast(view, 0.7, 1.35)
    view = tf.image.random_saturation(tf.clip_by_value(view, 0.0, 1.0), 0.55, 1.4)
    view = tf.clip_by_value(view * tf.random.uniform((3,), 0.94, 1.06), 0.0, 1.0)  # white balance
    return tf.cond(
        uniform() < JPEG_SHARE,
        lambda: tf.image.random_jpeg_quality(view, *JPEG_QUALITY),
        lambda: view,
    )


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
    return View(image, tf.where(uniform() < 0.5, left, right), one.known * other.known, one.row)


def paste_back(picture: np.ndarray, crop: np.ndarray, box: np.ndarray, side: int) -> np.ndarray:
    """The picture enlarged to (side, side) with the crop at its place: all uint8 (h, w, 3)."""
    image = Image.fromarray(picture).resize((int(side), int(side)))
    paste_crop(image, Image.fromarray(crop), box)
    return np.asarray(image)


def random_window(box: tf.Tensor) -> tf.Tensor:
    """A window, (4,) in fractions of the picture: the whole, hardly more than the box,
    or anything between; it cuts off a tenth of the dog at most.
    """
    outwards = tf.constant([-1.0, -1.0, 1.0, 1.0])
    size = tf.tile(box[2:] - box[:2], [2])
    margin = tf.random.uniform((4,), *MARGIN) * size
    tight = tf.clip_by_value(box + outwards * margin, 0.0, 1.0)
    way = tf.clip_by_value(uniform(*WAY) + tf.random.normal((4,), stddev=SPREAD), 0.0, 1.0)
    return tight + way * (tf.constant(WHOLE_BOX) - tight)


def box_in(window: tf.Tensor, box: tf.Tensor, mirrored: tf.Tensor) -> tf.Tensor:
    """The part of a box that a window shows, in fractions of the window: (4,)."""
    corner, size = tf.tile(window[:2], [2]), tf.tile(window[2:] - window[:2], [2])
    left, top, right, bottom = tf.unstack(tf.clip_by_value((box - corner) / size, 0.0, 1.0))
    return tf.stack(
        [tf.where(mirrored, 1 - right, left), top, tf.where(mirrored, 1 - left, right), bottom]
    )
