"""A thread that scans for versions at an interval and on request."""

import threading
from collections.abc import Callable

# Seconds between two scans until the server is ready and while versions are loaded, for which two scans are needed.
LOADING_POLL_SECONDS = 1.0
JOIN_SECONDS = 5.0


class ScanThread:
    """`scan` must not raise; `not_ready` returns why the server is not ready, or ""; `is_loading`: another scan is needed
    soon.
    """

    def __init__(
        self, scan: Callable[[], None], not_ready: Callable[[], str], is_loading: Callable[[], bool] = lambda: False
    ):
        self._scan, self._not_ready, self._is_loading = scan, not_ready, is_loading
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self.closed = False

    def start(self, poll_seconds: float, on_ready: Callable[[], None]) -> None:
        """Scan every `poll_seconds`; 0: only when woken, and until everything is loaded. `on_ready` is called once."""
        self._thread = threading.Thread(target=self._watch, args=(poll_seconds, on_ready), name="watch", daemon=True)
        self._thread.start()

    def _watch(self, poll_seconds: float, on_ready: Callable[[], None]) -> None:
        announced = False
        while not self.closed:
            self._scan()
            if not announced and not self._not_ready():
                announced = True
                on_ready()
            if announced and (poll_seconds or not self._is_loading()):
                self._wake.wait(poll_seconds or None)
            else:
                self._wake.wait(min(poll_seconds or LOADING_POLL_SECONDS, LOADING_POLL_SECONDS))
            self._wake.clear()

    def wake(self) -> None:
        """Scan now."""
        self._wake.set()

    def stop(self) -> None:
        self.closed = True
        self._wake.set()

    def join(self) -> None:
        """Wait a few seconds for the end of the last scan."""
        if self._thread is not None:
            self._thread.join(timeout=JOIN_SECONDS)
