"""`dogsnap teach`: a version that knows a breed more, from some photos of it."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from dogsnap.commands.helpers.arguments import EXISTING_FILE, PATH, option, refuse_unwritable
from dogsnap.commands.helpers.own_process import beside

if TYPE_CHECKING:  # imports TensorFlow
    from dogsnap.training.teaching import NewBreed


@click.command()
@click.argument("source", metavar="VERSION_DIR", type=PATH)
@click.argument("photos", nargs=-1, required=True, type=PATH)
@option(
    "--name",
    "name of the breed; without it each folder in the first of the folders PHOTOS is a "
    "breed, named as the folder",
)
@option("--name-zh", "its Chinese name  [default: the name]", default="")
@option(
    "--facts",
    "facts for the app: JSON in the form of an entry of models/breeds.json; for several "
    "breeds a list with their names",
    EXISTING_FILE,
    name="facts_file",
)
@option("--replace", "teach a breed anew that VERSION_DIR was taught before", is_flag=True)
@option(
    "--from",
    "folder with the weights of the version  [default: the folder VERSION_DIR is in]",
    PATH,
    name="artefacts",
)
@option(
    "--known",
    "folder of photos of other breeds, in the layout of Stanford Dogs or with an "
    "index.tsv; with them, new breeds take less "
    "from the known ones",
    PATH,
    multiple=True,
)
@option(
    "--keep",
    "write no version, but what is taught beside the weights: `dogsnap export` then "
    "builds the version that answers the "
    "app with it",
    is_flag=True,
)
@option("--dry-run", "only say what to expect", is_flag=True)
def teach(source: Path, dry_run: bool, keep: bool, **arguments: Any) -> None:
    """Write the next versions of a model, which know one breed more or several,
    from PHOTOS (at least eight; twenty are good).

    PHOTOS are photo files or folders of them. VERSION_DIR, like
    models/inception_v3/2, stays as it is.
    """
    from dogsnap.serving.versions.version_folders import model_folder_of

    model_folder = model_folder_of(source)
    if not dry_run:
        refuse_unwritable(model_folder)
        click.echo(
            f"The new versions get the next numbers of {model_folder.name}. A running "
            "server answers as before until one of "
            "them is chosen, unless its version policy is `latest`."
        )
    try:
        where = None if dry_run else model_folder  # which may be read-only then
        with TemporaryDirectory(prefix=".writing-", dir=where) as temporary:
            place = None if dry_run or keep else Path(temporary)
            keeps = keep and not dry_run
            with beside(
                _write_first, temporary=place, source=source, keep=keeps, **arguments
            ) as writing:
                first = writing.result()
            names = []
            if first:
                from dogsnap.exporting.freezing import Source
                from dogsnap.exporting.merging.merge import merge_all
                from dogsnap.exporting.publication import publish_together

                names = [version.name for version in (first, *merge_all(Source(first), click.echo))]
                publish_together(first.parent, model_folder)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{error}; nothing is written") from error
    for name in names:
        click.echo(f"wrote {model_folder / name}")
    if names:
        choose = f"`dogsnap models default {{}} --model {model_folder.name}`"
        click.echo(
            f"{model_folder.name} version {names[-1]} knows what was taught, and "
            "answers who names it. To let it answer the app: "
            f"{choose.format(names[-1])}; to go back: {choose.format(Path(os.path.abspath(source)).name)}."
        )


def _write_first(
    temporary: Path | None,
    source: Path,
    photos: tuple[Path, ...],
    replace: bool,
    artefacts: Path | None,
    known: Sequence[Path],
    keep: bool,
    **named: Any,
) -> Path | None:
    """Teach, and write the version that takes image tensors to a folder in
    `temporary`; without one nothing.
    """
    from dogsnap.exporting.publication import make_staging_folder
    from dogsnap.serving.versions.version_folders import model_folder_of
    from dogsnap.training import teaching

    breeds = _breeds(photos=photos, **named)
    model_folder = model_folder_of(source)
    stored = artefacts or model_folder
    teacher = teaching.Teacher(source, stored)
    shown = teaching.known_photos(known, breeds, teacher.stored.description["recipe"])
    more = teacher.features_of_known(shown, click.echo) if shown else None
    taught = teacher.teach(breeds, replace, click.echo, more)
    for breed, expected in zip(breeds, taught.expected, strict=True):
        click.echo(f"{breed.name}: {expected}")
    if keep:
        click.echo(
            f"wrote {teacher.keep(stored)}; now: dogsnap export {Path(os.path.abspath(stored)).name} "
            "--merged --renew"
        )
    if temporary is None:
        return None
    return teacher.write(make_staging_folder(temporary, model_folder), click.echo)


def _breeds(
    name: str | None, name_zh: str, photos: tuple[Path, ...], facts_file: Path | None
) -> "list[NewBreed]":
    from dogsnap.training import teaching

    facts = teaching.read_facts(facts_file) if facts_file else []
    if name is None:
        if not all(folder.is_dir() and teaching.holds_breeds(folder) for folder in photos):
            raise click.UsageError(
                "Missing option '--name'; without it, PHOTOS are folders with a folder "
                "for each breed."
            )
        by_name = {each.get("name", ""): each for each in facts}
        return teaching.breeds_in(photos, by_name, report=click.echo)
    if len(facts) > 1:
        raise click.UsageError(f"--facts holds {len(facts)} breeds; with --name it holds one")
    known = facts[0] if facts else {}
    return [
        teaching.NewBreed(
            name,
            teaching.photos_in(photos, click.echo),
            name_zh or known.get("name_zh", ""),
            teaching.without_names(known),
        )
    ]
