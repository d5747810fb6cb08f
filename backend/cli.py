"""The command `dogsnap`: one file per command in `commands/`, imported when it is called.

It does no work of its own.
"""

import importlib

import click

# Command -> the module in backend/commands that defines it under the same name, and its one line in `dogsnap --help`.
COMMANDS = {
    "serve": ("serve", "serve the models over HTTP and gRPC, and the app at /"),
    "predict": ("predict", "name the breed in a photo, without a server"),
}


class LazyGroup(click.Group):
    """Imports a command's module only when that command runs: `dogsnap serve` never loads what trains."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"backend.commands.{COMMANDS[name][0]}")
        return getattr(module, name.replace("-", "_"))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup)
@click.version_option(package_name="dogsnap")
def main() -> None:
    """Tells a dog's breed from a photo, and serves the model behind it."""
