"""Runs `load.py` beside a test, and reads what it measured."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Answer:
    """One request: when it was sent (Unix time), how long it took, its status (0: failed), Retry-After or the failure."""

    sent: float
    seconds: float
    status: int
    note: str | None


class Load:
    """Requests to a server from a process of their own, until `answers` is called."""

    def __init__(self, server, path: str, value: object, seconds: float, **job: float):
        body = json.dumps({"instances": [value]} if not isinstance(value, dict) else value)
        job = {"port": server.port, "path": path, "body": body, "seconds": seconds, **job}
        command = [sys.executable, str(Path(__file__).with_name("load.py")), json.dumps(job)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def answers(self) -> list[Answer]:
        out, _ = self._process.communicate(timeout=3600)
        assert self._process.returncode == 0
        return [Answer(*each) for each in json.loads(out)]


def percentile(answers: list[Answer], percent: float) -> float:
    """In seconds."""
    return float(np.percentile([each.seconds for each in answers], percent))
