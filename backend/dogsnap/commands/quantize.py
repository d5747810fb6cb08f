"""`dogsnap quantize`: measures on photos the value ranges that an int8 copy of
a version's network needs.
"""

from pathlib import Path

import click

from dogsnap.commands.helpers.arguments import AT_LEAST_ONE, PATH, option


@click.command()
@click.argument("version", default=Path("models/inception_v3/1"), type=PATH)
@option(
    "--data",
    "Stanford Dogs layout, with train_list.txt; several times for several folders with "
    "the same photos, e.g. crops and "
    "whole pictures",
    PATH,
    required=True,
    multiple=True,
)
@option("--photos", "how many the ranges are found on", AT_LEAST_ONE, default=1000)
@option(
    "--out",
    "where int8_ranges.json goes, beside the weights",
    PATH,
    default=Path("models/inception_v3"),
)
def quantize(version: Path, data: tuple[Path, ...], photos: int, out: Path) -> None:
    """Find the ranges of VERSION's activations on training photos, from which
    `dogsnap merge --fast` makes an int8 network.

    VERSION takes images, like models/inception_v3/1. To be run again when the
    weights change.
    """
    from dogsnap.exporting.merging.merge import read_description
    from dogsnap.exporting.quantization import RANGES
    from dogsnap.training import ranges

    try:
        chosen = ranges.choose(data, read_description(version)["recipe"], photos)
        ranges.calibrate(version, chosen, click.echo).write(out / RANGES)
    except KeyError as error:
        raise ValueError(
            f"{version} does not say {error}; expected a version made by `dogsnap export`"
        ) from error
    click.echo(f"wrote {out / RANGES}; `make setup` builds the versions with it")
