"""`dogsnap train`: a network for own classes, from a folder of photos."""

import logging
import os
import shlex
from pathlib import Path
from typing import Any

import click

from dogsnap.commands.helpers.arguments import PATH, option, refuse_unwritable
from dogsnap.settings import MODELS

WORK = Path(".dogsnap/train")
PRECISION = click.FloatRange(0.5, 1, min_open=True, max_open=True)


@click.command()
@click.argument("folder", type=PATH)
@option(
    "--out",
    "folder of the model, where weights and versions go, as models/mine",
    PATH,
    required=True,
)
@option(
    "--from",
    "folder with weights, labels and recipe of the network to start from",
    PATH,
    name="source",
    default=Path("models/inception_v3"),
)
@option(
    "--precision",
    "share of right answers from which on a class is told as sure, with 95 % confidence",
    PRECISION,
    default=0.97,
)
@option("--mirrored", "a mirrored photo shows the same class, so train on these, too", is_flag=True)
@option(
    "--subject",
    "`dogs`: the classes are breeds of dogs, and photos are turned to find the dog",
    click.Choice(["other", "dogs"]),
    default="other",
)
@option("--work", f"what is done so far, to go on from  [default: {WORK}/<name of OUT>]", PATH)
def train(folder: Path, out: Path, work: Path | None, **named: Any) -> None:
    """Train a network on the photos in FOLDER, which has a folder for each
    class, and write it as the next two versions of OUT: of image tensors, and
    of photos.

    One photo in five is held out to measure it. Interrupted, the same command
    goes on.
    """
    from dogsnap.exporting.export import Trained
    from dogsnap.serving.versions.version_folders import refuse_several_models
    from dogsnap.training import own_classes, own_version

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # its advice on tracing
    out = Path(os.path.abspath(out))  # has the model's name, also where it is a link
    refuse_several_models(out)
    own_version.refuse_other_files(out, folder)
    refuse_unwritable(next(each for each in (out, *out.parents) if each.exists()))
    photos = own_classes.read_classes(folder, click.echo)
    click.echo(
        f"{len(photos.labels)} classes: {len(photos.training)} photos train, "
        f"{len(photos.held_out)} are held out"
    )
    work = work or WORK / out.name
    start = Trained.read(named["source"], named["source"].name)
    model = own_classes.train(photos, start, work, named["mirrored"], click.echo)
    written = own_version.write(
        model, photos, start, out, named["precision"], named["subject"], click.echo
    )
    for version in written:
        click.echo(f"wrote {version}")
    is_usual = out.parent == Path(os.path.abspath(MODELS))
    where = "" if is_usual else f" --models {shlex.quote(str(out.parent))}"
    click.echo(f"ask it: dogsnap predict PHOTO --model {shlex.quote(out.name)}{where}")
