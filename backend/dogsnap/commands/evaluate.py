"""`dogsnap evaluate`: measures an exported version on photos it was not trained on."""

from pathlib import Path

import click
from click.core import ParameterSource

from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    EXISTING_FILE,
    PATH,
    json_option,
    list_option,
    option,
)
from dogsnap.files import replacing, write_json

MEASURED = "measured.json"


@click.command()
@click.argument("version", default=Path("models/inception_v3/2"), type=PATH)
@option(
    "--data", "folder with images/<wnid>-<Name>/ and, optionally, the list", PATH, required=True
)
@list_option
@option(
    "--not-dogs", "folder with photos without a dog; those not used in training are evaluated", PATH
)
@option(
    "--other-dogs",
    "folder with photos of dogs of breeds outside VERSION, one folder per breed; the answers are counted",
    PATH,
)
@option("--limit", "at most this many photos, evenly spread", AT_LEAST_ONE)
@option(
    "--card",
    "measure versions 2 and 3 beside VERSION on all lists of the model card, in the folders of these names below DATA, and "
    "renew its tables in this file and measured.json beside it",
    EXISTING_FILE,
)
@json_option
def evaluate(
    version: Path,
    data: Path,
    list_name: str,
    not_dogs: Path | None,
    other_dogs: Path | None,
    limit: int | None,
    card: Path | None,
    json_file: Path | None,
) -> None:
    """Report the scores of VERSION (a version folder such as models/inception_v3/2) on the photos in DATA."""
    if card:
        return _renew(card, version.parent, data)
    from dogsnap.training import scoring, thresholds
    from dogsnap.training.evaluation import card as measuring
    from dogsnap.training.evaluation import exported_version

    exported = exported_version.ExportedVersion.load(version)
    # A list that is named must exist; without the default one, all photos of the folder are used.
    named = (
        click.get_current_context().get_parameter_source("list_name") is ParameterSource.COMMANDLINE
    )
    listed = list_name if named or (data / f"{list_name}.txt").is_file() else None
    examples = measuring.examples_of(data, listed, exported.description["labels"], click.echo)
    if limit:
        examples = examples[:: max(1, -(-len(examples) // limit))]
    scores = measuring.scored(exported, examples)
    click.echo(f"{version} on {len(examples)} photos of {data}\n{scoring.as_text(scores)}")
    click.echo(f"called a dog                {scores['dogs']['called_dog']:.2%}")
    if "levels" in scores:
        click.echo(thresholds.as_text(scores["levels"]))
    if other_dogs:
        scores["other_dogs"] = measuring.other_dogs(exported, other_dogs, click.echo)
        click.echo(f"{other_dogs}\n{thresholds.unknown_as_text(scores['other_dogs'])}")
    if "boxes" in scores:
        click.echo(
            f"box                         overlap {scores['boxes']['mean_overlap']:.3f}, more than a half "
            f"{scores['boxes']['over_half']:.2%} of {scores['boxes']['photos']}"
        )
    if not_dogs:
        scores["not_dogs"] = measuring.without_dogs(exported, not_dogs, click.echo)
        click.echo(
            f"called no dog               {scores['not_dogs']['called_no_dog']:.2%} of {scores['not_dogs']['photos']} "
            "photos without one"
        )
    if json_file:
        write_json(scores, json_file)


def _renew(card_file: Path, model: Path, data: Path) -> None:
    """Measure the versions in `model` on all lists below `data`, and write measured.json and the tables of the card."""
    from dogsnap.training.evaluation import card

    card.split(
        card_file.read_text(encoding="utf-8")
    )  # refuses a file without a place for them before the work
    measured = card.measure(model, data, click.echo)
    write_json(measured, card_file.with_name(MEASURED))
    with replacing(card_file) as temporary:
        temporary.write_text(
            card.renewed(card_file.read_text(encoding="utf-8"), measured), encoding="utf-8"
        )
    click.echo(f"wrote {card_file} and {MEASURED}")
