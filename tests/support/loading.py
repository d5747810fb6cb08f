"""Runs the load generator beside a test, and reads what it measured."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GENERATOR = str(Path(__file__).with_name("load_generator.py"))


@dataclass(frozen=True)
class Answer:
    """One request: when it was sent (Unix time), how long it took, its status (0: failed), Retry-After or the failure."""

    sent: float
    seconds: float
    status: int
    note: str


class Load:
    """Requests to a server from a process of their own, for `seconds`.

    Either `clients`, each of which asks again when it is answered, or `rate` requests a second, whatever comes back.
    """

    def __init__(
        self,
        server,
        path: str,
        value: object,
        seconds: float,
        prefix: tuple[str, ...] = (),
        **job: float,
    ):
        """`prefix`: of the command, e.g. to tie the load to a core."""
        body = json.dumps({"instances": [value]} if not isinstance(value, dict) else value)
        job = {"url": server.url + path, "bodies": [body], "seconds": seconds, **job}
        command = [*prefix, sys.executable, GENERATOR]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process.stdin.write(json.dumps(job).encode())
        self._process.stdin.close()

    def stop(self) -> list[Answer]:
        """End before the time is over, once the first `clients` have been answered: each waits for its last answer."""
        self._process.terminate()
        return self.answers()

    def answers(self) -> list[Answer]:
        with self._process.stdout:
            told = json.load(self._process.stdout)
        assert self._process.wait(60) == 0
        return [
            Answer(told["clock"] + begun, seconds, status, note)
            for (begun, seconds, status), note in zip(told["answers"], told["notes"], strict=True)
        ]


def percentile(answers: list[Answer], percent: float) -> float:
    """In seconds."""
    return float(np.percentile([each.seconds for each in answers], percent))


def span(answers: list[Answer]) -> float:
    """Seconds from the first request to the last answer."""
    return max(each.sent + each.seconds for each in answers) - min(each.sent for each in answers)
