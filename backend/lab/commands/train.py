"""`python -m lab train`: trains the network on photos of breeds and stores what
`dogsnap export` builds a version from.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    PATH,
    option,
)
from dogsnap.settings import Decorated

WORK = Path(".dogsnap")
BREEDS = Path("models/breeds.json")


def work_option(name: str) -> Callable[[Decorated], Decorated]:
    return option("--work", "checkpoints, to resume from", PATH, default=WORK / name)


def data_option(is_required: bool) -> Callable[[Decorated], Decorated]:
    layout = "Stanford Dogs layout: images/<wnid>-<Name>/, train_list.txt"
    return option("--data", layout, PATH, required=is_required)


frames_option = option(
    "--frames",
    "whole pictures that the photos were cut from: images/, boxes.tsv, dogs.tsv",
    PATH,
)


@click.group(invoke_without_command=True)
@data_option(is_required=False)
@frames_option
@option(
    "--weights",
    "a .weights.h5 file of a whole network to start from",
    PATH,
    default=Path("models/inception_v3/float16.weights.h5"),
)
@option("--out", "where the artefacts go, such as models/mine", PATH)
@work_option("inception_v3")
@click.pass_context
def train(
    context: click.Context,
    data: Path | None,
    frames: Path | None,
    weights: Path,
    out: Path | None,
    work: Path,
) -> None:
    """Train a network for the breeds in DATA; interrupted, the same command
    goes on from the newest checkpoint.

    `python -m lab calibrate` comes next.
    """
    if context.invoked_subcommand is not None:
        return
    if data is None or out is None:
        raise click.UsageError("Missing option '--data' or '--out'.")
    import keras
    from dogsnap.training import dataset

    from lab import artefacts, photo_lists, recipes, trainer
    from lab.boxes import with_boxes

    recipe = recipes.INCEPTION_V3
    folders = dataset.breed_folders(data)
    labels = photo_lists.labels_of(folders, BREEDS)
    listed = dataset.read_list(data, "train_list")
    # Cut before the unreadable ones go, so that these move no other one across the cut.
    parts = dataset.split_validation(listed, recipe.validation_per_breed, recipe.seed)
    fitted, validation = (dataset.readable(with_boxes(part, frames), click.echo) for part in parts)
    keras.config.set_dtype_policy(trainer.fastest_precision())
    model = trainer.train(recipe, fitted, validation, len(labels), weights, work)
    artefacts.finish(model, recipe, labels, fitted, out)
    more = f" --frames {frames}" if frames else ""
    click.echo(
        f"artefacts are in {out}; now: python -m lab calibrate {out} --data {data}{more} "
        "--not-dogs FOLDER"
    )


@train.command()
@data_option(is_required=True)
@frames_option
@option("--not-dogs", "folder of photos without a dog: every second one teaches the head", PATH)
@option(
    "--judged",
    "folder of photos with the boxes of all dogs in boxes.tsv: every second one chooses "
    "from which score on a box is a dog",
    PATH,
    required=True,
)
@option("--out", "folder with the network, where the head goes", PATH, required=True)
@work_option("dogs")
@option("--pictures", "how many are composed", AT_LEAST_ONE, default=9000)
@option("--epochs", "how often each is seen", AT_LEAST_ONE, default=16)
def dogs(**given: Any) -> None:
    """Train the head that finds every dog, for the network in OUT, which stays
    as it is; interrupted, it goes on.
    """
    from lab import dogs_training

    measured, out = dogs_training.run(**given), given["out"]
    click.echo(
        f"photos with several dogs: {measured['several_told']:.1%} told, "
        f"{measured['recall']:.1%} of the dogs found; artefacts "
        f"are in {out}; now: dogsnap export {out.name}"
    )


@train.command()
@data_option(is_required=True)
@option(
    "--frames",
    "whole pictures that the photos were cut from: images/, boxes.tsv, dogs.tsv",
    PATH,
    required=True,
)
@option("--out", "folder with the network beside, where the head goes", PATH, required=True)
@work_option("orientation")
@option("--pictures", "how many are shown", AT_LEAST_ONE, default=6000)
@option("--epochs", "how often each is seen", AT_LEAST_ONE, default=10)
def orientation(data: Path, frames: Path, out: Path, **given: Any) -> None:
    """Train the head that tells which way is up, on the maps of the network
    beside in OUT, which stays as it is; interrupted, it goes on.
    """
    from lab import orientation_training, photo_lists

    training, validation = photo_lists.read_parts(out, data, frames, click.echo)
    measured = orientation_training.run(training, validation, out, **given)
    click.echo(
        f"upright {measured['upright']:.1%}, turned {measured['turned']:.1%} right of "
        f"{measured['photos']} pictures; artefacts are in {out}; now: dogsnap export {out.name}"
    )
