"""Random changes of training photos: framing, distance, shape, light,
sharpness, compression.

The photos at hand are square crops of the dog alone; the app's users send whole
pictures with a small dog somewhere in them. It works on one photo at a time, as
TensorFlow operations inside the input pipeline.
"""

import math
from collections.abc import Callable
from functools import partial

import tensorflow as tf
from dogsnap.serving.photos.preprocessing import resize

# How far framing and sharpness change, and how often, as a share of what was tried first.
STRENGTH = 0.7
ZOOM_IN_SHARE, ZOOM_OUT_SHARE = 0.55, 0.35  # of the photos; the rest keeps its scale
# area of a crop; how many times wider than the dog the whole picture may be
SMALLEST_CROP, FARTHEST = 1 - STRENGTH * 0.65, 2.2**STRENGTH
LARGEST_STRETCH = STRENGTH * math.log(1.45) / 2
LARGEST_TURN = STRENGTH * math.radians(12)
# pixels of the smallest blurred photo; share of blurred photos
THUMBNAIL, THUMBNAIL_SHARE = 64.0, STRENGTH * 0.25
JPEG_SHARE, JPEG_QUALITY = STRENGTH * 0.25, (25, 90)


def augment(image: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """One random view of a photo: uint8 (h, w, 3) -> float32 (height, width, 3)
    in [0, 1].
    """
    view = _frame(tf.image.convert_image_dtype(image, tf.float32), size)
    view = degrade(view, THUMBNAIL_SHARE, JPEG_SHARE, JPEG_QUALITY)
    return tf.ensure_shape(view, (*size, 3))


def uniform(low: float, high: float) -> tf.Tensor:
    return tf.random.uniform((), low, high)


def sometimes(share: float, change: Callable[[tf.Tensor], tf.Tensor], view: tf.Tensor) -> tf.Tensor:
    return tf.cond(uniform(0, 1) < share, lambda: change(view), lambda: view)


def _frame(image: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Crop or zoom out, stretch, rotate, mirror and shift, in one bilinear
    sampling of the photo.
    """
    draw = uniform(0, 1)
    crop = tf.sqrt(uniform(SMALLEST_CROP, 1.0))
    far = tf.exp(uniform(0.0, math.log(FARTHEST)))
    window = tf.where(draw < ZOOM_IN_SHARE + ZOOM_OUT_SHARE, far, 1.0)
    window = tf.where(draw < ZOOM_IN_SHARE, crop, window)
    stretch = tf.exp(uniform(-LARGEST_STRETCH, LARGEST_STRETCH))
    turn = uniform(-LARGEST_TURN, LARGEST_TURN)
    sides = tf.stack([window * stretch, window / stretch])
    centre = 0.5 + tf.random.uniform((2,), -0.5, 0.5) * tf.abs(1 - sides)
    place = tf.concat([centre - sides / 2, centre + sides / 2], axis=0)
    return sample_window(image, place, size, turn, uniform(0, 1) < 0.5)


def sample_window(
    image: tf.Tensor, window: tf.Tensor, size: tuple[int, int], turn: tf.Tensor, mirrored: tf.Tensor
) -> tf.Tensor:
    """A window of a photo: float32 (h, w, 3) -> (height, width, 3).

    `window`: left, top, right, bottom as fractions of the photo, which it may
    exceed. `turn`: in radians. `mirrored`: bool.
    """
    scale = tf.cast(tf.stack([tf.shape(image)[1], tf.shape(image)[0]]), tf.float32)
    corner, end = window[:2] * scale, window[2:] * scale
    centre_x, centre_y = tf.unstack((corner + end) / 2 - 0.5)
    wide, high = tf.unstack(end - corner)
    mirror, across, down = tf.where(mirrored, -1.0, 1.0), wide / size[1], high / size[0]
    a, b = mirror * across * tf.cos(turn), -across * tf.sin(turn)
    c, d = mirror * down * tf.sin(turn), down * tf.cos(turn)
    half_x, half_y = (size[1] - 1) / 2, (size[0] - 1) / 2
    left = centre_x - a * half_x - b * half_y
    top = centre_y - c * half_x - d * half_y
    # They map a pixel of the view to one of the photo.
    return _sample(image, tf.stack([a, b, left, c, d, top, 0.0, 0.0]), size)


def _sample(image: tf.Tensor, transform: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Sample the photo; outside it is mirrored, smeared or grey at random, so
    that no border identifies a training photo.
    """

    def sample(fill_mode: str) -> tf.Tensor:
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=image[tf.newaxis],
            transforms=transform[tf.newaxis],
            output_shape=size,
            interpolation="BILINEAR",
            fill_mode=fill_mode,
            fill_value=uniform(0, 1),
        )[0]

    mode = tf.random.categorical(tf.math.log([[0.45, 0.25, 0.3]]), 1)[0, 0]
    samples = [partial(sample, mode) for mode in ("REFLECT", "NEAREST", "CONSTANT")]
    return tf.switch_case(tf.cast(mode, tf.int32), samples)


def blur(view: tf.Tensor) -> tf.Tensor:
    """Shrink and enlarge again, like a thumbnail or a distant dog."""
    full = tf.cast(tf.shape(view)[:2], tf.float32)
    small = tf.exp(tf.random.uniform((), math.log(THUMBNAIL), tf.math.log(full[0])))
    tiny = resize(view, tf.cast(tf.maximum(full * small / full[0], 2.0), tf.int32))
    return resize(tiny, tf.shape(view)[:2])


def degrade(
    view: tf.Tensor, blurred: float, compressed: float, qualities: tuple[int, int]
) -> tf.Tensor:
    """The view in another light; shares of the views are `blurred`, and `compressed`
    as JPEGs of one of the `qualities`.
    """
    view = sometimes(blurred, blur, view)
    view = tf.image.random_brightness(view, 0.18)
    view = tf.image.random_contrast(view, 0.7, 1.35)
    view = tf.image.random_saturation(tf.clip_by_value(view, 0.0, 1.0), 0.55, 1.4)
    view = view * tf.random.uniform((3,), 0.94, 1.06)  # white balance
    view = tf.clip_by_value(view, 0.0, 1.0)
    return sometimes(compressed, lambda it: tf.image.random_jpeg_quality(it, *qualities), view)
