"""`dogsnap quantize`: the next version of a classifier, with its network in int8."""

from pathlib import Path

import click

from dogsnap.commands.helpers.arguments import PATH, option


@click.command()
@click.argument("version", type=PATH)
@option(
    "--photos",
    "folder of at least 200 photos such as it will be asked about; folders in it do not matter",
    PATH,
)
@click.option("--data", hidden=True, multiple=True)
def quantize(version: Path, photos: Path | None, data: tuple[str, ...]) -> None:
    """Write VERSION, a version folder such as models/mine/2 that `dogsnap merge`
    made, again in int8, under the next number.

    Nothing is written unless it is at least 1.3 times as fast and at least 99 %
    of the answers agree.
    """
    if data:
        raise click.UsageError(
            "--data is withdrawn: the ranges of the shipped network are found by `python -m lab "
            "calibrate`, in a checkout; --photos FOLDER quantizes a version"
        )
    if photos is None:
        raise click.UsageError("expected --photos FOLDER")
    from dogsnap.training import int8_version

    with click.progressbar(length=int8_version.MOST_PHOTOS // 2, label="photos") as bar:
        found = int8_version.quantize(version, photos, click.echo, lambda: bar.update(1))
    click.echo(str(found))
    if found.version is None:
        raise click.ClickException("no version is written")
    click.echo(f"wrote {found.version}")
