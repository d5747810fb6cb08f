"""How commands declare their options, and the options and path types that several share."""

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

PATH = click.Path(path_type=Path)
AT_LEAST_ONE = click.IntRange(min=1)
WORDNET_LABEL = re.compile(r"(?P<id>n\d{8})[\s:-]+(?P<name>.+)")
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def option(flag: str, text: str, kind: Any = None, *, name: str = "", **more: Any) -> Callable:
    """An option of click whose help is `text`, with the default if there is one; `name`: of the argument, if not the flag's."""
    shown = more.get("default") not in (None, "")
    return click.option(
        flag, *filter(None, [name]), type=kind, help=text, show_default=shown, **more
    )


list_option = option(
    "--list",
    "the list in DATA that names the photos; without that file: every photo of DATA",
    name="list_name",
    default="test_list",
)


def named_list(data: Path, list_name: str) -> str | None:
    """The list of photos to read: one that is named must exist; without the default one, all photos of the folder are used."""
    source = click.get_current_context().get_parameter_source("list_name")
    is_named = source is ParameterSource.COMMANDLINE
    return list_name if is_named or (data / f"{list_name}.txt").is_file() else None


precision_option = option(
    "--precision",
    "what to compute in; auto: the fastest that this machine has",
    click.Choice(["auto", "float32", "mixed_bfloat16"]),
    default="auto",
)


def _writable(context: click.Context, option: click.Parameter, file: Path | None) -> Path | None:
    if file:
        refuse_unwritable(file.parent)
    return file


json_option = option(
    "--json", "write every figure to this file, too", PATH, name="json_file", callback=_writable
)


def class_labels(file: Path | None, of_breeds: bool = True) -> list[dict[str, str]]:
    """The classes in a file, each {"id", "name"} and what else labels.json says; none without a file.

    A line is a name, id:name, or an id of WordNet and a name ("n02085620 Chihuahua", "n02085620-Chihuahua"). Raises
    click.ClickException for a line without a name, or for a duplicate id `of_breeds`: ImageNet has two cranes.
    """
    if file is None:
        return []
    labels = _json_labels(file) if file.suffix == ".json" else _text_labels(file)
    if not labels:
        raise click.ClickException(
            f"{file} holds no class; expected a name a line, id:name, or a list as JSON"
        )
    ids = [label["id"] for label in labels]
    for number, label in enumerate(labels, start=1):
        if not label["name"]:
            raise click.ClickException(
                f"{file}: class {number} has no name; expected one a line, or id:name"
            )
        times = ids.count(label["id"])
        if of_breeds and times > 1:
            raise click.ClickException(
                f"{file}: {label['id']} is there {times} times; expected it once"
            )
    return labels


def _text_labels(file: Path) -> list[dict[str, str]]:
    lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").rstrip().splitlines()]
    of_wordnet = [WORDNET_LABEL.fullmatch(line) for line in lines]
    if all(of_wordnet):
        return [{"id": each["id"], "name": each["name"]} for each in of_wordnet]
    if all(":" in line for line in lines):
        return [
            {"id": id_.strip(), "name": name.strip()}
            for id_, _, name in (line.partition(":") for line in lines)
        ]
    return [{"id": line, "name": line} for line in lines]


def _json_labels(file: Path) -> list[dict[str, str]]:
    try:
        labels = json.loads(file.read_text(encoding="utf-8-sig"))
        named = [label if isinstance(label, dict) else {"name": str(label)} for label in labels]
        return [{"id": label["name"], **label} for label in named]
    except (KeyError, TypeError, ValueError) as error:
        raise click.ClickException(
            f'{file}: expected a list of names, or of {{"id", "name"}}, as JSON: {error!r}'
        ) from None


def refuse_unwritable(folder: Path) -> None:
    """For commands that work long before they write. Raises click.ClickException."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise click.ClickException(
            f"{folder} cannot be written to: {error.strerror}; nothing is done"
        ) from None
