"""`dogsnap compare`: how far two versions of a model agree on photos."""

from pathlib import Path

import click

from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    FOLDER,
    PATH,
    json_option,
    list_option,
    option,
)
from dogsnap.files import write_json


@click.command()
@click.argument("first", type=int)
@click.argument("second", type=int)
@option(
    "--data",
    "folder with photos; subfolders <id>-<Name> give the true breeds",
    FOLDER,
    required=True,
)
@list_option
@option("--photos", "at most this many photos, evenly spread", AT_LEAST_ONE, default=500)
@option(
    "--model",
    "folder with the versions",
    PATH,
    name="model_dir",
    default=Path("models/inception_v3"),
)
@option("--show", "list at most this many differing photos", click.IntRange(min=0), default=20)
@json_option
def compare(
    first: int,
    second: int,
    data: Path,
    list_name: str,
    photos: int,
    model_dir: Path,
    show: int,
    json_file: Path | None,
) -> None:
    """Compare versions FIRST and SECOND on photos.

    Reports agreement, difference of the probabilities, accuracy if the folders name the breeds, and time; lists the photos with
    different top classes.
    """
    from dogsnap.training.evaluation.agreement import compare as measure
    from dogsnap.training.evaluation.agreement import photo_files
    from dogsnap.training.evaluation.exported_version import ExportedVersion

    files = photo_files(data, photos, list_name)
    if not files:
        raise ValueError(f"{data} holds no photos (JPEG, PNG, GIF, BMP or WebP)")
    versions = [ExportedVersion.load(model_dir / str(number)) for number in (first, second)]
    with click.progressbar(length=len(files), label=f"{len(files)} photos") as bar:
        result = measure(*versions, files, click.echo, lambda: bar.update(1))
    click.echo(
        f"versions {first} and {second} of {model_dir} on {result['photos']} photos of {data}"
    )
    click.echo(f"same top class              {result['agreement']:.2%}")
    click.echo(f"mean absolute difference    {result['mean_difference']:.2e}")
    click.echo(f"largest difference          {result['largest_difference']:.2e}")
    if accuracy := result["accuracy"]:
        click.echo(
            f"top-1 of {result['labelled']:<6} labelled    {accuracy[0]:.2%}  {accuracy[1]:.2%}"
        )
    click.echo("median time a photo         {:.0f} ms  {:.0f} ms".format(*result["milliseconds"]))
    click.echo("95 % of them within         {:.0f} ms  {:.0f} ms".format(*result["slowest"]))
    differing = result["differing"]
    if differing:
        click.echo(f"{len(differing)} photos with another top class")
    for each in differing[:show]:
        ours, theirs = (
            f"{name} {share:.1%}"
            for name, share in zip(each["names"], each["probabilities"], strict=True)
        )
        right = f"  (is {each['right']})" if each["right"] else ""
        click.echo(f"  {each['photo'].relative_to(data)}: {ours} | {theirs}{right}")
    if len(differing) > show:
        click.echo(f"  and {len(differing) - show} more; --show {len(differing)} lists all")
    if json_file is not None:
        write_json({"model": model_dir, "versions": [first, second], **result}, json_file)
