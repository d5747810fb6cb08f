"""Runs a command in this process, and judges how it ended."""

from click.testing import CliRunner, Result

from backend.cli import main


def dogsnap(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environ)


def output_of(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result, words: str) -> None:
    """It ended with a sentence that holds `words`, in place of a stack trace."""
    assert result.exit_code == (2 if "Usage: " in result.output else 1), result.output
    assert words in result.output
    assert "Traceback" not in result.output


def refusal_of(*arguments: object, status: int = 1) -> str:
    """What a command says that ends with this status."""
    done = dogsnap(*arguments)
    assert (done.exit_code, "Traceback" in done.output) == (status, False), done.output
    return done.output
