"""What the kernel says about the process that answers behind a test's server."""

import os
from pathlib import Path


def worker(server) -> int:
    """The number of the one process that gunicorn started."""
    pid = server.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(child)


def memory(pid: int) -> float:
    """Resident memory in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


def most_seconds(free: float = 5.0) -> float:
    """What may take `free` seconds on free cores, where others use these cores as well."""
    return free * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
