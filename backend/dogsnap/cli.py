"""The command `dogsnap`: imports a subcommand's module from `commands/` when it
is called.
"""

import csv
import importlib
import sys
from io import TextIOWrapper
from typing import Any

import click

from dogsnap.errors import DogsnapError

# Command -> its line in `dogsnap --help`. Module, function and command have the same name.
COMMANDS = {
    "serve": "serve the models over HTTP and gRPC, and the app",
    "model-server": "serve models by the flags of tensorflow_model_server",
    "predict": "name the breed in a photo, without a server or from one",
    "train": "train a network on own classes, from a folder of photos",
    "evaluate": "measure an exported version on photos it was not trained on",
    "export": "build a version from the stored weights",
    "quantize": "write a version in int8, if it is faster and answers alike",
    "merge": "make a version that takes photos from one that takes image tensors",
    "teach": "make versions that know a new breed, from some photos of it",
    "console": "open the console of a running server",
    "models": "list and switch the versions of a running server",
    "compare": "measure how far two versions agree on photos",
    "deploy": "serve the versions on a cluster",
    "keys": "add, list and remove API keys",
    "show": "print the signatures of a SavedModel, and its nodes",
}
# Commands of releases before, which say what has taken their place.
WITHDRAWN = ("calibrate",)
# Commands that check what they are given by themselves: errors of Python are faults of
# the server, and keep their traceback.
WITH_TRACEBACK = ("serve", "model-server")


class LazyGroup(click.Group):
    """Imports a command's module only when it runs: `dogsnap serve` never loads
    the training code.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command.

        Raises click.ClickException for what cannot be done; other errors are
        ours and keep their traceback.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # what reads the output has seen enough: click ends without a word
            raise
        except (DogsnapError, OSError, ValueError, RecursionError, csv.Error) as error:
            if ctx.invoked_subcommand in WITH_TRACEBACK and not isinstance(error, DogsnapError):
                raise
            raise click.ClickException(str(error).partition("\n")[0]) from error
        except Exception as error:
            if "Symlink loop" in str(error):  # of Path.resolve, an OSError from Python 3.13 on
                raise click.ClickException(f"{error}: that link leads to itself") from error
            of_graph = type(error).__module__.startswith("tensorflow.")
            if ctx.invoked_subcommand in WITH_TRACEBACK or not of_graph:
                raise
            from dogsnap.serving.versions.servable import kernel_sentence

            raise click.ClickException(kernel_sentence(str(error))) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in WITHDRAWN:
            return getattr(importlib.import_module("dogsnap.commands.withdrawn"), name)
        if name not in COMMANDS:
            return None
        module = name.replace("-", "_")
        return getattr(importlib.import_module(f"dogsnap.commands.{module}"), module)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand:
            # click suggests from the imported commands, of which there are none.
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup)
@click.version_option(package_name="dogsnap")
def main() -> None:
    """Tells a dog's breed from a photo, and serves the model behind it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files that are no UTF-8
