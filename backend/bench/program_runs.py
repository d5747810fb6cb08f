"""Runs the programs of a benchmark, and reads what they measured."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

OK, FULL = 200, (429, 503)
LONGEST_SECONDS = 3600


class CannotMeasure(click.ClickException):
    """The measurement is impossible; the message, with which the command ends, says why."""


@dataclass(frozen=True)
class Load:
    """A run of the load generator. `answers`: [begun, seconds, status] each, times in seconds since the start of the run."""

    answers: Sequence[tuple[float, float, int]]

    def good(self) -> list[float]:
        """The latencies of the requests with status 200, in seconds."""
        return [seconds for _, seconds, status in self.answers if status == OK]

    def refused(self) -> int:
        return sum(status in FULL for *_, status in self.answers)

    def failed(self) -> int:
        return len(self.answers) - len(self.good()) - self.refused()

    def throughput(self) -> float:
        """Requests with status 200 per second, until the last answer."""
        span = max((begun + seconds for begun, seconds, _ in self.answers), default=0.0)
        return len(self.good()) / span if span else 0.0

    def good_between(self, start: float, end: float) -> float:
        """Requests with status 200 per second, in a part of the run."""
        inside = [
            status
            for begun, seconds, status in self.answers
            if start <= begun + seconds < end and status == OK
        ]
        return len(inside) / (end - start)


def load(url: str, bodies: Sequence[str], **job: Any) -> Load:
    """Run a job of `programs/load_generator.py` in a separate process."""
    return Load(program("load_generator", url=url, bodies=list(bodies), **job)["answers"])


def program(name: str, **job: Any) -> dict[str, Any]:
    """What a program in `programs/` prints for a job, in a separate process."""
    command = [sys.executable, "-m", f"bench.programs.{name}"]
    return json.loads(
        subprocess.check_output(command, input=json.dumps(job), text=True, timeout=LONGEST_SECONDS)
    )
