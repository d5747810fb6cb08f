"""`python -m lab train`: trains a network on a folder of photos and stores what
`dogsnap export` builds a version from.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    EXISTING_FILE,
    PATH,
    option,
    precision_option,
)
from dogsnap.settings import Decorated

WORK = Path(".dogsnap")
POPULARITY = Path("models/popularity.json")


def work_option(name: str) -> Callable[[Decorated], Decorated]:
    return option("--work", f"checkpoints, to resume from  [default: {WORK}/{name}]", PATH)


@click.group(invoke_without_command=True)
@option("--data", "Stanford Dogs layout: images/<wnid>-<Name>/, train_list.txt", PATH)
@option(
    "--frames",
    "whole pictures that the photos were cut from: images/, boxes.tsv and, for several "
    "dogs, dogs.tsv; the official data "
    "set's Annotation folder in DATA does as well",
    PATH,
)
@option(
    "--weights",
    "a .weights.h5 file of a whole network to start from",
    PATH,
    default=Path("models/inception_v3/float16.weights.h5"),
)
@option("--recipe", "a recipe of lab/recipes.py", name="recipe_name", default="inception_v3")
@option("--not-dogs", "folder of photos without a dog: every second one teaches what is none", PATH)
@option("--out", "where the artefacts go, such as models/mine", PATH)
@work_option("RECIPE")
@option("--breeds", "names for the labels", PATH, default=Path("models/breeds.json"))
@option(
    "--popularity",
    "ranks of the breeds: of two that look alike, the more common one is the more "
    f"probable  [default: {POPULARITY}; "
    "where that is not there, all are equally common]",
    EXISTING_FILE,
)
@precision_option
def train(
    data: Path | None,
    frames: Path | None,
    weights: Path,
    recipe_name: str,
    not_dogs: Path | None,
    out: Path | None,
    work: Path | None,
    **named: Any,
) -> None:
    """Train a network for the breeds in DATA; interrupted, the same command
    goes on from the newest checkpoint.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if data is None:
        raise click.UsageError(
            "Missing option '--data', the folder of photos (or the command 'dogs')."
        )
    if out is None:
        raise click.UsageError(
            "Missing option '--out', the folder for what is trained, such as models/mine."
        )
    from dogsnap.training import dataset

    from lab import artefacts, calibration, photo_lists, trainer
    from lab.boxes import with_boxes
    from lab.prior import log_prior
    from lab.recipes import RECIPES

    if recipe_name not in RECIPES:
        raise click.ClickException(f"no recipe {recipe_name!r}; there are: {', '.join(RECIPES)}")
    recipe = RECIPES[recipe_name]
    folders = dataset.breed_folders(data)
    labels = photo_lists.labels_of(folders, named["breeds"])
    ranks = named["popularity"] or POPULARITY
    log_prior(labels, ranks)  # which refuses what holds no ranks before the training
    listed = dataset.read_list(data, "train_list")
    # Cut before the unreadable ones go: a photo lost or repaired between two sittings
    # moves no other one across the cut.
    parts = dataset.split_validation(listed, recipe.validation_per_breed, recipe.seed)
    photo_lists.check_taught(folders, parts[0])
    readable = []
    for part in parts:
        boxed = with_boxes(part, data, frames, click.echo)
        readable.append(dataset.readable(boxed, click.echo))
    fitted, validation = readable
    photo_lists.check_taught(folders, fitted)
    trainer.use_precision(named["precision"])
    work = work or WORK / recipe_name
    no_dogs = photo_lists.every_second_photo(not_dogs, 0, click.echo)
    model = trainer.train(recipe, fitted, validation, len(labels), weights, work, click.echo)
    artefacts.finish(model, recipe, labels, fitted, out, click.echo)
    others = calibration.without_dog(no_dogs, validation, frames)
    scores = calibration.calibrate(
        out, calibration.Photos(fitted, validation, others), ranks, work / "calibrate", click.echo
    )
    click.echo(
        f"validation top-1 {scores['validation']['top1']:.2%}; artefacts are in {out}; "
        f"now: dogsnap export {out.name}"
    )


@train.command()
@option(
    "--data", "Stanford Dogs layout: images/<wnid>-<Name>/, train_list.txt", PATH, required=True
)
@option(
    "--frames",
    "whole pictures that the photos were cut from: images/, boxes.tsv, and dogs.tsv",
    PATH,
)
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
@option("--seed", "the same seed composes the same pictures", default=20)
@precision_option
def dogs(
    out: Path,
    work: Path | None,
    precision: str,
    pictures: int,
    epochs: int,
    seed: int,
    **named: Any,
) -> None:
    """Train the head that finds every dog, for the network in OUT, which stays
    as it is; interrupted, it goes on.
    """
    from lab import dogs_training
    from lab.trainer import use_precision

    use_precision(precision)
    sources = dogs_training.Sources(**named)
    measured = dogs_training.run(
        sources, out, work or WORK / "dogs", pictures, epochs, seed, click.echo
    )
    click.echo(
        f"photos with several dogs: {measured['several_told']:.1%} told, "
        f"{measured['recall']:.1%} of the dogs found; artefacts "
        f"are in {out}; now: dogsnap export {out.name}"
    )
