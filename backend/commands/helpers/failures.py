"""Commands whose failures are one sentence."""

from typing import Any

import click

from backend.errors import DogsnapError


class _InASentence:
    def invoke(self, context: click.Context) -> Any:
        """Run it. Raises click.ClickException for what cannot be done; other errors are ours and keep their traceback."""
        try:
            return super().invoke(context)
        except BrokenPipeError:  # what reads the output has seen enough: click ends without a word
            raise
        except (DogsnapError, OSError, ValueError) as error:
            raise click.ClickException(str(error).partition("\n")[0]) from error


class Command(_InASentence, click.Command):
    """One command."""


class Group(_InASentence, click.Group):
    """A command with further ones."""
