"""Work that gives way to requests, while a version is loaded beside them."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

NICENESS = 19  # the lowest: a hundredth of the time of a thread that answers, where both want it
SWITCH_SECONDS = 0.0005  # a tenth of Python's default

_IS_BESIDE: ContextVar[bool] = ContextVar("is_beside", default=False)


@contextmanager
def beside_requests(is_beside: bool) -> Iterator[None]:
    """Whether requests are answered while the block runs; Python's lock then changes hands sooner."""
    token, interval = _IS_BESIDE.set(is_beside), sys.getswitchinterval()
    if is_beside:
        sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        _IS_BESIDE.reset(token)


def run(function: Callable[..., Any], *values: Any) -> Any:
    """Call a function that releases Python's lock, in a thread of low priority beside requests.

    A thread with the lock would hold up those that wait for it. No priority can
    be raised again without a privilege, hence a thread of its own; those that
    it starts have its priority.
    """
    if not _IS_BESIDE.get():
        return function(*values)
    with ThreadPoolExecutor(1, initializer=_lower) as pool:
        return pool.submit(function, *values).result()


def _lower() -> None:
    with suppress(OSError):  # where threads have no priority of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
