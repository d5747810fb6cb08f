"""`dogsnap bench`: measures the server at --url, or without it this server against its targets."""

import signal
import sys
from pathlib import Path
from typing import Any

import click

from backend.bench import photos as photo_files
from backend.bench.candidates import Bench
from backend.bench.machine import describe
from backend.bench.remote import asked, find, sweep
from backend.bench.report import Report
from backend.bench.targets import PARTS, measure
from backend.commands.helpers.arguments import AT_LEAST_ONE, FOLDER, key_headers, key_option, option

FILE = click.Path(dir_okay=False, path_type=Path)
CLIENTS, BATCHES = "1,4,16,64", "1,8,32"
WARM_UP_SECONDS = 1.0


@click.command()
@option(
    "--url",
    "a server with TensorFlow Serving's REST API; without it, this server is started and measured against its targets",
    default="",
)
@key_option
@option("--model", "model at --url", default="inception_v3")
@option("--version", "version of that model; otherwise the server's default", int)
@option("--photos", "folder with the photos to send to --url; otherwise photos are generated", FOLDER)
@option("--clients", "numbers of concurrent clients of --url, with one photo per request", default=CLIENTS)
@option("--batches", "batch sizes: photos per request of a single client of --url", default=BATCHES)
@option("--seconds", "length of one round", click.FloatRange(min=0.05), default=3.0)
@option("--rounds", "number of rounds, whose median counts", AT_LEAST_ONE, default=3)
@option("--models", "folder with the model, without --url", FOLDER, default=Path("models"))
@option("--only", "without --url: only these parts, e.g. start,latency; see below", default="")
@option("--save", "save the results in this file (JSON)", FILE)
def bench(url: str, save: Path | None, **how: Any) -> None:
    """Measure the server at --url, or this server against its targets.

    Parts of the latter: start, memory, throughput, fast (version 3), latency, overload.
    """
    report = _of_url(describe(), url, **how) if url else _of_targets(describe(), **how)
    for line in report.lines():
        click.echo(line)
    if save:
        report.save(save)


def _of_url(machine: dict[str, Any], url: str, model: str, version: int | None, **how: Any) -> Report:
    shapes = [(number, 1) for number in numbers(how["clients"], "--clients")]
    shapes += [(1, number) for number in numbers(how["batches"], "--batches") if (1, number) not in shapes]
    target, photos = find(url, model, version, key_headers(how["key"])), photo_files.to_send(how["photos"])
    asked(target, photos[:1])
    seconds = how["seconds"]
    sweep(target, photos, [(1, 1)], min(seconds, WARM_UP_SECONDS), 1)
    return Report(machine, {target.url: sweep(target, photos, shapes, seconds, how["rounds"])})


def _of_targets(machine: dict[str, Any], models: Path, only: str, seconds: float, rounds: int, **_: Any) -> Report:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the started servers end, too
    with Bench(models, seconds, rounds, lambda line: click.echo(line, err=True)) as measuring:
        return Report(machine, bars=measure(measuring, parts(only)))


def numbers(text: str, flag: str) -> list[int]:
    """Parse whole numbers above 0, separated by commas. Raises click.UsageError."""
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise click.UsageError(f"{flag} is {text!r}; expected numbers above 0 such as 1,4,16")
    return found


def parts(text: str) -> list[str]:
    """Raises click.UsageError for an unknown part."""
    chosen = text.split(",") if text else list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        raise click.UsageError(f"--only names {', '.join(unknown)}; expected some of {', '.join(PARTS)}")
    return chosen
