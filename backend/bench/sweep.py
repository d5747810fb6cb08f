"""Measures an address over numbers of clients and batch sizes."""

from collections.abc import Sequence
from functools import partial

from backend.bench.remote import Target
from backend.bench.rounds import Load, Point, alternating, load, point

Shape = tuple[int, int]  # clients, photos in a request


def sweep(target: Target, photos: Sequence[bytes], shapes: Sequence[Shape], seconds: float, rounds: int) -> list[Point]:
    """Measure every shape once per round, for `seconds` each; one Point per shape."""
    bodies = {batch: request_bodies(target, photos, batch) for _, batch in shapes}

    def one_round(clients: int, batch: int) -> Load:
        return load(target.url, bodies[batch], clients=clients, seconds=seconds, headers=dict(target.headers))

    runs = alternating([partial(one_round, *shape) for shape in shapes], rounds)
    return [point(loads, *shape) for shape, loads in zip(shapes, runs, strict=True)]


def request_bodies(target: Target, photos: Sequence[bytes], batch: int) -> list[str]:
    """Different requests, as far as there are photos; a single one if it contains all photos."""
    if batch == 1:
        return [target.body([photo]) for photo in photos]
    return [target.body([photos[number % len(photos)] for number in range(batch)])]
