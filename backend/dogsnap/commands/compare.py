"""`dogsnap compare`: how far two versions agree on photos, and whether the
second is worse.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dogsnap.commands.helpers.answer_text import TEXTS
from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    PATH,
    json_option,
    list_option,
    named_list,
    option,
)
from dogsnap.files import write_json


@click.command()
@click.argument("first")
@click.argument("second")
@option(
    "--data",
    "folder of photos or CSV table, as of `dogsnap evaluate`; photos without a known "
    "class count for the agreement",
    PATH,
    required=True,
)
@list_option
@option(
    "--photos",
    "at most this many photos, evenly spread  [default: all, without --max-drop 500]",
    AT_LEAST_ONE,
)
@option(
    "--model",
    "folder with the versions",
    PATH,
    name="model_dir",
    default=Path("models/inception_v3"),
)
@option("--show", "list at most this many differing photos", click.IntRange(min=0), default=20)
@option(
    "--max-drop",
    "end with 1 unless SECOND is right on at most this many points (of 100) less than "
    "FIRST, by a one-sided bound of 95 %",
    click.FloatRange(min=0, min_open=True, max=100),
)
@option(
    "--page", "write the differing photos to this file, an HTML page with the pictures in it", PATH
)
@json_option
def compare(
    first: str,
    second: str,
    data: Path,
    list_name: str,
    photos: int | None,
    model_dir: Path,
    max_drop: float | None,
    **outputs: Any,
) -> None:
    """Compare versions FIRST and SECOND, numbers of a model or version folders,
    on photos.

    Reports agreement, difference of the probabilities, accuracy on the classes
    that both have, and time; lists the photos with different top classes.
    """
    from dogsnap.training.evaluation import agreement, comparison_page, labelled_photos
    from dogsnap.training.evaluation.exported_version import ExportedVersion

    folders = [_version_folder(version, model_dir) for version in (first, second)]
    versions = ExportedVersion.load(folders[0]), ExportedVersion.load(folders[1])
    labels = agreement.joined_labels(versions[0].labels, versions[1].labels)
    found = labelled_photos.find_examples(data, named_list(data, list_name), labels, click.echo)
    limit = photos or (500 if max_drop is None else None)
    examples = labelled_photos.spread(found, limit)
    with click.progressbar(length=len(examples), label=f"{len(examples)} photos") as bar:
        result = agreement.compare(*versions, examples, click.echo, lambda: bar.update(1))
    of_model = f" of {model_dir}" if first.isdigit() and second.isdigit() else ""
    title = f"versions {first} and {second}{of_model} on {result['photos']} photos of {data}"
    text = TEXTS.get_template("comparison.txt").render(result, names=(first, second))
    summary = text.removesuffix("\n")
    click.echo(f"{title}\n{summary}")
    click.echo(TEXTS.get_template("differing.txt").render(result, show=outputs["show"]), nl=False)
    if outputs["page"]:
        names = [f"version {version}" for version in (first, second)]
        comparison_page.write_page(title, names, summary, result["differing"], outputs["page"])
        click.echo(f"wrote {outputs['page']}")
    if outputs["json_file"]:
        pair = [int(version) if version.isdigit() else version for version in (first, second)]
        write_json({"model": model_dir, "versions": pair, **result}, outputs["json_file"])
    if max_drop is not None:
        is_same = agreement.is_same_version(*folders)
        _check_drop(result, max_drop / 100, is_same)


def _version_folder(version: str, model_dir: Path) -> Path:
    """A version of the model by its number, or any version folder by its path."""
    return model_dir / version if version.isdigit() else Path(version)


def _check_drop(result: Mapping[str, Any], most: float, is_same: bool) -> None:
    """Raises click.ClickException unless the second version is at most so much worse."""
    from dogsnap.training.evaluation.paired_tests import photos_needed

    if not result["labelled"]:
        raise click.ClickException("--max-drop needs photos of classes that both versions have")
    bound = 0.0 if is_same else result["drop_bound"]
    if bound > most:
        needed = photos_needed(most)
        more = f"; at least {needed} photos can show that" if result["labelled"] < needed else ""
        raise click.ClickException(
            f"the second version may be {100 * bound:.2f} points worse than the first "
            f"(95 %), --max-drop is {100 * most:g}{more}"
        )
    click.echo(f"at most {100 * bound:.2f} points worse (95 %): within --max-drop {100 * most:g}")
