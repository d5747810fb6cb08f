"""What the kernel and the metrics say about the process that answers behind a test's server."""

import os
from pathlib import Path

import requests

from support.administration import with_token


def worker_of(server) -> int:
    """The number of the one process that gunicorn started."""
    started = children(server.process.pid)
    assert len(started) == 1, started
    return started[0]


def children(pid: int) -> list[int]:
    """The processes that the main thread of process `pid` started and that it has not reaped."""
    return [
        int(child)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    ]


def memory(pid: int, name: str = "VmRSS") -> float:
    """Resident memory in MiB; VmHWM: its peak."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) / 1024


def sample(server, name: str, labels: str = "") -> float:
    """The value of a metric on the server's page, 0 while it is not there; `labels` as the page writes them: a="b",c="d"."""
    start = f"{name}{{{labels}}} " if labels else f"{name} "
    lines = requests.get(
        f"{server.url}/metrics", headers=with_token(server), timeout=60
    ).text.splitlines()
    return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), 0.0)


def held(server) -> float:
    """How many requests run or wait."""
    return sample(server, "dogsnap_places_held")


def most_seconds(free: float = 5.0) -> float:
    """What may take `free` seconds on free cores, where others use these cores as well."""
    return free * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
