"""`dogsnap merge`: makes a version that takes photos from one that takes image tensors."""

import json
import logging
from pathlib import Path
from typing import Any

import click

from backend.commands.helpers.arguments import EXISTING_FILE, PATH, class_labels
from backend.commands.helpers.failures import Command


@click.command(cls=Command)
@click.argument("source", metavar="SOURCE_VERSION_DIR", type=PATH)
@click.option(
    "--decode",
    type=click.Choice(["base64", "bytes"]),
    default="base64",
    show_default=True,
    help="input: base64 text, or the bytes of image files",
)
@click.option(
    "--encode",
    type=click.Choice(["png", "detections"]),
    help="png: the image output leaves as PNG files, named output_bytes; detections: a detector's boxes, classes and scores "
    "leave under the names of the Object Detection API",
)
@click.option("--signature", help="signature of the source to merge in front of")
@click.option("--input", help="image input of the source, if it has several")
@click.option("--output", help="its output for --encode, --softmax or --labels, where it has several")
@click.option(
    "--size",
    type=click.IntRange(min=1),
    nargs=2,
    help="HEIGHT WIDTH, if the source leaves them open; without it, --encode keeps the size of each picture",
)
@click.option(
    "--layout",
    type=click.Choice(["nhwc", "nchw"]),
    help="whether channels come last or first, where the source leaves all sides open  [default: found by trying]",
)
@click.option(
    "--input-range",
    type=float,
    nargs=2,
    help="LOW HIGH: numbers for black and white in the network's input  [default: what the source says, else 0 1]",
)
@click.option(
    "--mean",
    default="0",
    show_default=True,
    help="taken off an image in [0, 1]: a number, or one a channel: 0.5,0.5,0.5",
)
@click.option(
    "--deviation", default="1", show_default=True, help="and divided by; --mean 0.5 --deviation 0.5 gives [-1, 1]"
)
@click.option(
    "--output-range",
    type=float,
    nargs=2,
    help="LOW HIGH: numbers that become black and white with --encode png  [default: what the source says or shows]",
)
@click.option("--boxes", help="a detector's output for detection_boxes, where its name and shape do not tell")
@click.option("--classes", help="the same for detection_classes")
@click.option("--scores", help="the same for detection_scores")
@click.option(
    "--first-class", type=int, default=0, show_default=True, help="number of a detector's first class in the answer"
)
@click.option("--softmax", is_flag=True, help="the class output holds logits: answer with probabilities")
@click.option(
    "--labels",
    type=EXISTING_FILE,
    help="the classes in their order: a name a line, or id:name, or labels.json; our own exports bring theirs",
)
@click.option(
    "--description",
    type=EXISTING_FILE,
    help="JSON object with fields for the version's assets.extra/dogsnap.json: labels, decision, ...",
)
@click.option(
    "--fast",
    is_flag=True,
    help="the network multiplies in whichever of bfloat16, int8 and float32 is measured to be the fastest here; writes nothing "
    "where that gains less than 1.5 times; --size may then be smaller than the source's",
)
@click.option(
    "--second-pass",
    is_flag=True,
    help="run the network a second time, on the part of the photo that holds the dog, cut out in the photo's own resolution",
)
@click.option("--dry-run", is_flag=True, help="only print where decoding would be merged in")
def merge(
    source: Path,
    size: tuple[int, int] | None,
    mean: str,
    deviation: str,
    labels: Path | None,
    description: Path | None,
    dry_run: bool,
    **chosen: Any,
) -> None:
    """Merge decoding into SOURCE_VERSION_DIR (such as models/inception_v3/1) and write the next version beside it."""
    from backend.building.acceleration import NotFaster
    from backend.building.inspection import input_specs
    from backend.building.merging import merge as merging

    logging.getLogger("tensorflow").setLevel(
        logging.ERROR
    )  # its advice on TensorFlow 1 is not for who has such a model
    options = merging.Options(
        size=size,
        mean=_numbers(mean),
        deviation=_numbers(deviation),
        labels=class_labels(labels),
        description=_fields(description),
        **chosen,
    )
    if dry_run:
        click.echo(f"would merge in front of {merging.find_image_input(input_specs(source), options)}")
        return
    try:
        click.echo(f"wrote {merging.merge(source, options, click.echo)}")
    except NotFaster as error:
        click.echo(f"no version is written: {error}")


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: expected a number, or one a channel with commas between") from error


def _fields(file: Path | None) -> dict[str, Any]:
    try:
        fields = json.loads(file.read_text(encoding="utf-8")) if file else {}
    except ValueError as error:
        raise click.ClickException(f"{file} is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise click.ClickException(f"{file}: expected a JSON object, received a {type(fields).__name__}")
    return fields
