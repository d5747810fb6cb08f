"""Watches guarded splits: counts how each side answers, keeps that in the store, and undoes what is worse."""

import hashlib
import json
import logging
import secrets
import threading
import time
from dataclasses import asdict, dataclass, field

from dogsnap.errors import Cancelled, DogsnapError, Full
from dogsnap.routing.guard import MOST_CLIENTS, Counts, judge
from dogsnap.routing.switches import GUARD, Switch
from dogsnap.serving.metrics import Metrics, RequestRecord
from dogsnap.serving.repository.interface import ModelRepository

log = logging.getLogger("dogsnap.guard")

NOTES = "guard"  # kind of the notes: <switch>/<server> -> counts
WRITE_SECONDS = 1.0
FIRST_CLIENTS = 10  # whose first runs tell what time is usual
SLOW = 2.0  # times the lower quartile of these


@dataclass
class Watched:
    """A guarded split, and what this server has counted since it has watched it."""

    switch: Switch
    counts: Counts = field(default_factory=Counts)
    first_runs: dict[str, float] = field(default_factory=dict)
    slow_seconds: float = 0.0
    is_written: bool = True
    written: float = 0.0
    text: str = "nothing was counted yet"

    @property
    def version(self) -> int:
        return int(self.switch.changes[0].after["version"])

    @property
    def share(self) -> float:
        return float(self.switch.changes[0].after["share"])

    def count(self, key: str, version: int, error: BaseException | None, seconds: float) -> None:
        client = hashlib.blake2b(f"{self.switch.id}/{key}".encode(), digest_size=8).hexdigest()
        counts, is_new_side = self.counts, version == self.version
        counts.requests[is_new_side] += 1
        if len(counts.clients) < MOST_CLIENTS:
            counts.clients[client] = is_new_side
        if error is not None:
            counts.failures[is_new_side] += 1
            if len(counts.failing) < MOST_CLIENTS:
                counts.failing[client] = is_new_side
        elif client not in self.first_runs and len(self.first_runs) < MOST_CLIENTS:
            self.first_runs[client] = seconds
            self._judge_first_run(client)
        self.is_written = False

    def _judge_first_run(self, client: str) -> None:
        """What is usual depends on the first clients of both sides, and so favours none."""
        judged = [client]
        if not self.slow_seconds:
            if len(self.first_runs) < FIRST_CLIENTS:
                return
            self.slow_seconds = SLOW * sorted(self.first_runs.values())[FIRST_CLIENTS // 4]
            judged = list(self.first_runs)
        for name in judged:
            if self.first_runs[name] > self.slow_seconds:
                self.counts.slow[name] = self.counts.clients.get(name, False)


class Guard:
    """Thread-safe. Every server writes what it has counted, and judges what all have counted."""

    def __init__(self, repository: ModelRepository, metrics: Metrics):
        self._repository, self._router = repository, repository.router
        self._undone = metrics.guard_undone
        self._server = secrets.token_hex(8)
        self._watched: dict[tuple[str, str], Watched] = {}  # by model and label
        self._lock = threading.Lock()
        metrics.on_request = self.record
        self._router.on_follow = self.look

    def record(self, request: RequestRecord, error: BaseException | None) -> None:
        """Count a request without a version number; what was refused before any work is nobody's fault."""
        spec, servable = request.spec, request.servable
        if spec is None or servable is None or spec.version is not None:
            return
        watched = self._watched.get((spec.name, spec.label or ""))
        if watched is None or isinstance(error, Full | Cancelled):
            return
        with self._lock:
            watched.count(spec.sticky_key, servable.version, error, request.run_seconds)

    def findings(self, model: str) -> list[dict[str, object]]:
        """What is known of a model's guarded splits: switch, label, version and a sentence."""
        found: list[dict[str, object]] = []
        for (of_model, label), watched in sorted(self._watched.items()):
            if of_model == model:
                numbers = {"switch": watched.switch.id, "version": watched.version}
                found.append({**numbers, "label": label, "text": watched.text})
        return found

    def look(self) -> None:
        """Write what was counted, judge every guarded split, and undo the worse ones."""
        self._watch_guarded()
        for watched in list(self._watched.values()):
            try:
                self._write(watched)
                self._judge(watched)
            except DogsnapError as error:  # another server was first, or the store is away
                watched.text = f"the guard waits: {error.message}"
                log.debug("switch %d: %s", watched.switch.id, watched.text)

    def _watch_guarded(self) -> None:
        splits = {(model, label): None for model, label, *_ in self._router.splits()}
        watched = {}
        for switch in self._router.switches():
            first = switch.changes[0]
            setting = (first.model, first.name)
            if first.kind == "split" and splits.pop(setting, switch) is None and switch.is_guarded:
                known = self._watched.get(setting)
                is_same = known is not None and known.switch.id == switch.id
                watched[setting] = known if known and is_same else Watched(switch)
        self._watched = watched

    def _write(self, watched: Watched) -> None:
        if watched.is_written or time.monotonic() < watched.written + WRITE_SECONDS:
            return
        with self._lock:
            text = json.dumps(asdict(watched.counts))
            watched.is_written = True
        watched.written = time.monotonic()
        self._router.store.note(NOTES, f"{watched.switch.id}/{self._server}", text)

    def _judge(self, watched: Watched) -> None:
        total = Counts()
        for name, text in self._router.store.notes(NOTES).items():
            number, _, server = name.partition("/")
            if number == str(watched.switch.id) and server != self._server:
                total.add(Counts(**json.loads(text)))
        with self._lock:
            total.add(watched.counts)
        finding = judge(total, watched.share)
        watched.text = finding.text
        if finding.is_worse:
            self._repository.undo(GUARD, watched.switch.id, reason=finding.text)
            model, label = watched.switch.model, watched.switch.changes[0].name
            self._undone.labels(model, label, watched.version).inc()
