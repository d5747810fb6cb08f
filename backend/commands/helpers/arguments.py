"""Options and path types that several commands share."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import click

from backend.settings import variable

PATH = click.Path(path_type=Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

list_option = click.option(
    "--list",
    "list_name",
    default="test_list",
    show_default=True,
    help="the list in DATA that names the photos; without that file: every photo of DATA",
)
json_option = click.option("--json", "json_file", type=PATH, help="write every figure to this file, too")
precision_option = click.option(
    "--precision",
    type=click.Choice(["auto", "float32", "mixed_bfloat16"]),
    default="auto",
    show_default=True,
    help="what to compute in; auto: the fastest that this machine has",
)


def _with_matplotlib(context: click.Context, option: click.Parameter, file: Path | None) -> Path | None:
    if file and importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException("--picture needs Matplotlib: install it with `make setup EXTRAS=plots`")
    return file


def picture_option(what: str) -> Callable:
    """`--picture FILE`, which is refused before anything is measured if it cannot be drawn."""
    return click.option("--picture", type=PATH, callback=_with_matplotlib, help=what)


def _checked_key(context: click.Context, option: click.Parameter, key: str) -> str:
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise click.BadParameter("expected a key as `dogsnap keys add` prints it: ASCII characters without spaces")
    return key


key_option = click.option(
    "--key",
    default="",
    envvar=variable("key"),
    callback=_checked_key,
    help=f"an API key for the server at --url, if it wants one  [{variable('key')}]",
)


def key_headers(key: str) -> dict[str, str]:
    """How a request carries an API key; "" for none."""
    return {"X-Api-Key": key} if key else {}


def class_names(file: Path | None) -> list[str]:
    """The names in a file of one a line, or in labels.json; none without a file."""
    if file is None:
        return []
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return [label["name"] if isinstance(label, dict) else str(label) for label in json.loads(text)]
    return text.splitlines()
