"""The log of switches (author, time, old and new value), in memory and optionally in a file."""

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backend.serving.repository.switches import CONFIGURATION, WATCHER, Label, Subject, Switch, Who

log = logging.getLogger("dogsnap.switches")

KEPT = 1000  # switches kept in memory; the file keeps all
MAX_NAME = 64  # characters of an author's name


class SwitchLog:
    """Append-only; thread-safe. With a file, a new log continues where the last one ended."""

    def __init__(self, file: Path | None = None):
        self._file = file
        self._lock = threading.Lock()
        self._switches: deque[Switch] = deque(maxlen=KEPT)
        self._chosen: dict[Subject, Any] = {}
        self._configured: dict[Subject, Any] = {}
        self._undone: set[int] = set()
        self._unwritten: list[Switch] = []
        self._writing = threading.Lock()
        for switch in _read(file) if file else ():
            self._remember(switch)

    def add(self, by: Who, subject: Subject, before: Any, after: Any, undoes: int | None = None) -> Switch:
        """Put a switch down; `write` brings it to the file."""
        with self._lock:
            number = self._switches[-1].id + 1 if self._switches else 1
            at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            switch = Switch(number, at, by, subject, before, after, undoes)
            self._remember(switch)
            self._unwritten.append(switch)
            log.info("switch %d by %s %s: %s", number, by.name, by.address, switch)
        return switch

    def write(self) -> None:
        """Append the switches that the file lacks. Call it without a lock that requests need: a disk may hang.

        A file that cannot be written is logged: switching matters more than its record.
        """
        with self._writing:
            with self._lock:
                unwritten, self._unwritten = self._unwritten, []
            for switch in unwritten:
                try:
                    self._append(switch)
                except OSError as error:
                    log.error("switch %d is not in the file: %s", switch.id, error)

    def switches(self, model: str = "") -> list[Switch]:
        """The switches in memory, newest first; of one model if it is named."""
        with self._lock:
            return [each for each in reversed(self._switches) if model in ("", each.subject.model)]

    def undone(self) -> set[int]:
        """The ids of the switches that were undone."""
        with self._lock:
            return set(self._undone)

    def chosen(self, model: str) -> dict[Subject, Any]:
        """The last choices for a model, by administrators and configuration, with which a restarted server continues."""
        with self._lock:
            return {subject: value for subject, value in self._chosen.items() if subject.model == model}

    def configured_labels(self, model: str) -> dict[str, int]:
        """The labels as last set by the configuration, without later switches."""
        with self._lock:
            return {
                subject.name: value
                for subject, value in self._configured.items()
                if isinstance(subject, Label) and subject.model == model and value is not None
            }

    def _remember(self, switch: Switch) -> None:
        self._switches.append(switch)
        if switch.by != WATCHER:
            self._chosen[switch.subject] = switch.after
        if switch.by == CONFIGURATION:
            self._configured[switch.subject] = switch.after
        if switch.undoes is not None:
            self._undone.add(switch.undoes)

    def _append(self, switch: Switch) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(switch.to_json(), ensure_ascii=False) + "\n")


def _read(file: Path) -> Iterable[Switch]:
    """The lines of an earlier log; one that was cut off by a crash is skipped, reported and closed by a line end."""
    if not file.exists():
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    if text and not text.endswith("\n"):
        file.write_text(text + "\n", encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield Switch.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            log.warning("line %d of %s is not a switch and is skipped: %s", number, file, error)
