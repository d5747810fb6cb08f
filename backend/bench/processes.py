"""Memory and core affinity of a process. Linux only."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) * 1024 / 1e6


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
