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
# As long as a client may wait for models to be loaded; a first start has no bound, since nothing else could serve.
RELOAD_SECONDS = 600.0


class Flag:
    """A byte in memory shared with forked processes: set once, visible to all."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def is_set(self) -> bool:
        return self._byte[0] == 1


class Arbiter(GunicornArbiter):
    """Needs workers with `ready`, a Flag, and an application with `reread`, `keep` and `give_up`."""

    def __init__(self, app: Any):
        super().__init__(app)
        self._reloading = self._has_served = False
        self._reload_end = 0.0

    def handle_hup(self) -> None:
        """Reload, unless the new settings are wrong."""
        if self.app.reread():
            super().handle_hup()

    def reload(self) -> None:
        self._reloading = True
        self._reload_end = time.monotonic() + RELOAD_SECONDS
        try:
            super().reload()
        finally:
            self._reloading = False

    def manage_workers(self) -> None:
        """As gunicorn does, but after a reload the old worker answers until the new one can, or is given up."""
        self._has_served = self._has_served or any(worker.ready.is_set() for worker in self.WORKERS.values())
        newest = self._newest()
        if newest is not None and newest.ready.is_set():
            self.app.keep()
        elif newest is not None and len(self.WORKERS) > self.num_workers:
            self._give_up_late(newest)
            return
        super().manage_workers()

    def _newest(self) -> Any:
        return max(self.WORKERS.values(), key=lambda worker: worker.age, default=None)

    def _give_up_late(self, worker: Any) -> None:
        """Stop a worker that does not load its models in time; the old one still serves."""
        if worker.aborted or time.monotonic() < self._reload_end:
            return
        log.error(
            "the new worker did not load its models within %g s and is killed; see which version still loads, and send "
            "SIGHUP again",
            RELOAD_SECONDS,
        )
        worker.aborted = True
        self.kill_worker(worker.pid, signal.SIGKILL)

    def reap_workers(self) -> None:
        """As gunicorn does, but after a first good start a worker that cannot start is tried again in place of exiting.

        The settings of a worker that ended before it was ready are given up.
        """
        newest = self._newest()
        try:
            super().reap_workers()
        except HaltServer as error:
            if not self._has_served:
                raise
            log.error("a worker could not start: %s", error.reason)
            time.sleep(1)  # the cause may last, and gunicorn forks the next one at once
        if newest is not None and newest.pid not in self.WORKERS and not newest.ready.is_set():
            if self.WORKERS:
                log.error("the new worker ended before it was ready; the old worker and its settings stay in use")
            self.app.give_up()
            self.setup(self.app)
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
