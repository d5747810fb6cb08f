"""`python -m lab calibrate`: everything after a training, from weights and photos."""

from pathlib import Path
from typing import Any

import click
from dogsnap.commands.helpers.arguments import EXISTING_FILE, PATH, option, refuse_unwritable

from lab.commands.train import data_option, frames_option, work_option


@click.command()
@click.argument("folder", default=Path("models/inception_v3"), type=PATH)
@data_option(is_required=True)
@frames_option
@option("--not-dogs", "folder of photos without a dog: the half that taught the dog head", PATH)
@option(
    "--taught",
    "folder of photos of breeds to teach the version that answers the app, see PHOTOS "
    "of `dogsnap teach`; photos that an "
    "index.tsv lists of other breeds than the first folder's are known ones",
    PATH,
    multiple=True,
)
@option(
    "--more-not-dogs",
    "folder with index.tsv (columns photo and source) of further photos without a dog, "
    "to fit the dog score on",
    PATH,
    multiple=True,
)
@option(
    "--more-dogs",
    "folder with boxes.tsv of photos of dogs, whatever the breed, to fit the dog score on",
    PATH,
    multiple=True,
)
@option(
    "--leave-out",
    "folder of the first --taught that is not taught; its photos are of other breeds then",
    multiple=True,
)
@option(
    "--one-source",
    "beginning of the names of sources that copy one another, and count as one",
    multiple=True,
)
@option(
    "--popularity",
    "ranks of the breeds: of two that look alike, the more common one is the more probable",
    EXISTING_FILE,
    default=Path("models/popularity.json"),
)
@option(
    "--opinion",
    "afterwards, with the same photos: fit the version that answers the app with the opinion of the "
    "network beside, which `python -m lab opinion` stores; writes second_opinion.json, and the "
    "scores in taught.json",
    is_flag=True,
)
@option(
    "--phone",
    "afterwards, with the same photos: fit the network beside by itself, as it answers on phones; "
    "writes phone.json",
    is_flag=True,
)
@work_option("calibrate")
def calibrate(
    folder: Path,
    data: Path,
    frames: Path | None,
    not_dogs: Path | None,
    popularity: Path,
    work: Path,
    one_source: tuple[str, ...],
    leave_out: tuple[str, ...],
    **further: Any,
) -> None:
    """Write scores.json, int8_ranges.json and class_statistics.npz, and with
    --taught taught.json, for the weights, labels and recipe in FOLDER.

    These are temperature, lapse rate, prior, groups of look-alikes, second
    pass, and the thresholds of each version from its own answers. To be run
    again when the weights change.
    """
    refuse_unwritable(folder)
    from lab import calibration, phone, photo_lists, second_opinion
    from lab.dogs_training import read_judged

    training, validation = map(
        photo_lists.with_whole_pictures,
        photo_lists.read_parts(folder, data, frames, click.echo),
    )
    others, other_folds = photo_lists.read_others(
        not_dogs, validation, further["more_not_dogs"], one_source, click.echo
    )
    dogs = []
    for more in further["more_dogs"]:
        dogs += [each.path for each in read_judged(more)]
    taught = further["taught"]
    breeds = photo_lists.breeds_to_teach(taught, leave_out, one_source)
    photos = calibration.Photos(training, validation, others, other_folds, dogs, breeds, taught)
    fit, written = calibration.calibrate, "scores, ranges and statistics"
    if further["opinion"]:
        fit, written = second_opinion.fit, "scores and ranges"
    if further["phone"]:
        fit, written = phone.fit, "scores"
    scores = fit(folder, photos, popularity, work)
    click.echo(f"validation top-1 {scores['validation']['top1']:.2%}; wrote {written} to {folder}")
