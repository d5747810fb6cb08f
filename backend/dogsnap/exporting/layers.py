"""The layers that merging adds: base64 and image decoding in front of a
network; softmax, names and PNG encoding behind it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import tensorflow as tf

from dogsnap.serving.photos.preprocessing import SQUASHED, Resizing, decode, photos_to_images

Tensors = dict[str, tf.Tensor]
Network = Callable[[tf.Tensor], Tensors]

DETECTED_NAMES = "detection_names"
NUMBER = "num_detections"  # of the Object Detection API as well
# The most pixels of a picture that runs in its own size: with 64 filters the output of
# the first layer takes 1 GB. Larger ones need --size.
MOST_PIXELS = 2**22
CHANNELS = (1, 3)  # grey, colour
HALVES = (tf.float16, tf.bfloat16)


@dataclass(frozen=True)
class ImageInput:
    """The image input of a network.

    `size`: (height, width); None: each picture in its own size. `channels`: 1
    (grey) or 3. `channels_first`: (n, c, h, w) in place of (n, h, w, c).
    `mean`, `deviation`: one number, or one per channel; an image in [0, 1]
    becomes (image - mean) / deviation, so that 0.5 and 0.5 give [-1, 1]. They
    are ignored for an integer `dtype`, which gets [0, 255]. `is_bgr`: blue
    comes first, and mean and deviation are in that order.
    """

    size: tuple[int, int] | None
    channels: int = 3
    channels_first: bool = False
    dtype: tf.DType = tf.float32
    mean: Sequence[float] = (0.0,)
    deviation: Sequence[float] = (1.0,)
    resizing: Resizing = SQUASHED
    is_bgr: bool = False

    def fixed_size(self) -> tuple[int, int]:
        """`size`; raises ValueError for a network that takes images of any size."""
        if self.size is None:
            raise ValueError("the network takes images of any size")
        return self.size


def images_from_bytes(contents: tf.Tensor, wanted: ImageInput) -> tf.Tensor:
    """Photos as the bytes of their files -> the network's input: string (n,) ->
    `wanted.dtype` (n, h, w, c) or (n, c, h, w).
    """
    return fit(photos_to_images(contents, wanted.fixed_size(), wanted.resizing), wanted)


def fit(images: tf.Tensor, wanted: ImageInput) -> tf.Tensor:
    """Colour images float32 (n, h, w, 3) in [0, 1] -> the channels, value
    range, dtype and layout of the network's input.
    """
    if wanted.channels == 1:
        images = tf.image.rgb_to_grayscale(images)
    elif wanted.is_bgr:
        images = tf.reverse(images, axis=[-1])
    images = normalise(images, wanted)
    return tf.transpose(images, (0, 3, 1, 2)) if wanted.channels_first else images


def normalise(images: tf.Tensor, wanted: ImageInput) -> tf.Tensor:
    """[0, 1] -> (images - mean) / deviation, or [0, 255] for an integer type."""
    if wanted.dtype.is_integer:
        return tf.cast(tf.round(images * 255.0), wanted.dtype)
    if tuple(wanted.mean) != (0.0,) or tuple(wanted.deviation) != (1.0,):
        images = (images - tf.constant(wanted.mean, tf.float32)) / tf.constant(
            wanted.deviation, tf.float32
        )
    return tf.cast(images, wanted.dtype)


def in_float32(tensors: Tensors) -> Tensors:
    """The same with float32 for half and bfloat16 numbers, which JSON has no form for."""
    whole = dict(tensors)
    for name, value in tensors.items():
        if value.dtype in HALVES:
            whole[name] = tf.cast(value, tf.float32)
    return whole


def softmax(logits: tf.Tensor) -> tf.Tensor:
    """Logits (n, classes) -> probabilities float32 (n, classes)."""
    return tf.nn.softmax(tf.cast(logits, tf.float32))


def two_classes(numbers: tf.Tensor, of_logits: bool) -> tf.Tensor:
    """The probability p of the second class, or its logit, (n, 1) or (n,) -> 1
    - p and p, float32 (n, 2).
    """
    second = tf.reshape(tf.cast(numbers, tf.float32), (-1, 1))
    if of_logits:
        second = tf.sigmoid(second)
    return tf.concat([1.0 - second, second], axis=1)


def top_k(probabilities: tf.Tensor, names: Sequence[str], k: int) -> Tensors:
    """The k most probable classes: (n, classes) -> `labels` string (n, k),
    `probabilities` float32 (n, k), falling.
    """
    best = tf.math.top_k(tf.cast(probabilities, tf.float32), k)
    return {
        "labels": tf.gather(tf.constant(list(names)), best.indices),
        "probabilities": best.values,
    }


def png_bytes(images: tf.Tensor, low: float = 0.0, high: float = 1.0) -> tf.Tensor:
    """Images (n, h, w, 1, 3 or 4) -> the bytes of PNG files, string (n,).

    Numbers from `low` to `high`; uint8 unchanged.
    """
    if not images.dtype.is_integer:
        scaled = (tf.cast(images, tf.float32) - low) / (high - low)
        images = tf.round(tf.clip_by_value(scaled, 0.0, 1.0) * 255.0)
    return tf.io.encode_png(tf.cast(images, tf.uint8))


def detected_classes(
    answers: Tensors, alias: str, names: Sequence[str], start: int, first_class: int
) -> Tensors:
    """A detector's classes (n, k), of which `start` is the first, under their
    alias, counted from `first_class`, and their names, string (n, k), if known.

    `names`: in class order. What a detector pads its output with, class numbers
    beyond these names and rows beyond NUMBER, has the name "".
    """
    classes = answers[alias]
    own = answers.get(NUMBER)
    counted = {alias: classes + tf.cast(first_class - start, classes.dtype)}
    if not names:
        return counted
    numbers = tf.cast(classes, tf.int32) - start
    known = tf.logical_and(numbers >= 0, numbers < len(names))
    if own is not None and own.shape.rank == 1:
        known &= tf.sequence_mask(tf.cast(own, tf.int32), tf.shape(classes)[1])
    found = tf.gather(tf.constant(list(names)), tf.clip_by_value(numbers, 0, len(names) - 1))
    return {**counted, DETECTED_NAMES: tf.where(known, found, "")}


def map_padded(
    function: Callable[[tf.Tensor], Tensors],
    elements: tf.Tensor,
    specs: Mapping[str, tf.TensorSpec],
) -> Tensors:
    """As tf.map_fn; of outputs whose first dimension `specs` leave open, the
    shorter ones get zeros behind them, and NUMBER says how many are no such.
    """
    kinds = {}
    for name, spec in specs.items():
        is_open = spec.shape.rank and spec.shape[0] is None and None not in spec.shape[1:]
        kind = partial(tf.RaggedTensorSpec, ragged_rank=0) if is_open else tf.TensorSpec
        kinds[name] = kind(spec.shape, spec.dtype)
    rows = tf.map_fn(function, elements, fn_output_signature=kinds)
    ragged = {name: rows[name] for name in rows if isinstance(rows[name], tf.RaggedTensor)}
    padded = {name: values.to_tensor() for name, values in ragged.items()}
    for values in ragged.values():
        padded[NUMBER] = tf.cast(values.row_lengths(), tf.float32)
    return {**padded, **{name: rows[name] for name in rows if name not in ragged}}


def map_ragged(contents: tf.Tensor, wanted: ImageInput, network: Network) -> Tensors:
    """Run a network that takes any size on each picture in its own size, one
    after the other.

    `contents` string (n,), the bytes of files. `network`: takes (1, h, w, c),
    and returns tensors whose sizes after the first do not depend on h and w.
    Raises InvalidArgumentError as `photos_to_images` does, and for more than
    MOST_PIXELS.
    """
    # Decodes all of them once more, which is cheap, so that the error names the
    # positions of all that cannot be decoded.
    readable = photos_to_images(contents, (1, 1))

    def answer(content: tf.Tensor) -> Tensors:
        image = tf.image.convert_image_dtype(decode(content), tf.float32)
        pixels = tf.size(image) // 3
        sentence = (
            f"expected a picture of at most {MOST_PIXELS} pixels, since it is not scaled; received:"
        )
        with tf.control_dependencies(
            [tf.debugging.Assert(pixels <= MOST_PIXELS, [sentence, pixels])]
        ):
            fitted = fit(image[tf.newaxis], wanted)
        return {name: value[0] for name, value in network(fitted).items()}

    with tf.control_dependencies([readable]):
        contents = tf.identity(contents)
    outputs = (
        tf.function(answer, autograph=False).get_concrete_function(contents[0]).structured_outputs
    )
    return map_padded(answer, contents, outputs)


def one_by_one(
    network: Callable[..., Tensors],
    outputs: Mapping[str, tf.TensorSpec],
    batch_of_one: bool,
    in_batch: Collection[str],
) -> Callable[..., Tensors]:
    """Run a network that takes a single image, (h, w, c) or (1, h, w, c), on a
    batch; further inputs are the same for all.

    `in_batch`: the outputs that hold a batch of one.
    """
    kinds = {}
    for name, spec in outputs.items():
        shape = spec.shape[1:] if name in in_batch else spec.shape
        kinds[name] = tf.TensorSpec(shape, spec.dtype)

    def run_batch(images: tf.Tensor, **further: tf.Tensor) -> Tensors:
        def run_image(image: tf.Tensor) -> Tensors:
            answer = network(image[tf.newaxis] if batch_of_one else image, **further)
            first = {name: answer[name][0] for name in in_batch}
            return {**answer, **first}

        return map_padded(run_image, images, kinds)

    return run_batch


def never_empty(network: Network, images: tf.Tensor) -> Tensors:
    """The network's outputs, also for an empty batch, of which TensorFlow
    2.21's fused convolutions return a wrong shape.

    It runs on one black image then.
    """
    count = tf.shape(images)[0]
    seen = tf.cond(
        count > 0, lambda: images, lambda: tf.zeros((1, *images.shape[1:]), images.dtype)
    )
    seen = tf.ensure_shape(seen, images.shape)
    outputs = dict(network(seen))
    for name, value in list(outputs.items()):
        if value.shape.rank and value.shape[0] is None:
            outputs[name] = value[:count]
    return outputs
