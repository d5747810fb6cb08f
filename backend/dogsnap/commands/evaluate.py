"""`dogsnap evaluate`: measures an exported version on photos it was not trained on."""

from pathlib import Path
from typing import Any

import click

from dogsnap.commands.helpers.answer_text import print_answer
from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    PATH,
    json_option,
    list_option,
    named_list,
    option,
    refuse_unwritable,
)
from dogsnap.files import write_json


@click.command()
@click.argument("version", default=Path("models/inception_v3/2"), type=PATH)
@option(
    "--data",
    "folder of photos, with a folder for each class named by its id or name, or with an "
    "index.tsv (breed, photo); or a table image,label as CSV; of independent classes labels may "
    "be several, as cat|dog, or a column for each class with 1 where a photo shows it",
    PATH,
    required=True,
)
@list_option
@option(
    "--not-dogs", "folder with photos without a dog; those not used in training are evaluated", PATH
)
@option(
    "--other-dogs",
    "folder with photos of dogs of breeds outside VERSION, one folder per breed; the "
    "answers are counted",
    PATH,
)
@option("--limit", "at most this many photos, evenly spread", AT_LEAST_ONE)
@option(
    "--precision",
    "find the least threshold from which on so many answers are right, such as 0.97, with 95 % "
    "confidence, and write the next version with it; DATA must not have trained",
    click.FloatRange(0.5, 1, min_open=True, max_open=True),
)
@option(
    "--save",
    "folder for scores.json, confusion.csv, its picture confusion.png, and the scores "
    "of each class in classes.csv",
    PATH,
)
@json_option
def evaluate(
    version: Path,
    data: Path,
    list_name: str,
    not_dogs: Path | None,
    other_dogs: Path | None,
    limit: int | None,
    precision: float | None,
    **outputs: Path | None,
) -> None:
    """Report the scores of VERSION (a version folder such as
    models/inception_v3/2) on the photos in DATA.
    """
    save, files = outputs["save"], [outputs["json_file"]]
    if save:
        save.mkdir(parents=True, exist_ok=True)
        refuse_unwritable(save)
        files.append(save / "scores.json")
    from dogsnap.serving.versions.version_folders import model_folder_of
    from dogsnap.training.evaluation import confusion, labelled_photos, measuring
    from dogsnap.training.evaluation.exported_version import ExportedVersion

    if precision:
        refuse_unwritable(model_folder_of(version))
    exported = ExportedVersion.load(version)
    if not_dogs:
        exported.require_dogs("--not-dogs")
    if precision and exported.levels.decision.group is not None:
        raise click.UsageError(
            f"--precision is for versions without groups; the thresholds of {version} depend on "
            "one another, and are fitted together"
        )
    if exported.is_independent and (precision or not_dogs or other_dogs):
        raise click.UsageError(
            f"--precision, --not-dogs and --other-dogs are for one class a photo; the classes of "
            f"{version} are independent, each with its own `threshold` in the labels"
        )
    listed = named_list(data, list_name)
    examples = labelled_photos.read_known(
        data, listed, exported.labels, limit, click.echo, exported.is_independent
    )
    about: dict[str, Any] = {"version": version, "data": data, "labels": exported.labels}
    if exported.is_independent:
        scores = measuring.evaluate_labels(exported, examples)
        print_answer("labels.txt", scores, **about)
        _write(scores, files)
        return
    others = {}  # before the rest, which takes longest: a wrong folder is told at once
    if other_dogs:
        others["other_dogs"] = measuring.other_dogs(exported, other_dogs, click.echo)
    if not_dogs:
        others["not_dogs"] = measuring.without_dogs(exported, not_dogs, click.echo)
    scores, matrix, found = measuring.evaluate(exported, examples, precision)
    scores |= {**others, "confusion": matrix.tolist()}
    print_answer("scores.txt", scores, shown=confusion.find_shown(matrix), **about)
    _write(scores, files)
    if save:
        confusion.save(matrix, exported.labels, save)
        click.echo(f"wrote scores.json, classes.csv, confusion.csv and confusion.png to {save}")
    if found:
        click.echo(str(found))
        _write_version(version, found.threshold)


def _write(scores: dict[str, Any], files: list[Path | None]) -> None:
    for file in filter(None, files):
        write_json(scores, file)


def _write_version(version: Path, threshold: float | None) -> None:
    """The next version with a threshold. Raises click.ClickException if none was found."""
    from dogsnap.exporting.redescription import write_with_threshold

    if threshold is None:
        raise click.ClickException("no version is written")
    click.echo(f"wrote {write_with_threshold(version, threshold)}")
