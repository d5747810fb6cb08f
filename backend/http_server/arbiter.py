"""gunicorn's master process: replaces workers that crash, reloads settings without a pause, survives clock jumps."""

import logging
import mmap
import queue
import signal
import time
from contextlib import suppress
from typing import Any

from gunicorn import sock
from gunicorn.arbiter import Arbiter as GunicornArbiter
from gunicorn.errors import HaltServer

log = logging.getLogger("dogsnap")

CHECK_SECONDS = 0.1


class Flag:
    """A byte in memory shared with forked processes: set once, visible to all."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def is_set(self) -> bool:
        return self._byte[0] == 1


class Arbiter(GunicornArbiter):
    """Needs workers with `ready`, a Flag, and an application with `reread` and `give_up`."""

    def __init__(self, app: Any):
        super().__init__(app)
        self._reloading = self._has_served = False

    def handle_hup(self) -> None:
        """Reload, unless the new settings are wrong."""
        if self.app.reread():
            super().handle_hup()

    def reload(self) -> None:
        self._reloading = True
        try:
            super().reload()
        finally:
            self._reloading = False

    def manage_workers(self) -> None:
        """As gunicorn does, but after a reload the old worker answers until the new one can."""
        self._has_served = self._has_served or any(worker.ready.is_set() for worker in self.WORKERS.values())
        newest = max(self.WORKERS.values(), key=lambda worker: worker.age, default=None)
        if newest is None or len(self.WORKERS) <= self.num_workers or newest.ready.is_set():
            super().manage_workers()

    def reap_workers(self) -> None:
        """As gunicorn does, but after a first good start a worker that cannot start is tried again in place of exiting."""
        try:
            super().reap_workers()
        except HaltServer as error:
            if not self._has_served:
                raise
            log.error("a worker could not start: %s", error.reason)
            if self._reloading:
                self.app.give_up()
            time.sleep(1)  # the cause may last, and gunicorn forks the next one at once
        if self._reloading:
            self.manage_workers()

    def stop(self, graceful: bool = True) -> None:
        """Wait for draining workers by the monotonic clock; gunicorn uses the wall clock, which may jump."""
        if graceful:
            sock.close_sockets(self.LISTENERS, unlink=False)
            self.LISTENERS = []
            self.kill_workers(signal.SIGTERM)
            end = time.monotonic() + self.cfg.graceful_timeout
            while self.WORKERS and time.monotonic() < end and not self._is_hurried():
                self.reap_workers()
                time.sleep(CHECK_SECONDS)
        super().stop(graceful=False)

    def _is_hurried(self) -> bool:
        """Whether Ctrl-C was pressed again."""
        with suppress(queue.Empty):
            return self.SIG_QUEUE.get_nowait() in (signal.SIGINT, signal.SIGQUIT)
        return False
