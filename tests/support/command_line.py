"""Runs a command in this process."""

from click.testing import CliRunner, Result

from backend.cli import main


def dogsnap(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])
