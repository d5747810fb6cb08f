"""`dogsnap compare`: how far two versions of a model agree on photos."""

from pathlib import Path

import click


@click.command()
@click.argument("first", type=int)
@click.argument("second", type=int)
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="folder of photos; folders <id>-<Name> give the right answers",
)
@click.option(
    "--list",
    "list_name",
    default="test_list",
    show_default=True,
    help="the list in DATA to take them from; without that file: every photo below DATA",
)
@click.option(
    "--photos", default=500, show_default=True, type=click.IntRange(min=1), help="at most so many, evenly spread"
)
@click.option(
    "--model",
    "model_dir",
    default=Path("models/inception_v3"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="folder of the versions",
)
def compare(first: int, second: int, data: Path, list_name: str, photos: int, model_dir: Path) -> None:
    """Compare versions FIRST and SECOND: agreement, difference of the probabilities, accuracy, time a photo."""
    from backend.modeling.comparison import compare as measure
    from backend.modeling.comparison import photo_files
    from backend.modeling.scoring import ExportedVersion

    try:
        files = photo_files(data, photos, list_name)
        if not files:
            raise ValueError(f"{data} holds no photos (JPEG, PNG, GIF, BMP or WebP)")
        versions = [ExportedVersion.load(model_dir / str(number)) for number in (first, second)]
        with click.progressbar(length=len(files), label=f"{len(files)} photos") as bar:
            result = measure(*versions, files, click.echo, lambda: bar.update(1))
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"versions {first} and {second} of {model_dir} on {result.photos} photos of {data}")
    click.echo(f"same top class              {result.agreement:.2%}")
    click.echo(f"mean absolute difference    {result.mean_difference:.2e}")
    click.echo(f"largest difference          {result.largest_difference:.2e}")
    if result.accuracy:
        click.echo(f"top-1 of {result.labelled:<6} labelled    {result.accuracy[0]:.2%}  {result.accuracy[1]:.2%}")
    click.echo(f"median time a photo         {result.milliseconds[0]:.0f} ms  {result.milliseconds[1]:.0f} ms")
