"""`dogsnap quantize`: measures on photos the value ranges that an int8 copy of a version's network needs."""

from pathlib import Path

import click

from backend.commands.helpers.arguments import AT_LEAST_ONE, PATH, option
from backend.commands.helpers.failures import Command


@click.command(cls=Command)
@click.argument("version", default=Path("models/inception_v3/1"), type=PATH)
@option(
    "--data",
    "Stanford Dogs layout, with train_list.txt; several times for several folders with the same photos, e.g. crops and "
    "whole pictures",
    PATH,
    required=True,
    multiple=True,
)
@option("--not-dogs", "folder of photos without a dog, to compare the answers on", PATH)
@option("--photos", "how many the ranges are found on", AT_LEAST_ONE, default=1000)
@option("--judged", "most validation photos of a folder that both networks answer", AT_LEAST_ONE, default=1200)
@option("--out", "where int8_ranges.json goes, beside the weights", PATH, default=Path("models/inception_v3"))
def quantize(version: Path, data: tuple[Path, ...], not_dogs: Path | None, photos: int, judged: int, out: Path) -> None:
    """Find the ranges of VERSION's activations on training photos, from which `dogsnap merge --fast` makes an int8 network.

    VERSION takes images, like models/inception_v3/1. To be run again when the weights change. Prints how the answers in
    int8 compare with those in float32 on validation photos.
    """
    from backend.building import ranges
    from backend.building.quantization import RANGES

    try:
        recipe = ranges.read_description(version)["recipe"]
        chosen = ranges.choose(data, not_dogs, recipe, photos, judged)
        ranges.calibrate(version, chosen, click.echo).write(out / RANGES)
    except KeyError as error:
        raise ValueError(f"{version} does not say {error}; expected a version made by `dogsnap export`") from error
    click.echo(f"wrote {out / RANGES}; `make setup` builds the versions with it")
