"""`dogsnap evaluate`: measures an exported version on photos it was not trained on."""

import json
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from backend.commands.helpers.arguments import PATH, json_option, list_option, picture_option
from backend.errors import DogsnapError


@click.command()
@click.argument("version", default=Path("models/inception_v3/2"), type=PATH)
@click.option(
    "--data",
    required=True,
    type=PATH,
    help="folder with images/<wnid>-<Name>/ and, optionally, the list",
)
@list_option
@click.option(
    "--not-dogs",
    type=PATH,
    help="folder with photos without a dog; those not used in training are evaluated",
)
@click.option(
    "--other-dogs",
    type=PATH,
    help="folder with photos of dogs of breeds outside VERSION, one folder per breed; the answers are counted",
)
@click.option("--limit", type=click.IntRange(min=1), help="at most this many photos, evenly spread")
@json_option
@picture_option("write a PNG with the confusion matrix and the reliability diagram")
def evaluate(**options: Any) -> None:
    """Report the scores of VERSION (a version folder such as models/inception_v3/2) on the photos in DATA."""
    try:
        _evaluate(**options)
    except DogsnapError as error:
        raise click.ClickException(error.message) from error
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error).splitlines()[0]) from error


def _evaluate(
    version: Path,
    data: Path,
    list_name: str,
    not_dogs: Path | None,
    other_dogs: Path | None,
    limit: int | None,
    json_file: Path | None,
    picture: Path | None,
) -> None:
    import numpy as np

    from backend.evaluation import exported_version
    from backend.fitting import dataset, scoring, thresholds

    exported = exported_version.ExportedVersion.load(version)
    labels, decision = exported.description["labels"], exported.description["decision"]
    examples = _examples(data, list_name, labels, limit)
    breeds = np.array([example.breed for example in examples])
    answers = exported_version.answers(exported, [example.path for example in examples])
    probabilities, dog = answers["prediction"], answers["dog"]
    scores = scoring.report(probabilities, breeds, labels, decision["confident_threshold"])
    scores["dogs"] = scoring.dog_report(dog, decision["dog_threshold"], shows_dog=True)
    click.echo(f"{version} on {len(examples)} photos of {data}\n{scoring.as_text(scores)}")
    click.echo(f"called a dog                {scores['dogs']['called_dog']:.2%}")
    claimed = exported.servable.description.levels
    if claimed is not None:
        scores["levels"] = thresholds.report(claimed, probabilities, breeds, dog >= decision["dog_threshold"])
        click.echo(thresholds.as_text(scores["levels"]))
    if other_dogs:
        scores["other_dogs"] = _other_dogs(exported, claimed, other_dogs)
    if "box" in answers and any(example.box for example in examples):
        scores["boxes"] = scoring.box_report(answers["box"], [example.box for example in examples])
        click.echo(
            f"box                         overlap {scores['boxes']['mean_overlap']:.3f}, more than a half "
            f"{scores['boxes']['over_half']:.2%} of {scores['boxes']['photos']}"
        )
    if not_dogs:
        others = dataset.readable_photos(dataset.every_second_photo(not_dogs, 1), click.echo)
        dog = exported_version.answers(exported, others)["dog"]
        scores["not_dogs"] = scoring.dog_report(dog, decision["dog_threshold"], shows_dog=False)
        click.echo(
            f"called no dog               {scores['not_dogs']['called_no_dog']:.2%} of {len(dog)} photos without one"
        )
    if json_file:
        json_file.write_text(json.dumps(scores, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if picture:
        from backend.evaluation import plots

        plots.draw(probabilities, breeds, labels, picture)


def _other_dogs(exported: Any, claimed: Any, folder: Path) -> dict:
    """What is told of dogs of breeds that the version does not know: shares of the levels, and what they are surely taken for."""
    from backend.evaluation import exported_version
    from backend.fitting import dataset, thresholds

    if claimed is None:
        raise ValueError(f"--other-dogs: {exported.path} has no levels that could tell a breed unknown")
    photos = dataset.readable_photos(dataset.photos_below(folder), click.echo)
    probabilities = exported_version.answers(exported, photos)["prediction"]
    scores = thresholds.report_unknown(
        claimed, probabilities, [photo.parent.name for photo in photos], exported.description["labels"]
    )
    click.echo(f"{len(photos)} photos of {folder}\n{thresholds.unknown_as_text(scores)}")
    return scores


def _examples(data: Path, list_name: str, labels: list[dict], limit: int | None) -> list:
    from backend.fitting import dataset

    # A list that is named must exist; without the default one, all photos of the folder are used.
    named = click.get_current_context().get_parameter_source("list_name") is ParameterSource.COMMANDLINE
    listed = named or (data / f"{list_name}.txt").is_file()
    if not listed and (data / dataset.INDEX).is_file():
        examples = dataset.read_index(data, labels)
    else:
        examples = dataset.read_list(data, list_name) if listed else dataset.read_folders(data, labels)
    if listed:
        dataset.check_folders(dataset.breed_folders(data), labels)
    if (data / dataset.BOXES).is_file():
        examples = dataset.with_boxes(examples, data, data, click.echo)
    examples = dataset.readable(examples, click.echo)
    step = max(1, -(-len(examples) // limit)) if limit else 1
    return examples[::step]
