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
    """A run of the load generator. `answers`: [begun, seconds, status] each, times in seconds since the start of the run."""

    answers: Sequence[tuple[float, float, int]]
    processor_seconds: float

    def good(self) -> list[float]:
        """The latencies of the requests with status 200, in seconds."""
        return [seconds for _, seconds, status in self.answers if status == OK]

    def refused(self) -> int:
        return sum(status in FULL for *_, status in self.answers)

    def failed(self) -> int:
        return len(self.answers) - len(self.good()) - self.refused()

    def span(self) -> float:
        """Seconds from the first request to the last answer."""
        return max((begun + seconds for begun, seconds, _ in self.answers), default=0.0)

    def good_between(self, start: float, end: float) -> float:
        """Requests with status 200 per second, in a part of the run."""
        inside = [status for begun, seconds, status in self.answers if start <= begun + seconds < end and status == OK]
        return len(inside) / (end - start)


def load(url: str, bodies: Sequence[str], **job: Any) -> Load:
    """Run a job of `programs/load_generator.py` in a separate process."""
    sent = json.dumps({"url": url, "bodies": list(bodies), **job})
    command = [sys.executable, "-m", "backend.bench.programs.load_generator"]
    done = subprocess.run(command, input=sent, stdout=subprocess.PIPE, text=True, timeout=LONGEST_SECONDS, check=True)
    answer = json.loads(done.stdout)
    return Load([tuple(each) for each in answer["answers"]], answer["processor_seconds"])


@dataclass(frozen=True)
class Point:
    """Results for a number of clients and a batch size: medians of the rounds, and sums of the failures.

    `throughput` in photos per second; `p50_ms` and `p99_ms` of the good answers; `generator_ms`: the generator's processor time
    per request.
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
        """Milliseconds per photo: the inverse of the throughput."""
        return 1000 / self.throughput if self.throughput else float("inf")


def point(loads: Sequence[Load], clients: int, batch: int = 1) -> Point:
    """Summarise the rounds of one number of clients."""
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
    """Call each measure once per round, so that changes of the machine's speed affect all of them."""
    results: dict[Any, list[Any]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            results[name].append(measure())
    return results
