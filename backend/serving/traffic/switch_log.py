"""The log of switches (author, time, old and new value), in memory and optionally in a file."""

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

log = logging.getLogger("dogsnap.switches")

KEPT = 1000  # switches kept in memory; the file keeps all
MAX_NAME = 64  # characters of what a client says it is called


@dataclass(frozen=True)
class Who:
    """Whom a switch is put down to: the name a client gave itself, and the address the server saw."""

    name: str
    address: str = ""


# The two that switch without being asked: a changed configuration, and a version folder that came or went.
CONFIGURATION = Who("configuration")
WATCHER = Who("watcher")


@dataclass(frozen=True)
class Subject:
    """What a switch changes in a model. `kind` is label, default, split, shadow or load; CONFIGURED is about all models.

    `name` is the label of a label or a split ("" for the split of the default) and the version's number of a load.
    """

    model: str
    kind: str
    name: str = ""

    def __str__(self) -> str:
        text = {
            "label": f"label {self.name}",
            "split": f"split of {f'label {self.name}' if self.name else 'the default'}",
            "load": f"version {self.name}",
        }.get(self.kind, self.kind)
        return f"{text} of {self.model}" if self.model else text


# The models themselves, as somebody sent their configuration to the running server.
CONFIGURED = Subject("", "configuration")


@dataclass(frozen=True)
class Switch:
    """One line of the log. `at` is UTC, ISO 8601; `before` and `after` are the subject's values; `undoes` is an id or None."""

    id: int
    at: str
    by: Who
    subject: Subject
    before: Any
    after: Any
    undoes: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "at": self.at,
            "by": asdict(self.by),
            **asdict(self.subject),
            "from": self.before,
            "to": self.after,
            "undoes": self.undoes,
        }

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> "Switch":
        subject = Subject(line["model"], line["kind"], line["name"])
        return cls(line["id"], line["at"], Who(**line["by"]), subject, line["from"], line["to"], line["undoes"])

    def __str__(self) -> str:
        kind = self.subject.kind
        return f"{self.subject}: {shown(self.before, kind)} -> {shown(self.after, kind)}"


# What it means that nobody chose anything.
UNCHOSEN = {"default": "the largest", "load": "as the policy says", "configuration": "as at the start"}


def shown(value: Any, kind: str = "") -> str:
    """A subject's value for a reader: a version, a split, whether a version is loaded, or the models configured."""
    if isinstance(value, list):
        return "; ".join(map(_model_shown, value)) or "no model"
    if isinstance(value, bool):
        return "loaded" if value else "unloaded"
    if isinstance(value, dict):
        return f"{100 * value['share']:g} % to {value['version']}"
    return UNCHOSEN.get(kind, "none") if value is None else str(value)


def _model_shown(config: dict[str, Any]) -> str:
    """E.g. "half in /models/half, latest 2"; what becomes of its labels has lines of its own."""
    ((policy, options),) = config.get("model_version_policy", {"all": {}}).items() or [("all", {})]
    numbers = options.get("versions", [options["num_versions"]] if "num_versions" in options else [])
    return f"{config['name']} in {config['base_path']}, {' '.join([policy, *map(str, numbers)])}"


class SwitchLog:
    """Append-only; thread-safe. With a file, a new log continues where the last one ended."""

    def __init__(self, file: Path | None = None):
        self._file = file
        self._lock = threading.Lock()
        self._switches: deque[Switch] = deque(maxlen=KEPT)
        self._chosen: dict[Subject, Any] = {}
        self._configured: dict[Subject, Any] = {}
        self._undone: set[int] = set()
        for switch in _read(file) if file else ():
            self._remember(switch)

    def add(self, by: Who, subject: Subject, before: Any, after: Any, undoes: int | None = None) -> Switch:
        """Put a switch down. A file that cannot be written is logged: switching matters more than its record."""
        with self._lock:
            number = self._switches[-1].id + 1 if self._switches else 1
            at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            switch = Switch(number, at, by, subject, before, after, undoes)
            self._remember(switch)
            log.info("switch %d by %s %s: %s", number, by.name, by.address, switch)
            try:
                self._write(switch)
            except OSError as error:
                log.error("switch %d is not in the file: %s", number, error)
        return switch

    def switches(self, model: str = "") -> list[Switch]:
        """Those still in memory, newest first; of one model if it is named."""
        with self._lock:
            return [each for each in reversed(self._switches) if model in ("", each.subject.model)]

    def undone(self) -> set[int]:
        """The ids of the switches that were undone."""
        with self._lock:
            return set(self._undone)

    def chosen(self, model: str) -> dict[Subject, Any]:
        """What people and configuration last chose for a model, so that a restarted server can go on from there."""
        with self._lock:
            return {subject: value for subject, value in self._chosen.items() if subject.model == model}

    def configured_labels(self, model: str) -> dict[str, int]:
        """The labels as the configuration last set them, whatever people did with them since."""
        with self._lock:
            labels = {s.name: value for s, value in self._configured.items() if (s.model, s.kind) == (model, "label")}
            return {label: value for label, value in labels.items() if value is not None}

    def _remember(self, switch: Switch) -> None:
        self._switches.append(switch)
        if switch.by != WATCHER:
            self._chosen[switch.subject] = switch.after
        if switch.by == CONFIGURATION:
            self._configured[switch.subject] = switch.after
        if switch.undoes is not None:
            self._undone.add(switch.undoes)

    def _write(self, switch: Switch) -> None:
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
            log.warning("line %d of %s is no switch and is skipped: %s", number, file, error)
