"""`dogsnap compare`: how far two versions agree on photos or requests, and
whether the second is worse.
"""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from dogsnap.commands.helpers.answer_text import TEXTS
from dogsnap.commands.helpers.arguments import (
    AT_LEAST_ONE,
    EXISTING_FILE,
    PATH,
    json_option,
    list_option,
    named_list,
    option,
)
from dogsnap.commands.helpers.json_instances import read_instances
from dogsnap.files import write_json


@click.command()
@click.argument("first")
@click.argument("second")
@option(
    "--data",
    "folder of photos or CSV table, as of `dogsnap evaluate`; photos without a known "
    "class count for the agreement",
    PATH,
)
@option(
    "--requests",
    "instead of DATA: a file with one JSON instance per line, as of `dogsnap predict "
    "--json-instances`; outputs are compared",
    EXISTING_FILE,
)
@option("--signature-name", "compare the outputs of this signature, on requests or photos")
@option(
    "--tolerance",
    "of the numbers in outputs, as a share and absolute; whole numbers have to be equal",
    click.FloatRange(min=0),
    default=0.01,
)
@option(
    "--min-agreement",
    "end with 1 unless so many answers agree, such as 0.99",
    click.FloatRange(0, 1),
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
    data: Path | None,
    list_name: str,
    photos: int | None,
    model_dir: Path,
    max_drop: float | None,
    min_agreement: float | None,
    **outputs: Any,
) -> None:
    """Compare versions FIRST and SECOND, numbers of a model or version folders,
    on photos or requests.

    Of versions that name classes, reports agreement, difference of the
    probabilities, accuracy on the classes that both have, and time; lists the
    photos with different top classes. Of all others, the agreement of each output:
    numbers by their difference, texts by equality, detections by matched boxes.
    """
    folders = [_version_folder(version, model_dir) for version in (first, second)]
    of_model = f" of {model_dir}" if first.isdigit() and second.isdigit() else ""
    names = f"versions {first} and {second}{of_model}"
    if (data is None) == (outputs["requests"] is None):
        raise click.UsageError("expected one of --data and --requests")
    if data is None or outputs["signature_name"] or not _name_classes(folders):
        if max_drop is not None or outputs["page"]:
            raise click.UsageError(
                "--max-drop and --page are for photos and versions that name classes; expected "
                "--min-agreement"
            )
        result = _compare_outputs(folders, data, photos, outputs)
        text = TEXTS.get_template("outputs.txt").render(result, show=outputs["show"])
        click.echo(f"{names} on {result['requests']} requests\n{text}", nl=False)
        if outputs["json_file"]:
            write_json({"versions": [first, second], **result}, outputs["json_file"])
        _check_agreement(result, min_agreement)
        return
    from dogsnap.commands.helpers import comparison_page

    limit = photos or (500 if max_drop is None else None)
    result = _compare_classes(folders, data, named_list(data, list_name), limit)
    title = f"{names} on {result['photos']} photos of {data}"
    text = TEXTS.get_template("comparison.txt").render(result, names=(first, second))
    summary = text.removesuffix("\n")
    click.echo(f"{title}\n{summary}")
    click.echo(TEXTS.get_template("differing.txt").render(result, show=outputs["show"]), nl=False)
    if outputs["page"]:
        columns = [f"version {version}" for version in (first, second)]
        comparison_page.write_page(title, columns, summary, result["differing"], outputs["page"])
        click.echo(f"wrote {outputs['page']}")
    if outputs["json_file"]:
        pair = [int(version) if version.isdigit() else version for version in (first, second)]
        write_json({"model": model_dir, "versions": pair, **result}, outputs["json_file"])
    _check_agreement(result, min_agreement)
    if max_drop is not None:
        _check_drop(result, max_drop / 100, folders)


def _version_folder(version: str, model_dir: Path) -> Path:
    """A version of the model by its number, or any version folder by its path."""
    return model_dir / version if version.isdigit() else Path(version)


def _name_classes(folders: list[Path]) -> bool:
    """Whether all that are versions name classes."""
    from dogsnap.serving.versions import saved_model_file
    from dogsnap.serving.versions.description import Description

    versions = [folder for folder in folders if saved_model_file.find(folder)]
    return all(Description.read(folder).labels for folder in versions)


def _compare_classes(
    folders: list[Path], data: Path, listed: str | None, limit: int | None
) -> dict[str, Any]:
    """`listed`: the list of photos, None for all; `limit`: at most so many."""
    from dogsnap.training.evaluation import agreement, labelled_photos
    from dogsnap.training.evaluation.exported_version import ExportedVersion

    first, second = map(ExportedVersion.load, folders)
    labels = agreement.joined_labels(first.labels, second.labels)
    independent = first.is_independent or second.is_independent
    found = labelled_photos.find_examples(data, listed, labels, click.echo, independent)
    examples = labelled_photos.spread(found, limit)
    with click.progressbar(length=len(examples), label=f"{len(examples)} photos") as bar:
        return agreement.compare(first, second, examples, click.echo, lambda: bar.update(1))


def _compare_outputs(
    folders: list[Path], data: Path | None, photos: int | None, outputs: Mapping[str, Any]
) -> dict[str, Any]:
    from dogsnap import local_model
    from dogsnap.serving.inference.request_kinds import Values
    from dogsnap.serving.tensors import json_tensors
    from dogsnap.training import dataset
    from dogsnap.training.evaluation import output_comparison

    signature = outputs["signature_name"] or ""
    requests: dict[str, output_comparison.MakeWork] = {}
    if data is None:
        instances = read_instances(outputs["requests"])
        for line, value in zip(instances.lines, instances.values, strict=True):
            body = {"instances": [value], "signature_name": signature}
            requests[f"line {line}"] = partial(
                Values, partial(json_tensors.from_body, body), signature
            )
    else:
        found = dataset.photos_below(data)
        step = math.ceil(len(found) / (photos or len(found)))
        for photo in found[::step]:
            requests[str(photo)] = partial(_photo_work, photo, signature)
    with (
        local_model.load(folders[0]) as first,
        local_model.load(folders[1]) as second,
        click.progressbar(length=len(requests), label=f"{len(requests)} requests") as bar,
    ):
        return output_comparison.compare(
            (first, second), requests, outputs["tolerance"], click.echo, lambda: bar.update(1)
        )


def _photo_work(photo: Path, signature: str) -> Any:
    from dogsnap.serving.inference.request_kinds import Photos

    return Photos([photo.read_bytes()], signature)


def _check_agreement(result: Mapping[str, Any], least: float | None) -> None:
    """Raises click.ClickException unless so many answers agree."""
    if least is None:
        return
    agreement = result["agreement"]
    if agreement < least:
        raise click.ClickException(
            f"{agreement:.2%} of the answers agree, --min-agreement is {least:g}"
        )
    click.echo(f"{agreement:.2%} of the answers agree: within --min-agreement {least:g}")


def _check_drop(result: Mapping[str, Any], most: float, folders: list[Path]) -> None:
    """Raises click.ClickException unless the second version is at most so much worse."""
    from dogsnap.training.evaluation.agreement import is_same_version
    from dogsnap.training.evaluation.paired_tests import photos_needed

    if not result["labelled"]:
        raise click.ClickException("--max-drop needs photos of classes that both versions have")
    bound = 0.0 if is_same_version(*folders) else result["drop_bound"]
    if bound > most:
        needed = photos_needed(most)
        more = f"; at least {needed} photos can show that" if result["labelled"] < needed else ""
        raise click.ClickException(
            f"the second version may be {100 * bound:.2f} points worse than the first "
            f"(95 %), --max-drop is {100 * most:g}{more}"
        )
    click.echo(f"at most {100 * bound:.2f} points worse (95 %): within --max-drop {100 * most:g}")
