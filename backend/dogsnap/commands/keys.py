"""`dogsnap keys`: adds, lists and removes API keys in a file, which a running
server reloads.
"""

from pathlib import Path

import click

from dogsnap.commands.helpers.arguments import option
from dogsnap.server.middleware import api_keys as key_file
from dogsnap.settings import variable

FILE = option(
    "--file",
    "file with the keys, as given to `dogsnap serve --api-keys`",
    click.Path(dir_okay=False, path_type=Path),
    envvar=variable("api_keys"),
    default=Path("keys.json"),
)


@click.group()
def keys() -> None:
    """Add, list and remove the API keys of `dogsnap serve --api-keys FILE`."""


@keys.command()
@FILE
@click.argument("name")
def add(file: Path, name: str) -> None:
    """Add a key called NAME and print it; only its hash is stored, so it cannot
    be shown again.
    """
    if not file.parent.is_dir():
        raise click.ClickException(
            f"there is no folder {file.parent}; make it, or name another file with --file"
        )
    click.echo(key_file.add(file, name))


@keys.command("list")
@FILE
def list_keys(file: Path) -> None:
    """Print the name and the creation time of each key."""
    _refuse_missing(file)
    for key in key_file.read(file):
        click.echo(f"{key.name}\t{key.created}")


@keys.command()
@FILE
@click.argument("name")
def remove(file: Path, name: str) -> None:
    """Remove the key called NAME; it is refused at once."""
    _refuse_missing(file)
    key_file.remove(file, name)


def _refuse_missing(file: Path) -> None:
    if not file.exists():
        raise click.ClickException(
            f"there is no key file {file}; name it with --file, or make one with "
            "`dogsnap keys add NAME`"
        )
