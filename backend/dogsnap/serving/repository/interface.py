"""What the local repository and the gateway's have in common: the methods, and the thread that looks for versions."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from dogsnap.routing.switch_log import SwitchLog
from dogsnap.serving.repository.model import Model, ModelSpec, VersionStatus
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.servable import BaseServable

# Seconds between two scans until the server is ready and while versions are loaded, for which two scans are needed.
LOADING_POLL_SECONDS = 1.0


class ModelRepository(Protocol):
    """Thread-safe. `dogsnap.serving.repository.repository.Repository` documents the methods."""

    switches: SwitchLog
    _lock: threading.RLock
    _wake: threading.Event
    _thread: threading.Thread | None = None
    started: bool = (
        False  # the first scan is finished: every version was loaded or has failed to load
    )
    _closed: bool = False

    def __init__(self) -> None:
        self._lock, self._wake = threading.RLock(), threading.Event()

    def acquire(self, spec: ModelSpec) -> AbstractContextManager[BaseServable]: ...
    def models(self) -> list[str]: ...
    def available(self, name: str) -> list[int]: ...
    def status(self, spec: ModelSpec) -> list[VersionStatus]: ...
    def labels(self, name: str) -> tuple[dict[str, int], dict[str, int]]: ...
    def default_version(self, name: str) -> int | None: ...
    def splits(self) -> list[tuple[str, str, int, float]]: ...
    def shadow_of(self, answered: ServableId) -> int | None: ...
    def switching(self, name: str) -> AbstractContextManager[Model]: ...
    def not_ready(self) -> str: ...
    def _scan_safely(self) -> None: ...

    def _is_loading(self) -> bool:
        return False

    def start(self, poll_seconds: float, on_ready: Callable[[], None] = lambda: None) -> None:
        """Scan every `poll_seconds` in a thread; 0: until all is loaded, then only on `scan_soon`. `on_ready` is called once."""
        self._thread = threading.Thread(
            target=self._watch, args=(poll_seconds, on_ready), name="watch", daemon=True
        )
        self._thread.start()

    def _watch(self, poll_seconds: float, on_ready: Callable[[], None]) -> None:
        announced = False
        while not self._closed:
            self._scan_safely()
            if not announced and not self.not_ready():
                announced = True
                on_ready()
            if announced and (poll_seconds or not self._is_loading()):
                self._wake.wait(poll_seconds or None)
            else:
                self._wake.wait(min(poll_seconds or LOADING_POLL_SECONDS, LOADING_POLL_SECONDS))
            self._wake.clear()

    def scan_soon(self) -> None:
        """Start a scan now, after a change of configuration or choices."""
        self._wake.set()

    def close(self) -> None:
        """Stop scanning, and wait up to 5 seconds for the end of the last scan. Loaded versions are kept."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
