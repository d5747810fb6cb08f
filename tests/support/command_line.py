"""Runs a command in this process."""

from click.testing import CliRunner, Result

from backend.cli import main


def dogsnap(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environ)


def refused(*arguments: object, status: int = 1) -> str:
    """What a command says that ends with this status."""
    done = dogsnap(*arguments)
    assert (done.exit_code, "Traceback" in done.output) == (status, False), done.output
    return done.output
