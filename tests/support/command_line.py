"""Runs a command in this process, and judges how it ended."""

from click.testing import CliRunner, Result
from dogsnap.cli import main


def dogsnap(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environ)


def lab(*arguments: object) -> Result:
    from lab.__main__ import main  # which loads TensorFlow

    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def output_of(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result, words: str = "") -> str:
    """It ended with a sentence that holds `words`, instead of a stack trace; all that it says."""
    assert result.exit_code == (2 if "Usage: " in result.output else 1), result.output
    assert words in result.output
    assert "Traceback" not in result.output
    return result.output
