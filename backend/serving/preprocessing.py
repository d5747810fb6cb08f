"""From the bytes of a photo to the network's input, as TensorFlow operations, written once for training, merging and version 1.

It does not check limits, turn photos upright or know a model: that is `photo.py` and `servable.py`.
"""

import tensorflow as tf


def decode(contents: tf.Tensor) -> tf.Tensor:
    """Decode one photo.

    `contents`: scalar string, the bytes of a JPEG, PNG, GIF (first frame), BMP or WebP file.
    Returns uint8 (height, width, 3). Raises InvalidArgumentError when the bytes are none of these.
    """
    image = tf.io.decode_image(contents, channels=3, expand_animations=False)
    return tf.ensure_shape(image, (None, None, 3))


def resize(image: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Squash an image, or a batch of one size, to `size` (height, width): nothing is cut off.

    `image`: uint8 in [0, 255] or float32 in [0, 1], (h, w, 3) or (n, h, w, 3).
    Returns float32 in [0, 1]. Bilinear with antialiasing, since phone photos are several times larger than the network's input.
    """
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.clip_by_value(tf.image.resize(image, size, antialias=True), 0.0, 1.0)


def photos_to_images(contents: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Decode and resize a vector of photos: string (n,) -> float32 (n, height, width, 3) in [0, 1]."""
    return tf.map_fn(
        lambda photo: resize(decode(photo), size),
        contents,
        fn_output_signature=tf.TensorSpec((*size, 3), tf.float32),
    )
