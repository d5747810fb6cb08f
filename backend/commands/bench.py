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
from backend.commands.helpers.arguments import key_headers, key_option

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
CLIENTS, BATCHES = "1,4,16,64", "1,8,32"
WARM_UP_SECONDS = 1.0


@click.command()
@click.option(
    "--url",
    default="",
    help="a server with TensorFlow Serving's REST API; without it, this server is started and measured against its targets",
)
@key_option
@click.option("--model", default="inception_v3", show_default=True, help="model at --url")
@click.option("--version", type=int, help="version of that model; otherwise the server's default")
@click.option("--photos", type=FOLDER, help="folder with the photos to send to --url; otherwise photos are generated")
@click.option(
    "--clients",
    default=CLIENTS,
    show_default=True,
    help="numbers of concurrent clients of --url, with one photo per request",
)
@click.option(
    "--batches", default=BATCHES, show_default=True, help="batch sizes: photos per request of a single client of --url"
)
@click.option("--seconds", default=3.0, show_default=True, type=click.FloatRange(min=0.05), help="length of one round")
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(min=1), help="number of rounds, whose median counts"
)
@click.option(
    "--models", type=FOLDER, default=Path("models"), show_default=True, help="folder with the model, without --url"
)
@click.option(
    "--data", type=FOLDER, help="photos in the Stanford Dogs layout, without --url: for the cost of the second pass"
)
@click.option("--only", default="", help="without --url: only these parts, e.g. start,latency; see below")
@click.option("--save", type=FILE, help="save the results in this file (JSON)")
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
    target, photos = find(url, model, version, key_headers(how["key"])), _photos(how["photos"])
    asked(target, photos[:1])
    seconds = how["seconds"]
    sweep(target, photos, [(1, 1)], min(seconds, WARM_UP_SECONDS), 1)
    return Report(machine, {target.url: sweep(target, photos, shapes, seconds, how["rounds"])})


def _photos(folder: Path | None) -> list[bytes]:
    return photo_files.from_folder(folder) if folder else photo_files.made()


def _of_targets(
    machine: dict[str, Any], models: Path, only: str, seconds: float, rounds: int, data: Path | None, **_: Any
) -> Report:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the started servers end, too
    with Bench(models, seconds, rounds, lambda line: click.echo(line, err=True), data) as measuring:
        bars = measure(measuring, parts(only))
        return Report(machine, measuring.points(), bars)


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
