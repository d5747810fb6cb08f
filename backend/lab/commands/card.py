"""`python -m lab card`: measures what the model card states."""

from pathlib import Path

import click
from dogsnap.commands.helpers.arguments import EXISTING_FILE, PATH, option
from dogsnap.files import replacing, write_json

MEASURED = "measured.json"


@click.command()
@click.argument("model", default=Path("models/inception_v3"), type=PATH)
@option("--data", "the folder with stanford_dogs, web_dogs, ...", PATH, required=True)
@option("--card", "whose tables are renewed", EXISTING_FILE, default=Path("models/README.md"))
def card(model: Path, data: Path, card: Path) -> None:
    """Measure versions 2 and 3 of MODEL on all lists of the model card, and
    renew its tables and measured.json beside it.
    """
    from lab import card as tables

    # Refuses a file without a place for them before the work.
    tables.split(card.read_text(encoding="utf-8"))
    measured = tables.measure(model, data)
    write_json(measured, card.with_name(MEASURED))
    text = tables.renew_tables(card.read_text(encoding="utf-8"), measured)
    with replacing(card) as temporary:
        temporary.write_text(text, encoding="utf-8")
    click.echo(f"wrote {card} and {MEASURED}")
