"""Processor time, memory and core affinity of a process, read from /proc. Linux only."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
RESET_PEAK = "5"  # written to clear_refs: proc(5)


def processor_seconds(pid: int) -> float:
    """User and system time of all threads of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    return _status_mb(pid, "VmRSS")


def peak_mb(pid: int) -> float:
    """Peak resident memory since the start, or since `reset_peak`."""
    return _status_mb(pid, "VmHWM")


def reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK, encoding="ascii")


def last_descendant(pid: int) -> int:
    """The last in the chain of first children: from make or a master process to the worker."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        pid = int(children[0])
    return pid


@contextmanager
def on_cores(cores: Iterable[int]) -> Iterator[None]:
    """Pin this thread, and processes started inside the block, to these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _status_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) * 1024 / 1e6
