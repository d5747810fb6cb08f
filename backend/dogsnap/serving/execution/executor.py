"""Runs requests in a bounded number of threads, with a bounded queue and a
deadline for each.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

from dogsnap.errors import Cancelled, DeadlineExceeded, Full, Unavailable

Result = TypeVar("Result")
IsGone = Callable[[], bool]  # whether the client has disconnected
CHECK_SECONDS = 0.25  # interval of the check for clients that have disconnected
DEADLINE: ContextVar[float] = ContextVar("deadline")
STOPPING = "the server is shutting down; try again later"
TOO_LATE = "the answer was not ready before the request's deadline; try again later"


def remaining(otherwise: float) -> float:
    """Seconds until the deadline of the request that this thread works for;
    `otherwise` without a request.
    """
    deadline = DEADLINE.get(None)
    return otherwise if deadline is None else max(0.0, deadline - time.monotonic())


def check_deadline() -> None:
    """Raises DeadlineExceeded past the deadline of this thread's request; for
    loops over a client's values.
    """
    if remaining(math.inf) <= 0:
        raise DeadlineExceeded(TOO_LATE)


@contextmanager
def within(deadline: float) -> Iterator[None]:
    """Set the deadline of this thread's request, a time of time.monotonic()."""
    token = DEADLINE.set(deadline)
    try:
        yield
    finally:
        DEADLINE.reset(token)


class Executor:
    """At most `threads` requests run and `queue_size` wait; further ones are
    refused at once.
    """

    def __init__(self, threads: int, queue_size: int = 0, name: str = "run"):
        self.capacity = threads + queue_size
        self.held = 0  # requests that run or wait
        self._threads = threads
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def run(
        self, work: Callable[[], Result], deadline: float, is_gone: IsGone | None = None
    ) -> Result:
        """Run `work` and return its result; `deadline` is a time of
        time.monotonic().

        Raises Full if the queue is full, DeadlineExceeded if the result is not
        ready in time, Cancelled if the client disconnects while it is queued,
        and Unavailable while the server stops. Work past its deadline is not
        started. Work that has started runs to its end and keeps its place until
        then: TensorFlow cannot be interrupted.
        """
        self._take_place()
        try:
            # The request's context (its id in the log, its trace) is passed to the other thread.
            future = self._pool.submit(copy_context().run, self._begin, work, deadline)
        except RuntimeError:
            self._leave_place()
            raise Unavailable(STOPPING) from None
        future.add_done_callback(lambda _: self._leave_place())
        return _result_by(future, deadline, is_gone)

    def is_busy(self) -> bool:
        """Whether background work should wait: more than half of the threads are in use."""
        return self.held > self._threads / 2

    def is_full(self) -> bool:
        return self.held >= self.capacity

    def full(self) -> Full:
        return Full(
            f"the server is full: {self.held} requests are running or waiting; try again later"
        )

    def waiting(self) -> int:
        return max(0, self.held - self._threads)

    def close(self) -> None:
        """Finish running work and refuse new work."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _take_place(self) -> None:
        with self._lock:
            if self.is_full():
                raise self.full()
            self.held += 1

    def _leave_place(self) -> None:
        with self._lock:
            self.held -= 1

    def _begin(self, work: Callable[[], Result], deadline: float) -> Result:
        if time.monotonic() >= deadline:
            raise DeadlineExceeded(TOO_LATE)
        DEADLINE.set(deadline)  # in this request's context
        return work()


class InlineExecutor(Executor):
    """Runs each request at once in the calling thread, for work that only waits
    and keeps the deadline itself.

    Passing it to another thread and watching for a disconnect took a quarter of
    a gateway's time.
    """

    _closed = False

    def run(
        self, work: Callable[[], Result], deadline: float, is_gone: IsGone | None = None
    ) -> Result:
        """As `Executor.run`; `is_gone` is ignored, since nothing is queued."""
        if self._closed:
            raise Unavailable(STOPPING)
        self._take_place()
        try:
            return copy_context().run(self._begin, work, deadline)
        finally:
            self._leave_place()

    def close(self) -> None:
        self._closed = True


def _result_by(future: Future[Result], deadline: float, is_gone: IsGone | None) -> Result:
    """The result; meanwhile the calling thread, which has to wait anyway, looks
    now and then whether the client is there.
    """
    while True:
        try:
            return future.result(timeout=max(0.0, min(CHECK_SECONDS, deadline - time.monotonic())))
        except CancelledError:
            raise Cancelled(
                "the request left the queue: its client disconnected, or the server stops"
            ) from None
        except NotDone:
            if future.done():  # just in time, or the work itself raised a TimeoutError
                return future.result()
        if time.monotonic() >= deadline:
            future.cancel()
            raise DeadlineExceeded(TOO_LATE)
        if is_gone is not None and not future.running() and is_gone():
            future.cancel()
