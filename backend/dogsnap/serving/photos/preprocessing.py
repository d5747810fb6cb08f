"""Turns the bytes of a photo into the network's input with TensorFlow
operations; used by training, merging and version 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import tensorflow as tf

KINDS = "JPEG, PNG, GIF, BMP or WebP"
# Photos of one request that are decoded in parallel; each takes a core for some milliseconds.
PARALLEL_DECODERS = 4
JPEG_START = b"\xff\xd8\xff"
# libjpeg scales down while it decodes, by these factors: 12 megapixels by 8 cost half
# of the time, and 0.6 MB instead of 36.
JPEG_SCALES = (1, 2, 4, 8)
# The scaled photo is at least this many times the network's size. On 46 photos of 12
# megapixels scaled by 8, probabilities differed from those of the whole photo by at
# most 0.016 on average (by 4: 0.009), and 45 photos kept their breed in both cases.
KEPT_TIMES = 1.25
# Parts of photos that get a second pass, and the indices of these photos: names of tensors.
WINDOWS = "windows"
ROWS = "rows"
WEB_SAFE = "[A-Za-z0-9_-]*"
# In what a graph says, also of versions built before: it stays. What came instead it does not say.
NO_BASE64 = "no base64 text"
Size = tuple[int, int]  # height and width


@dataclass(frozen=True)
class Resizing:
    """How an image is resized to the network's input; the defaults are for the
    networks trained here.

    `crop`: use the largest centre crop with the proportions of the size;
    otherwise the whole image is squashed. `method`: "bilinear", "nearest" or
    "bicubic". `antialias`: phone photos are several times larger than the
    network's input.
    """

    crop: bool = False
    method: str = "bilinear"
    antialias: bool = True


SQUASHED = Resizing()


def decode(contents: tf.Tensor) -> tf.Tensor:
    """Decode one photo.

    `contents`: scalar string, the bytes of a JPEG, PNG, GIF (first frame), BMP
    or WebP file. Returns uint8 (height, width, 3). Raises InvalidArgumentError
    when the bytes are none of these, and for an animated WebP. Channels are
    fixed at 3: with channels=0 TensorFlow 2.21 writes out of bounds on such a
    WebP.
    """
    image = tf.io.decode_image(contents, channels=3, expand_animations=False)
    return tf.ensure_shape(image, (None, None, 3))


def least_sides(size: Size) -> Size:
    """How far a photo may be scaled down, (height, width), before it is resized
    to `size` with antialias.
    """
    return math.ceil(KEPT_TIMES * size[0]), math.ceil(KEPT_TIMES * size[1])


def decode_for(contents: tf.Tensor, size: Size, how: Resizing = SQUASHED) -> tf.Tensor:
    """As `decode`, but a JPEG far larger than `size` (height, width) is scaled
    down on the way to a resize with antialias.
    """
    if not how.antialias:  # without antialias, scaling first would select other pixels
        return decode(contents)
    return tf.cond(
        _is_jpeg(contents),
        lambda: _decode_jpeg_for(contents, *least_sides(size)),
        lambda: decode(contents),
    )


def _decode_jpeg_for(
    contents: tf.Tensor, height: int | tf.Tensor, width: int | tf.Tensor
) -> tf.Tensor:
    """Keeps at least `height` and `width` pixels.

    The factor is an attribute of the operation, so there is one per factor.
    """
    shape = tf.image.extract_jpeg_shape(contents)
    spare = tf.minimum(shape[0] // height, shape[1] // width)
    usable = tf.reduce_sum(tf.cast(spare >= JPEG_SCALES, tf.int32))
    scaled = [partial(_scaled_jpeg, contents, scale) for scale in JPEG_SCALES[1:]]
    # With no usable JPEG scale, decode at full size.
    return tf.switch_case(tf.maximum(usable - 1, 0), [partial(decode, contents), *scaled])


def _is_jpeg(contents: tf.Tensor) -> tf.Tensor:
    return tf.equal(tf.strings.substr(contents, 0, len(JPEG_START)), JPEG_START)


def _scaled_jpeg(contents: tf.Tensor, scale: int) -> tf.Tensor:
    return tf.ensure_shape(tf.io.decode_jpeg(contents, channels=3, ratio=scale), (None, None, 3))


def resize(image: tf.Tensor, size: Size, how: Resizing = SQUASHED) -> tf.Tensor:
    """Bring an image, or a batch of one size, to `size` (height, width);
    squashed, nothing is cut off.

    `image`: uint8 in [0, 255] or float32 in [0, 1], (h, w, 3) or (n, h, w, 3).
    Returns float32 in [0, 1].
    """
    scale = 1.0 / 255.0 if image.dtype == tf.uint8 else 1.0
    seen = _middle(image, size) if how.crop else image
    resized = tf.cond(  # resizing an image that already has the size would cost 3 ms
        tf.reduce_all(tf.equal(tf.shape(seen)[-3:-1], size)),
        lambda: tf.cast(seen, tf.float32),
        # Bytes are resized as bytes: 50 megapixels as float32 would take 600 MB more,
        # and eight times as long.
        lambda: tf.cast(
            tf.image.resize(seen, size, how.method, antialias=how.antialias), tf.float32
        ),
    )
    return tf.clip_by_value(resized * scale, 0.0, 1.0)


def _middle(image: tf.Tensor, size: Size) -> tf.Tensor:
    shape = tf.shape(image)
    height = shape[-3]
    width = shape[-2]
    kept_height = tf.clip_by_value(width * size[0] // size[1], 1, height)
    kept_width = tf.clip_by_value(height * size[1] // size[0], 1, width)
    top = (height - kept_height) // 2
    left = (width - kept_width) // 2
    return image[..., top : top + kept_height, left : left + kept_width, :]


def photos_to_images(contents: tf.Tensor, size: Size, how: Resizing = SQUASHED) -> tf.Tensor:
    """Decode and resize a vector of photos: string (n,) -> float32 (n, height,
    width, 3) in [0, 1].

    Raises InvalidArgumentError: for one photo with the decoder's message, for
    several with the positions of all that cannot be decoded, so that the others
    can be sent again.
    """
    return _graph_of(_photos_to_images, size, how)(tf.convert_to_tensor(contents))


@cache
def _graph_of(function: Callable[..., Any], size: Size, how: Resizing) -> Any:
    """A function of photos, string (n,), as a graph that all signatures of all
    versions share.

    Tracing it takes 0.2 s of Python; eagerly, it would take Python's lock
    between the operations.
    """
    spec = tf.TensorSpec((None,), tf.string)
    return tf.function(
        partial(function, size=size, how=how), input_signature=[spec], autograph=False
    )


def _photos_to_images(contents: tf.Tensor, size: Size, how: Resizing) -> tf.Tensor:
    one = tf.equal(tf.size(contents), 1)
    images = tf.cond(
        one,
        lambda: resize(decode_for(contents[0], size, how), size, how)[tf.newaxis],
        lambda: _images_or_places(contents, size, how),
    )
    return tf.ensure_shape(images, (None, *size, 3))


def images_and_picture(
    contents: tf.Tensor, size: Size, how: Resizing = SQUASHED
) -> tuple[tf.Tensor, tf.Tensor]:
    """As `photos_to_images`, and the decoded picture for `windows_to_images`:
    uint8 (h, w, 3).

    It is empty, (0, w, 3), where there are several photos, or where windows may
    need more pixels of it.
    """
    return _graph_of(_images_and_picture, size, how)(tf.convert_to_tensor(contents))


def _images_and_picture(
    contents: tf.Tensor, size: Size, how: Resizing
) -> tuple[tf.Tensor, tf.Tensor]:
    def decode_only_photo() -> tuple[tf.Tensor, tf.Tensor]:
        picture = decode_for(contents[0], size, how)
        images = resize(picture, size, how)[tf.newaxis]
        return images, tf.cond(
            _is_whole(contents[0], picture), lambda: picture, lambda: picture[:0]
        )

    images, picture = tf.cond(
        tf.equal(tf.size(contents), 1),
        decode_only_photo,
        lambda: (_images_or_places(contents, size, how), tf.zeros((0, 0, 3), tf.uint8)),
    )
    return tf.ensure_shape(images, (None, *size, 3)), tf.ensure_shape(picture, (None, None, 3))


def _is_whole(contents: tf.Tensor, picture: tf.Tensor) -> tf.Tensor:
    """Whether a photo was not scaled down while it was decoded."""
    shape = tf.shape(picture)
    whole = tf.cond(
        _is_jpeg(contents), lambda: tf.image.extract_jpeg_shape(contents), lambda: shape
    )
    return tf.reduce_all(tf.equal(whole, shape))


def windows_to_images(
    contents: tf.Tensor,
    windows: tf.Tensor,
    size: Size,
    picture: tf.Tensor | None = None,
) -> tf.Tensor:
    """Cut a window out of each photo, in the photo's own resolution, and resize
    it.

    `contents`: string (n,), photos that can be decoded. `windows`: float32 (n,
    4), left, top, right and bottom as fractions of the photo; at least one
    pixel is taken. `picture`: from `images_and_picture`, of which all windows
    are cut unless it is empty. Returns float32 (n, height, width, 3) in [0, 1].
    """
    kind = tf.TensorSpec((*size, 3), tf.float32)

    def cut(photo_and_window: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        decode_again = partial(_decode_for_window, *photo_and_window, size)
        if picture is None:
            return _cut(decode_again(), photo_and_window[1], size)
        seen = tf.cond(tf.size(picture) > 0, lambda: picture, decode_again)
        return _cut(seen, photo_and_window[1], size)

    return tf.map_fn(cut, (contents, windows), fn_output_signature=kind)


def _decode_for_window(contents: tf.Tensor, window: tf.Tensor, size: Size) -> tf.Tensor:
    height, width = least_sides(size)
    window_width = tf.maximum(window[2] - window[0], 1e-3)
    window_height = tf.maximum(window[3] - window[1], 1e-3)
    least_height = tf.cast(tf.math.ceil(height / window_height), tf.int32)
    least_width = tf.cast(tf.math.ceil(width / window_width), tf.int32)
    return tf.cond(
        _is_jpeg(contents),
        lambda: _decode_jpeg_for(contents, least_height, least_width),
        lambda: decode(contents),
    )


def _cut(image: tf.Tensor, window: tf.Tensor, size: Size) -> tf.Tensor:
    shape = tf.shape(image)
    sides = tf.stack(
        [shape[1], shape[0]]
    )  # a slice with a negative step makes TensorFlow's optimizer log an error
    scale = tf.cast(sides, tf.float32)
    start = tf.minimum(tf.cast(window[:2] * scale, tf.int32), sides - 1)
    end = tf.maximum(tf.cast(tf.math.ceil(window[2:] * scale), tf.int32), start + 1)
    return tf.ensure_shape(resize(image[start[1] : end[1], start[0] : end[0]], size), (*size, 3))


def _images_or_places(contents: tf.Tensor, size: Size, how: Resizing) -> tf.Tensor:
    """Uses tf.data, which can continue after a photo that fails; it costs 1 ms
    per batch (two cores, 8 photos).
    """
    count = tf.size(contents, out_type=tf.int64)
    # The first element is a dummy, so that a batch without decodable photos is not empty.
    photos = tf.data.Dataset.range(-1, count).map(
        lambda place: (place, _image_at(contents, place, size, how)),
        num_parallel_calls=PARALLEL_DECODERS,
        deterministic=True,
    )
    options = tf.data.Options()  # autotuning does not pay for a single batch
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    decoded = photos.ignore_errors().batch(count + 1).with_options(options)
    places, images = decoded.get_single_element()
    missing = tf.sets.difference(tf.range(count)[tf.newaxis], places[tf.newaxis, 1:]).values
    readable = tf.debugging.Assert(
        tf.equal(tf.size(missing), 0),
        [
            "cannot decode the photos at these places of the batch (counted from 0; "
            f"expected {KINDS}):",
            missing,
        ],
        summarize=100,
    )
    with tf.control_dependencies([readable] if readable is not None else []):
        return tf.identity(images[1:])


def _image_at(contents: tf.Tensor, place: tf.Tensor, size: Size, how: Resizing) -> tf.Tensor:
    return tf.cond(
        place < 0,
        lambda: tf.zeros((*size, 3)),
        lambda: resize(decode_for(contents[place], size, how), size, how),
    )


def decode_base64(text: tf.Tensor) -> tf.Tensor:
    """Decode base64 text in any common form: string (n,) -> string (n,).

    Takes the standard and the web-safe alphabet, padded or not, with white
    space and with a `data:...;base64,` prefix. Raises InvalidArgumentError with
    the positions of all texts that are not base64.
    """
    # Most texts need no change; checking that takes a fifth of the time of changing them.
    needs_none = tf.reduce_all(tf.strings.regex_full_match(text, WEB_SAFE))
    bare, is_clean = tf.cond(
        needs_none, lambda: (text, tf.ones_like(text, tf.bool)), lambda: _bare(text)
    )
    # Four characters encode three bytes: a single one left over is invalid.
    whole = tf.logical_and(is_clean, tf.strings.length(bare) % 4 != 1)
    is_text = tf.debugging.Assert(
        tf.reduce_all(whole),
        [
            f"{NO_BASE64} (either alphabet) at these places of the batch, counted from 0:",
            tf.where(~whole)[:, 0],
        ],
        summarize=100,
    )
    with tf.control_dependencies([is_text] if is_text is not None else []):
        return tf.io.decode_base64(tf.identity(bare))


def _bare(text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Texts converted to the web-safe alphabet without prefix, white space and
    padding, and whether each is valid.
    """
    bare = tf.strings.regex_replace(text, r"(?i)^\s*data:[^,]{0,256},", "", replace_global=False)
    bare = tf.strings.regex_replace(bare, r"\s+|={1,2}\s*$", "")
    bare = tf.strings.regex_replace(tf.strings.regex_replace(bare, r"\+", "-"), "/", "_")
    return bare, tf.strings.regex_full_match(bare, WEB_SAFE)
