"""`python -m lab phone`: measures what the model card states of the network on phones."""

import json
from pathlib import Path

import click
from dogsnap.commands.helpers.arguments import PATH, option


@click.command()
@click.argument("version", default=Path("models/inception_v3/3"), type=PATH)
@option("--data", "the folder with web_dogs and not_dogs", PATH, required=True)
def phone(version: Path, data: Path) -> None:
    """Measure the network that VERSION has for phones, on lists of the model card."""
    from lab.phone import PhoneNetwork, measure

    click.echo(json.dumps(measure(PhoneNetwork(version), data), indent=1))
