"""Measures an address over numbers of clients and batch sizes."""

from collections.abc import Sequence

from backend.bench.remote import Target
from backend.bench.rounds import Load, Point, interleaved, load, point

Shape = tuple[int, int]  # clients, photos in a request


def sweep(target: Target, photos: Sequence[bytes], shapes: Sequence[Shape], seconds: float, rounds: int) -> list[Point]:
    """Measure every shape once per round, for `seconds` each; one Point per shape."""
    bodies = {batch: request_bodies(target, photos, batch) for _, batch in shapes}

    def one_round(shape: Shape) -> Load:
        clients, batch = shape
        return load(target.url, bodies[batch], clients=clients, seconds=seconds, headers=dict(target.headers))

    runs = interleaved({shape: lambda shape=shape: one_round(shape) for shape in shapes}, rounds)
    return [point(loads, *shape) for shape, loads in runs.items()]


def request_bodies(target: Target, photos: Sequence[bytes], batch: int) -> list[str]:
    """Different requests, as far as there are photos; a single one if it contains all photos."""
    if batch == 1:
        return [target.body([photo]) for photo in photos]
    return [target.body([photos[number % len(photos)] for number in range(batch)])]
