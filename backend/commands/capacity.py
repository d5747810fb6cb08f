"""`dogsnap capacity`: how many machines a number of photos a second takes, from what a photo costs on one.

It measures nothing: `dogsnap bench` does.
"""

import click

from backend.bench import capacity as model

MEGABYTE = 1e6


@click.command()
@click.argument("rates", nargs=-1, type=click.FloatRange(min=0, min_open=True))
@click.option(
    "--photo-ms",
    required=True,
    type=click.FloatRange(min=0, min_open=True),
    help="a photo on one core, by `dogsnap bench`",
)
@click.option("--cores", default=2, show_default=True, type=click.IntRange(min=1), help="of one node")
@click.option("--memory-mb", default=1100.0, show_default=True, help="of the server on one node, by `dogsnap bench`")
@click.option(
    "--queue", default=64, show_default=True, type=click.IntRange(min=0), help="requests that may wait in a node"
)
@click.option("--p99-ms", default=500.0, show_default=True, help="how long 99 of 100 photos may take at most")
@click.option(
    "--gateway",
    default=500.0,
    show_default=True,
    help="photos a second that one gateway forwards on one core; measured with photos of 30 kB",
)
@click.option(
    "--photo-kb",
    default=80.0,  # of the 60,000 bytes that the mini program makes of a photo, as four characters for three bytes
    show_default=True,
    help="a photo on the wire, as base64 text",
)
def capacity(
    rates: tuple[float, ...],
    photo_ms: float,
    cores: int,
    memory_mb: float,
    queue: int,
    p99_ms: float,
    gateway: float,
    photo_kb: float,
) -> None:
    """How many machines RATES photos a second take [default: 1 100 10000], with the waiting times of a simulation."""
    node = model.Node(cores, photo_ms / 1000, queue)
    click.echo(f"one node: {cores} cores / {photo_ms:g} ms = {node.capacity:.0f} photos/s at most, {memory_mb:g} MB")
    for rate in rates or (1.0, 100.0, 10_000.0):
        try:
            found = model.plan(rate, node, p99_ms / 1000, gateway, int(1000 * photo_kb))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        click.echo(
            f"{rate:g} photos/s: {found.nodes} x {cores} cores, {found.nodes * memory_mb / 1000:.1f} GB, "
            f"{100 * found.load:.0f} % busy, p50 {1000 * found.outcome.p50:.0f} ms, p99 {1000 * found.outcome.p99:.0f} ms; "
            f"gateways: {found.gateways}; {found.megabits:.1f} Mbit/s in"
        )
