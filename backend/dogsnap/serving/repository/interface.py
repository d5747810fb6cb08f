"""What every repository has: its methods, and the thread that looks for versions."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dogsnap.errors import Unimplemented
from dogsnap.routing.choices import CONFIGURATION_KIND, Choices
from dogsnap.routing.chosen_versions import ChosenVersions
from dogsnap.routing.planners import Versions
from dogsnap.routing.resolver import labels_in_force
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switch_log import Switch, Who
from dogsnap.serving.repository.model import VersionStatus
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.servable import BaseServable

IsAwaited = Callable[[], bool]  # whether the client still waits
CONFIGURED = Versions("", ())  # for the configuration of a server, which is no model's
# Seconds between two scans until the server is ready and while versions are loaded, for
# which two scans are needed.
LOADING_POLL_SECONDS = 1.0
ASK_ENGINE = (
    "the models run in an engine behind this server, which loads them itself: send this "
    "request to the engine"
)


class ModelRepository(ABC):
    """All models and their versions. Thread-safe.

    `started`: the first scan is finished, every version was loaded or has failed to.
    `sent`: the configuration that was sent to this server, None while it uses that of
    its start.
    """

    started = False
    sent: list[dict[str, Any]] | None = None
    _closed = False
    _thread: threading.Thread | None = None

    def __init__(self, chosen: ChosenVersions):
        self.chosen = chosen
        self._wake = threading.Event()

    @abstractmethod
    def acquire(self, spec: ModelSpec) -> AbstractContextManager[BaseServable]:
        """The servable for `spec`, which stays until the block ends; the only way to get one.

        Raises as `dogsnap.routing.resolver.resolve`, NotFound for no such model or
        version, and Unavailable while it cannot answer.
        """

    @abstractmethod
    def models(self) -> list[str]:
        """The names of the models, sorted."""

    @abstractmethod
    def available(self, name: str) -> list[int]:
        """The numbers of a model's available versions, largest first. Raises NotFound."""

    @abstractmethod
    def status(self, spec: ModelSpec) -> list[VersionStatus]:
        """The states of a model's versions, largest first; of one version if
        `spec` names it. Raises NotFound.
        """

    @abstractmethod
    def default_version(self, name: str) -> int | None:
        """The version that answers by default, as far as is known. Raises NotFound."""

    @abstractmethod
    def versions(self, name: str) -> Versions:
        """What a switch of this model is checked against. Raises NotFound and Unavailable."""

    @abstractmethod
    def not_ready(self) -> str:
        """Why the server is not ready; "" if it is: the first scan is finished, and
        the models that were ready once or are named by the configuration are
        available, at least one.
        """

    def troubles(self) -> list[str]:
        """What is amiss although all models may answer, as sentences."""
        return []

    @abstractmethod
    def scan_safely(self) -> None:
        """Look once which versions there are, and log what prevents that when it begins."""

    def reconfigure(
        self, configs: Sequence[ModelConfig] | None, by: Who, undoes: Switch | None = None
    ) -> Switch | None:
        """Serve exactly these models until a restart; None: those of the start. A wrong
        list changes nothing. Returns the switch, None if nothing changed.

        `undoes`: the switch that this takes back; raises Aborted if that is not in
        force. Raises Unimplemented where others configure the models.
        """
        raise Unimplemented(ASK_ENGINE)

    def wait_until_served(
        self,
        configs: Sequence[ModelConfig],
        timeout: float,
        is_awaited: IsAwaited,
    ) -> None:
        """Wait until these models are available as configured, at most `timeout` seconds;
        not at all where others load them.

        Raises DeadlineExceeded, Cancelled once `is_awaited` returns False, and an error
        with the code UNKNOWN, as in TensorFlow Serving, if one fails to load.
        """
        return

    def try_again(self, name: str, version: int | None = None) -> None:
        """Load at once what is to be loaded and has failed, where versions are
        loaded, and `version` if it was exported again.
        """
        return

    def load_model(
        self,
        name: str,
        choose: Callable[[], object],
        timeout: float,
        is_awaited: IsAwaited,
    ) -> None:
        """Load a model as its folder is now, and return when that is done; `choose`, which
        is called once the model is known to be there, makes it one to be loaded.

        Raises NotFound for a model that is not there, FailedPrecondition with what
        does not load, DeadlineExceeded after `timeout` seconds, Cancelled once
        `is_awaited` returns False; Unimplemented where others load models.
        """
        raise Unimplemented(ASK_ENGINE)

    def configuration(self) -> Choices:
        """The configuration that was sent to this server, as a value to choose."""
        return Choices({(CONFIGURATION_KIND, ""): self.sent})

    def labels(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """A model's labels: those in force, and those that wait for their version."""
        return labels_in_force(self.chosen.choices(name), self.available(name).__contains__)

    def _is_loading(self) -> bool:
        return False

    def start(
        self,
        poll_seconds: float,
        on_ready: Callable[[], None] = lambda: None,
        on_follow: Callable[[], None] = lambda: None,
    ) -> None:
        """Scan every `poll_seconds` in a thread; 0: until all is loaded, then
        only on `scan_soon`. `on_ready` is called once, `on_follow` after each look
        at the store of switches.
        """
        self.chosen.start(on_follow)
        self._thread = threading.Thread(
            target=self._watch, args=(poll_seconds, on_ready), name="watch", daemon=True
        )
        self._thread.start()

    def _watch(self, poll_seconds: float, on_ready: Callable[[], None]) -> None:
        announced = False
        while not self._closed:
            self.scan_safely()
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
        """Stop scanning, and wait up to 5 seconds for the end of the last scan.

        Loaded versions are kept.
        """
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.chosen.close()
