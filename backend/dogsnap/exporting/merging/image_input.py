"""Finds the image input of a SavedModel that decoding is merged in front of:
its layout, size and range of numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from dogsnap.exporting import layers
from dogsnap.exporting.freezing import Function
from dogsnap.exporting.merging.input_range import stated_scale
from dogsnap.exporting.merging.options import PREPROCESSING, MergeError, Options
from dogsnap.serving.tensors.signatures import DEFAULT_SIGNATURE

Specs = Mapping[str, tf.TensorSpec]

IMAGE_TYPES = (tf.float32, tf.float16, tf.bfloat16, tf.float64, tf.uint8)


@dataclass(frozen=True)
class Layout:
    """The layout of an image in a tensor.

    `batch`: "many", "one" for (1, h, w, c), "none" for (h, w, c).

    `channels_first`: None if neither the tensor nor the options say.
    """

    batch: str
    height: int | None
    width: int | None
    channels: int
    channels_first: bool | None

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width; None where the tensor leaves one of them open."""
        if self.height is None or self.width is None:
            return None
        return self.height, self.width


@dataclass(frozen=True)
class NetworkInput:
    """Where decoding is inserted: an image input of a signature of the source."""

    signature: str
    name: str
    spec: tf.TensorSpec
    layout: Layout

    def __str__(self) -> str:
        return f'input "{self.given}" ({kind_of(self.spec)}) of signature "{self.signature}"'

    @property
    def given(self) -> str:
        """Its name in the source, of which `name` is the plain one."""
        return str(self.spec.name or self.name)


def find_image_input(inputs: Mapping[str, Specs], options: Options | None = None) -> NetworkInput:
    """The one image input that decoding can be merged in front of.

    `inputs`: of each signature. Searches `options.signature`, else
    serving_default, else the only signature with an image input. Raises
    MergeError, with the candidates and the option that chooses, when there is
    none or more than one.
    """
    options = options or Options()
    image_inputs = []
    for name, specs in inputs.items():
        image_inputs += _find_image_inputs(name, specs, options)
    signatures = {image_input.signature for image_input in image_inputs}
    signature = options.signature
    if signature is not None:
        check_choice("signature", signature, inputs)
    elif DEFAULT_SIGNATURE in signatures:
        signature = DEFAULT_SIGNATURE
    candidates = []
    for image_input in image_inputs:
        has_signature = signature in (None, image_input.signature)
        if has_signature and options.input in (None, image_input.name):
            candidates.append(image_input)
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise MergeError(_explain_none(inputs, options))
    signatures = {candidate.signature for candidate in candidates}
    option = "--signature" if len(signatures) > 1 else "--input"
    listed = "; ".join(map(str, candidates))
    raise MergeError(
        f"there are {len(candidates)} image inputs to merge in front of: {listed}; "
        f"choose one with {option}"
    )


def check_choice(option: str, chosen: str, available: Mapping[str, Any] | Sequence[str]) -> None:
    if chosen not in available:
        raise MergeError(f'--{option} names "{chosen}"; available: {", ".join(available)}')


def _find_image_inputs(name: str, specs: Specs, options: Options) -> list[NetworkInput]:
    layouts = {}
    for alias, spec in specs.items():
        layouts[alias] = layout_of(spec, named=alias == options.input)
    if not any(layouts.values()):
        layouts = {alias: _open_layout(spec, options) for alias, spec in specs.items()}
    image_inputs = []
    for alias, layout in layouts.items():
        if layout:
            image_inputs.append(NetworkInput(name, alias, specs[alias], layout))
    return image_inputs


def _open_layout(spec: tf.TensorSpec, options: Options) -> Layout | None:
    """Of a tensor of four dimensions that says of none of them that it is the channels."""
    if spec.dtype not in IMAGE_TYPES or spec.shape.rank != 4:
        return None
    count, first, _, last = spec.shape
    if count not in (None, 1) or (first, last) != (None, None):
        return None
    return Layout(
        "one" if count else "many",
        None,
        None,
        3,
        None if options.layout is None else options.layout == "nchw",
    )


def inputs_of(signature: Function) -> Specs:
    return signature.structured_input_signature[1]


def _explain_none(inputs: Mapping[str, Specs], options: Options) -> str:
    wish = f'"{options.input}" is no image input' if options.input else "there is no image input"
    described = []
    takes_text = False
    for name, specs in inputs.items():
        for alias, spec in specs.items():
            described.append(f'"{alias}" ({kind_of(spec)}) of "{name}"')
            takes_text = takes_text or spec.dtype == tf.string
    sentence = (
        f"{wish}: expected numbers (n, height, width, 1 or 3) or (n, 1 or 3, height, width), "
        f"found: {'; '.join(described) or 'no inputs'}"
    )
    return sentence + ("; decoding may be merged in already" if takes_text else "")


def kind_of(spec: tf.TensorSpec) -> str:
    if spec.shape.rank is None:
        return f"{spec.dtype.name} of unknown shape"
    sizes = ["-1" if size is None else str(size) for size in spec.shape]
    return f"{spec.dtype.name} ({', '.join(sizes)})"


def layout_of(
    spec: tf.TensorSpec, channels: Sequence[int] = layers.CHANNELS, named: bool = False
) -> Layout | None:
    """The layout of an image, if `spec` can be one.

    `named`: by the options, so that an unknown shape counts as (n, ?, ?, 3).
    """
    if spec.dtype not in IMAGE_TYPES:
        return None
    if spec.shape.rank is None:
        return Layout("many", None, None, 3, False) if named else None
    sizes = spec.shape.as_list()
    if len(sizes) == 3 and None not in sizes:
        batch = "none"
        image = sizes
    elif len(sizes) == 4 and sizes[0] in (None, 1):
        batch = "one" if sizes[0] else "many"
        image = sizes[1:]
    else:
        return None
    if image[2] in channels:
        return Layout(batch, image[0], image[1], image[2], False)
    return Layout(batch, image[1], image[2], image[0], True) if image[0] in channels else None


def is_bgr(options: Options) -> bool:
    channels = options.channels
    if options.preprocessing:
        channels = PREPROCESSING[options.preprocessing][0]
    return channels == "bgr"


def image_input(
    network_input: NetworkInput, options: Options, description: Mapping[str, Any]
) -> layers.ImageInput:
    """The image input that the decoding layers produce, in [0, 1] where nothing
    states its range. Raises MergeError.
    """
    size: tuple[int, int] | None = (
        network_input.layout.size or options.size or description.get("input_size")
    )
    if size is None and (not options.encode or network_input.layout.channels_first is None):
        raise MergeError(
            f"{network_input} leaves the size of the image open; give it with --size HEIGHT WIDTH"
        )
    if options.size and size and tuple(options.size) != tuple(size):
        raise MergeError(
            f"--size is {options.size[0]} {options.size[1]}; {network_input} takes "
            f"{size[0]} {size[1]} alone"
        )
    layout = network_input.layout
    if layout.channels_first is None:
        raise MergeError(
            f"{network_input} does not say where the channels are; give it with "
            "--layout nhwc (last) or "
            "--layout nchw (first)"
        )
    image = layers.ImageInput(
        (size[0], size[1]) if size else None,
        layout.channels,
        layout.channels_first,
        network_input.spec.dtype,
        is_bgr=is_bgr(options),
    )
    scale = stated_scale(options, description)
    return replace(image, mean=scale.mean, deviation=scale.deviation) if scale else image
