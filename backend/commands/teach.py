"""`dogsnap teach`: a version that knows a breed more, from some photos of it."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import click

from backend.commands.helpers.arguments import EXISTING_FILE, PATH, refuse_unwritable

Result = TypeVar("Result")


@click.command()
@click.argument("source", metavar="VERSION_DIR", type=PATH)
@click.argument("photos", nargs=-1, required=True, type=PATH)
@click.option(
    "--name", help="name of the breed; without it each folder in the folder PHOTOS is a breed, named as the folder"
)
@click.option("--name-zh", default="", help="its Chinese name  [default: the name]")
@click.option(
    "--facts",
    "facts_file",
    type=EXISTING_FILE,
    help="facts for the app: JSON in the form of an entry of models/breeds.json; for several breeds a list with their names",
)
@click.option("--replace", is_flag=True, help="teach a breed anew that VERSION_DIR was taught before")
@click.option(
    "--from",
    "artefacts",
    type=PATH,
    help="folder with the weights of the version  [default: the folder VERSION_DIR is in]",
)
@click.option("--dry-run", is_flag=True, help="only say what to expect")
def teach(**arguments: Any) -> None:
    """Write the next versions of a model, which know one breed more or several, from PHOTOS (at least five; twenty are good).

    PHOTOS are photo files or folders of them. VERSION_DIR, like models/inception_v3/2, stays as it is.
    """
    source: Path = arguments["source"]
    if not arguments["dry_run"]:
        refuse_unwritable(source.resolve().parent)
        click.echo(what_will_answer(source))
    first = in_own_process(_write_first, **arguments)
    if first is None:
        return
    from backend.export.freezing import FreezingError, Source
    from backend.export.merging.merge import MergeError, merge_all

    try:
        written = [first, *merge_all(Source(first), click.echo)]
    except (MergeError, FreezingError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for folder in written:
        click.echo(f"wrote {folder}")
    click.echo(how_to_go_back(source, written[-1]))


def what_will_answer(source: Path) -> str:
    """Said before the work: a server that runs answers by the new version unless its default is chosen."""
    model, kept = source.resolve().parent.name, source.resolve().name
    return (
        f"The new versions get the next numbers of {model}. A server that watches this folder answers the app by the "
        f"largest one as soon as it is loaded, unless a default is chosen: "
        f"`dogsnap models default {kept} --model {model}` keeps version {kept}."
    )


def how_to_go_back(source: Path, newest: Path) -> str:
    """Said at the end: what answers now and under which name, and how to choose."""
    model, kept = source.resolve().parent.name, source.resolve().name
    return (
        f"{model} version {newest.name} answers requests that name no version, where no default is chosen. "
        f"Version {kept}, without what was taught: `dogsnap models default {kept} --model {model}`; this one: "
        f"`dogsnap models default {newest.name} --model {model}`."
    )


def in_own_process(work: Callable[..., Result], **arguments: object) -> Result:
    """The result of `work` in a process that then ends: TensorFlow frees the memory of the network in no other way."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            return process.submit(work, **arguments).result()
    except BrokenProcessPool:
        raise click.ClickException(
            "the process that teaches was killed, perhaps for want of memory (it takes about 2 GiB); nothing is written"
        ) from None


def _write_first(
    source: Path,
    photos: tuple[Path, ...],
    name: str | None,
    name_zh: str,
    facts_file: Path | None,
    replace: bool,
    artefacts: Path | None,
    dry_run: bool,
) -> Path | None:
    """Teach, and write the version that takes image tensors; None for a dry run."""
    from backend.export import teaching
    from backend.export.freezing import FreezingError
    from backend.export.saved_model import ExportError
    from backend.training.class_statistics import StatisticsError

    try:
        breeds = _breeds(name, name_zh, photos, facts_file)
        teacher = teaching.Teacher(source, artefacts or source.resolve().parent)
        for breed in breeds:
            click.echo(f"{breed.name}: {teacher.teach(breed, replace, click.echo)}")
        return None if dry_run else teacher.write(click.echo)
    except (teaching.TeachingError, StatisticsError, ExportError, FreezingError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _breeds(name: str | None, name_zh: str, photos: tuple[Path, ...], facts_file: Path | None) -> list:
    from backend.export import teaching

    facts = teaching.read_facts(facts_file) if facts_file else []
    if name is None:
        if len(photos) != 1 or not photos[0].is_dir() or not any(path.is_dir() for path in photos[0].iterdir()):
            raise click.UsageError(
                "Missing option '--name'; without it, PHOTOS is one folder with a folder for each breed."
            )
        return teaching.breeds_in(photos[0], {each.get("name", ""): each for each in facts})
    if len(facts) > 1:
        raise click.UsageError(f"--facts holds {len(facts)} breeds; with --name it holds one")
    known = facts[0] if facts else {}
    return [
        teaching.NewBreed(
            name, teaching.photos_in(photos), name_zh or known.get("name_zh", ""), teaching.without_names(known)
        )
    ]
