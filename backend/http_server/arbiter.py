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

# A new worker that has not loaded its models by then is given up, and the old one goes on with the old settings.
RELOAD_SECONDS = 120.0
LOOK_SECONDS = 0.1


class Flag:
    """A byte that a process shares with those it forks: set once, seen by all."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def is_set(self) -> bool:
        return self._byte[0] == 1


class Arbiter(GunicornArbiter):
    """Needs workers with `ready`, a Flag, and `since`, a time of time.monotonic(); and an application with `reread`."""

    def __init__(self, app: Any):
        super().__init__(app)
        self._reloading = self._has_served = False

    def handle_hup(self) -> None:
        """Settings that cannot be used are told and change nothing."""
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
        elif time.monotonic() - newest.since > RELOAD_SECONDS and not newest.aborted:
            log.error("the new settings are given up: no model was loaded in %d s; the old ones hold", RELOAD_SECONDS)
            newest.aborted = True
            self.app.give_up()
            self.kill_worker(newest.pid, signal.SIGKILL)

    def reap_workers(self) -> None:
        """As gunicorn does, but once a worker has served, one that cannot start does not end the server: another is tried."""
        try:
            super().reap_workers()
        except HaltServer as error:
            if not self._has_served:
                raise
            log.error("a worker could not start: %s", error.reason)
            if self._reloading:
                self.app.give_up()
            time.sleep(1)  # what keeps it from starting may last, and the next one is forked at once
        if self._reloading:
            self.manage_workers()

    def stop(self, graceful: bool = True) -> None:
        """gunicorn measures how long workers may drain by the wall clock, which may jump; so they are waited for here."""
        if graceful:
            sock.close_sockets(self.LISTENERS, unlink=False)
            self.LISTENERS = []
            self.kill_workers(signal.SIGTERM)
            end = time.monotonic() + self.cfg.graceful_timeout
            while self.WORKERS and time.monotonic() < end and not self._is_hurried():
                self.reap_workers()
                time.sleep(LOOK_SECONDS)
        super().stop(graceful=False)

    def _is_hurried(self) -> bool:
        """Whether somebody pressed Ctrl-C again."""
        with suppress(queue.Empty):
            return self.SIG_QUEUE.get_nowait() in (signal.SIGINT, signal.SIGQUIT)
        return False
