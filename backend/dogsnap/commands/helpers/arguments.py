"""How commands declare their options, and the options and path types that several share."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dogsnap.settings import Decorated

PATH = click.Path(path_type=Path)
AT_LEAST_ONE = click.IntRange(min=1)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def option(
    flag: str, text: str, kind: Any = None, *, name: str = "", **more: Any
) -> Callable[[Decorated], Decorated]:
    """An option of click whose help is `text`, with the default if there is
    one; `name`: of the argument, if not the flag's.
    """
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
    """The list of photos to read: one that is named must exist; without the
    default one, all photos of the folder are used.
    """
    source = click.get_current_context().get_parameter_source("list_name")
    is_named = source is ParameterSource.COMMANDLINE
    return list_name if is_named or (data / f"{list_name}.txt").is_file() else None


def _writable(context: click.Context, option: click.Parameter, file: Path | None) -> Path | None:
    if file:
        refuse_unwritable(file.parent)
    return file


json_option = option(
    "--json", "write every figure to this file, too", PATH, name="json_file", callback=_writable
)


def refuse_unwritable(folder: Path) -> None:
    """For commands that work long before they write. Raises click.ClickException."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise click.ClickException(
            f"{folder} cannot be written to: {error.strerror}; nothing is done"
        ) from None
