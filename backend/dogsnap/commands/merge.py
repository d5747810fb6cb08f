"""`dogsnap merge`: makes a version that takes photos from one that takes image tensors."""

import logging
from pathlib import Path
from typing import Any

import click

from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    EXISTING_FILE,
    PATH,
    option,
)
from dogsnap.commands.helpers.label_files import class_labels, detected_names


@click.command()
@click.argument("source", metavar="SOURCE_VERSION_DIR", type=PATH)
@option(
    "--decode",
    "input: base64 text, or the bytes of image files",
    click.Choice(["base64", "bytes"]),
    default="base64",
)
@option(
    "--encode",
    "png: the image output leaves as PNG files, named output_bytes; detections: a "
    "detector's boxes, classes and scores "
    "leave under the names of the Object Detection API",
    click.Choice(["png", "detections"]),
)
@option("--signature", "signature of the source to merge in front of")
@option("--input", "image input of the source, if it has several")
@option("--output", "its output for --encode, --softmax or --labels, where it has several")
@option(
    "--size",
    "HEIGHT WIDTH, if the source leaves them open; without it, --encode keeps the size "
    "of each picture",
    AT_LEAST_ONE,
    nargs=2,
)
@option(
    "--layout",
    "whether channels come last or first, needed where the source leaves all sides open",
    click.Choice(["nhwc", "nchw"]),
)
@option(
    "--input-range",
    "LOW HIGH: numbers for black and white in the network's input  [default: what the "
    "source says, else what its first layers "
    "fit, such as Keras' Rescaling, else 0 1]",
    float,
    nargs=2,
)
@option(
    "--mean",
    "taken off the numbers of --input-range, else of 0 1: a number, or one a channel: "
    "0.485,0.456,0.406",
    default="0",
)
@option("--deviation", "and divided by; --mean 0.5 --deviation 0.5 gives [-1, 1]", default="1")
@option(
    "--channels",
    "the order of the network's colours, and of --mean and --deviation  [default: rgb]",
    click.Choice(["rgb", "bgr"]),
)
@option(
    "--preprocessing",
    "the mode of Keras' preprocess_input, instead of the five above: caffe (ResNet50, "
    "VGG: bgr, 0 to 255, mean taken off), tf "
    "(MobileNet, Inception, Xception: -1 to 1), torch (DenseNet)",
    click.Choice(["caffe", "tf", "torch"]),
)
@option(
    "--output-range",
    "LOW HIGH: numbers that become black and white with --encode png  [default: what "
    "the source says or shows]",
    float,
    nargs=2,
)
@option("--boxes", "a detector's output for detection_boxes, where its name does not tell")
@option("--classes", "the same for detection_classes")
@option("--scores", "the same for detection_scores")
@option(
    "--classes-from",
    "number of the first of --labels in a detector's output  [default: as a numbered file "
    "says, else 0, or 1 where a trial run shows that]",
    int,
)
@option(
    "--first-class",
    "number of a detector's first class in the answer  [default: as the detector counts]",
    int,
)
@option("--softmax", "the class output holds logits: answer with probabilities", is_flag=True)
@option(
    "--independent",
    "a photo may show several of the classes or none: each output is a probability by itself",
    is_flag=True,
)
@option("--sigmoid", "the same, where the class output holds logits", is_flag=True)
@option(
    "--labels",
    "the classes in their order: a name a line, or id:name, number and name, a table, JSON "
    "or YAML (class_indices of Keras, id2label of Transformers), or a label map of the Object "
    "Detection API; our own exports bring theirs",
    EXISTING_FILE,
)
@option(
    "--description",
    "JSON object with fields for the version's assets.extra/dogsnap.json: labels, decision, ...",
    EXISTING_FILE,
)
@option(
    "--fast",
    "the network multiplies in whichever of bfloat16, int8 and float32 is measured to "
    "be the fastest here; writes nothing "
    "where that gains less than 1.5 times",
    is_flag=True,
)
@option(
    "--second-pass",
    "run the network a second time, on the part of the photo that holds the dog, cut "
    "out in the photo's own resolution",
    is_flag=True,
)
def merge(
    source: Path,
    size: tuple[int, int] | None,
    mean: str,
    deviation: str,
    labels: Path | None,
    description: Path | None,
    **chosen: Any,
) -> None:
    """Merge decoding into SOURCE_VERSION_DIR (such as models/inception_v3/1)
    and write the next version beside it.
    """
    from dogsnap.exporting.acceleration import NotFaster
    from dogsnap.exporting.merging import merge as merging
    from dogsnap.exporting.merging.options import Options

    # Its advice on TensorFlow 1 is not for who has such a model.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    if labels and chosen["encode"] == "detections":
        names, first = detected_names(labels)
        if chosen["classes_from"] is None:
            chosen["classes_from"] = first
    else:
        names = class_labels(labels)
    options = Options(
        size=size,
        mean=_numbers(mean),
        deviation=_numbers(deviation),
        labels=names,
        description=_fields(description),
        **chosen,
    )
    try:
        click.echo(f"wrote {merging.merge(source, options, click.echo)}")
    except NotFaster as error:
        click.echo(f"no version is written: {error}")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r}: expected a number, or one a channel with commas between"
        ) from error


def _fields(file: Path | None) -> dict[str, Any]:
    from dogsnap.exporting.export import read_json

    fields = read_json(file) if file else {}
    if not isinstance(fields, dict):
        raise click.ClickException(
            f"{file}: expected a JSON object, received a {type(fields).__name__}"
        )
    return fields
