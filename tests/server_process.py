"""What the kernel says about the process that answers behind a test's server."""

from pathlib import Path

MEBIBYTE = 2**20


def worker(server) -> int:
    """The number of the one process that gunicorn started."""
    pid = server.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(child)


def memory(pid: int) -> float:
    """Resident memory in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024
