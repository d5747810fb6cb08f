"""What `dogsnap merge` can be told: the options, and the error of those that do
not fit the version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# What Keras' `preprocess_input` makes of a picture, by its `mode`: channels, range,
# mean and deviation. ResNet50 and VGG16 take caffe, MobileNet, Inception and Xception
# tf, DenseNet torch.
PREPROCESSING = {
    "caffe": ("bgr", (0.0, 255.0), (103.939, 116.779, 123.68), (1.0,)),
    "tf": ("rgb", (-1.0, 1.0), (0.0,), (1.0,)),
    "torch": ("rgb", (0.0, 1.0), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


class MergeError(ValueError):
    """The version cannot be merged as requested; the message lists the choices."""


@dataclass(frozen=True)
class Options:
    """What to merge.

    None leaves the choice to `find_image_input`, which refuses when there is
    more than one.

    `decode`: "base64" or "bytes". `encode`: "png" turns the image output into
    PNG files, "detections" gives boxes, classes and scores the names in
    signatures.DETECTIONS. `signature`, `input`, `output`, `boxes`, `classes`,
    `scores`: names in the source. `size`: (height, width), `layout`: "nhwc" or
    "nchw", where the source leaves them open. `input_range`: the numbers that
    stand for black and white in the network's input; `mean`, `deviation`: taken
    off these, and divided by, one number or one per channel; `channels`: "rgb"
    or "bgr". `preprocessing`, instead of these four: a key of PREPROCESSING.
    `output_range`: black and white in its output. `softmax`: the class output
    holds logits. `independent`: a photo may show several classes or none;
    `sigmoid`: the class output holds logits of such. `labels`: the classes in
    their order, each {"id", "name", "name_zh"}. `description`: fields for what
    the version says about itself, beside those of the source. `classes_from`: a detector's number of the first
    of `labels`; None where that is not known. `first_class`: what the answer
    has instead; None: the same.
    `fast`, `second_pass`: as the flags of `dogsnap merge`.
    """

    decode: str = "base64"
    encode: str | None = None
    signature: str | None = None
    input: str | None = None
    output: str | None = None
    size: tuple[int, int] | None = None
    mean: Sequence[float] = (0.0,)
    deviation: Sequence[float] = (1.0,)
    output_range: tuple[float, float] | None = None
    softmax: bool = False
    independent: bool = False
    sigmoid: bool = False
    labels: Sequence[Mapping[str, str]] = ()
    input_range: tuple[float, float] | None = None
    boxes: str | None = None
    classes: str | None = None
    scores: str | None = None
    classes_from: int | None = None
    first_class: int | None = None
    fast: bool = False
    second_pass: bool = False
    layout: str | None = None
    channels: str | None = None
    preprocessing: str | None = None
    description: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.softmax and (self.independent or self.sigmoid):
            raise MergeError(
                "--softmax is for one class a photo; expected --sigmoid alone, for independent "
                "classes in logits"
            )
