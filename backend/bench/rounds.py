"""Runs load in several rounds and takes the median."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

OK, FULL = 200, (429, 503)
LONGEST_SECONDS = 3600


@dataclass(frozen=True)
class Load:
    """One run of the generator. `answers`: one [begun, seconds, status] each, times in seconds since the run began."""

    answers: Sequence[tuple[float, float, int]]
    processor_seconds: float

    def good(self) -> list[float]:
        """Seconds that each request answered with 200 took."""
        return [seconds for _, seconds, status in self.answers if status == OK]

    def refused(self) -> int:
        return sum(status in FULL for *_, status in self.answers)

    def failed(self) -> int:
        return len(self.answers) - len(self.good()) - self.refused()

    def span(self) -> float:
        """Seconds from the first request to the last answer."""
        return max((begun + seconds for begun, seconds, _ in self.answers), default=0.0)

    def good_between(self, start: float, end: float) -> float:
        """Requests answered with 200 in a part of the run, a second."""
        inside = [status for begun, seconds, status in self.answers if start <= begun + seconds < end and status == OK]
        return len(inside) / (end - start)


def load(url: str, bodies: Sequence[str], **job: Any) -> Load:
    """Run one job of `programs/load_generator.py` in a process of its own."""
    sent = json.dumps({"url": url, "bodies": list(bodies), **job})
    command = [sys.executable, "-m", "backend.bench.programs.load_generator"]
    done = subprocess.run(command, input=sent, stdout=subprocess.PIPE, text=True, timeout=LONGEST_SECONDS, check=True)
    answer = json.loads(done.stdout)
    return Load([tuple(each) for each in answer["answers"]], answer["processor_seconds"])


@dataclass(frozen=True)
class Point:
    """What a number of clients gets, each request with a number of photos; medians of the rounds, and sums of what failed.

    `throughput` in photos a second; `p50_ms` and `p99_ms` of the good answers; `generator_ms`: the generator's own processor
    time a request.
    """

    clients: int
    batch: int
    throughput: float
    p50_ms: float
    p99_ms: float
    errors: int
    refused: int
    requests: int
    generator_ms: float

    def photo_ms(self) -> float:
        """Time a photo, if they came one after the other."""
        return 1000 / self.throughput if self.throughput else float("inf")


def point(loads: Sequence[Load], clients: int, batch: int = 1) -> Point:
    """Sum up the rounds of one number of clients."""
    requests = sum(len(each.answers) for each in loads)
    return Point(
        clients,
        batch,
        statistics.median(len(each.good()) * batch / each.span() if each.span() else 0.0 for each in loads),
        statistics.median(_percentile_ms(each, 50) for each in loads),
        statistics.median(_percentile_ms(each, 99) for each in loads),
        sum(each.failed() for each in loads),
        sum(each.refused() for each in loads),
        requests,
        1000 * sum(each.processor_seconds for each in loads) / max(1, requests),
    )


def _percentile_ms(each: Load, percent: float) -> float:
    return 1000 * float(np.percentile(each.good(), percent)) if each.good() else float("nan")


def interleaved(measures: dict[Any, Callable[[], Any]], rounds: int) -> dict[Any, list[Any]]:
    """Call each measure once a round, so that a machine that becomes slower or faster does so for all of them."""
    results: dict[Any, list[Any]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            results[name].append(measure())
    return results
