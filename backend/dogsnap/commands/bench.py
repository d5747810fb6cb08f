"""`dogsnap bench`: measures this server against its targets."""

import signal
import sys
from pathlib import Path

import click
from bench import report
from bench.candidates import Bench
from bench.machine import describe
from bench.targets import PARTS, measure

from dogsnap.commands.helpers.arguments import AT_LEAST_ONE, FOLDER, option


@click.command()
@option("--seconds", "length of one round", click.FloatRange(min=0.05), default=3.0)
@option("--rounds", "number of rounds, whose median counts", AT_LEAST_ONE, default=3)
@option("--models", "folder with the model", FOLDER, default=Path("models"))
@option("--only", "only these parts, e.g. start,latency; see below", default="")
@option(
    "--save", "save the results in this file (JSON)", click.Path(dir_okay=False, path_type=Path)
)
def bench(seconds: float, rounds: int, models: Path, only: str, save: Path | None) -> None:
    """Start this server and measure it against its targets.

    Parts: start, memory, throughput, fast (version 3), latency, overload.
    """
    chosen = parts(only)
    machine = describe()
    signal.signal(
        signal.SIGTERM, lambda number, _: sys.exit(128 + number)
    )  # so that the started servers end, too
    with Bench(models, seconds, rounds, lambda line: click.echo(line, err=True)) as measuring:
        bars = measure(measuring, chosen)
    for line in report.lines(machine, bars):
        click.echo(line)
    if save:
        report.save(save, machine, bars)


def parts(text: str) -> list[str]:
    """Raises click.UsageError for an unknown part."""
    chosen = text.split(",") if text else list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        raise click.UsageError(
            f"--only names {', '.join(unknown)}; expected some of {', '.join(PARTS)}"
        )
    return chosen
