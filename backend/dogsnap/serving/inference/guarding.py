"""Watches guarded switches: counts how versions answer, keeps that in the
store, undoes the worse.
"""

import hashlib
import json
import logging
import secrets
import statistics
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field
from datetime import datetime

from dogsnap.errors import Cancelled, DogsnapError, Full, Unavailable
from dogsnap.routing.choices import Change, Split
from dogsnap.routing.guard import (
    HOUR,
    MOST_CLIENTS,
    PIECE_CLIENTS,
    PIECE_SECONDS,
    Counts,
    Finding,
    Piece,
    judge,
    judge_move,
)
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switches import Switch
from dogsnap.serving.metrics import Metrics, RequestRecord
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.tensors.signatures import ServableId

log = logging.getLogger("dogsnap.guard")

NOTES = "guard"  # kind of the notes: <switch>/<server> -> what that server has counted
FIRST_CLIENTS = 10  # whose first runs tell what time is usual
SLOW = 2.0  # times the lower quartile of these
WATCHED_KINDS = ("split", "label", "default")
NOTHING = Finding(False, "nothing was counted yet")
Setting = tuple[str, str]  # model and label, "" for the default


class Pieces:
    """The last hour of a label or default, as pieces for the guard of its next move."""

    def __init__(self) -> None:
        self.closed: deque[Piece] = deque(maxlen=int(HOUR / PIECE_SECONDS))
        self.start()

    def start(self) -> None:
        """Begin a new piece, without the one that is open."""
        self._began = 0.0
        self._clients: dict[str, float | None] = {}  # seconds of the first run that did not fail
        self._failing: set[str] = set()

    def add(self, now: float, client: str, has_failed: bool, seconds: float) -> None:
        self.close(now)
        if not self._clients:
            self._began = now
        if client not in self._clients and len(self._clients) == MOST_CLIENTS:
            return
        if has_failed:
            self._clients.setdefault(client, None)
            self._failing.add(client)
        elif self._clients.get(client) is None:
            self._clients[client] = seconds

    def close(self, now: float) -> None:
        """Close the open piece if it is long and full enough."""
        count = len(self._clients)
        if count < PIECE_CLIENTS or now < self._began + PIECE_SECONDS:
            return
        runs = [seconds for seconds in self._clients.values() if seconds is not None]
        # Without the first: a client that breaks decides nothing.
        failing = max(0, len(self._failing) - 1) / count
        self.closed.append(Piece(self._began, failing, statistics.median(runs) if runs else 0.0))
        self.start()


@dataclass
class BaseWatched:
    """A guarded switch, and what this server has counted since it has watched it."""

    switch: Switch
    change: Change  # of one of WATCHED_KINDS
    version: int
    is_written: bool = True
    finding: Finding = NOTHING

    @property
    def tests(self) -> int:
        """How many share the rate of false alarms: the steps of a rollout, or 1."""
        for change in self.switch.changes:
            if change.kind == "rollout" and change.name == self.change.name:
                return len((change.after or change.before)["steps"])
        return 1

    def to_json(self) -> dict[str, object]:
        numbers = {"switch": self.switch.id, "version": self.version}
        what = {"kind": self.change.kind, "label": self.change.name}
        return {**numbers, **what, "text": self.finding.text}

    def is_over(self, now: float) -> bool:
        return False


@dataclass
class WatchedSplit(BaseWatched):
    share: float = 0.0
    counts: Counts = field(default_factory=Counts)
    first_runs: dict[str, float] = field(default_factory=dict)
    slow_seconds: float = 0.0
    requests: int = 0  # of all servers on the new side

    def is_answered_by_new_side(self, spec: ModelSpec, servable: ServableId | None) -> bool:
        """Or was meant to be: an engine may lack the version."""
        if servable is not None:
            return servable.version == self.version
        return Split(self.version, self.share).takes(spec.name, spec.sticky_key)

    def count(self, key: str, is_new_side: bool, has_failed: bool, seconds: float) -> None:
        client = hashlib.blake2b(f"{self.switch.id}/{key}".encode(), digest_size=8).hexdigest()
        counts = self.counts
        counts.requests[is_new_side] += 1
        if len(counts.clients) < MOST_CLIENTS:
            counts.clients[client] = is_new_side
        if has_failed:
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

    def to_text(self) -> str:
        return json.dumps(asdict(self.counts))

    def judge(self, others: Iterable[str]) -> Finding:
        total = Counts()
        for text in others:
            total.add(Counts(**json.loads(text)))
        total.add(self.counts)
        self.requests = total.requests[1]
        return judge(total, self.share, self.tests)


@dataclass
class WatchedMove(BaseWatched):
    """Of a label or default. `before`: the pieces of the hour before it; `pieces` go on."""

    before: list[Piece] = field(default_factory=list)
    pieces: Pieces = field(default_factory=Pieces)
    began: float = 0.0
    written: int = -1  # so many pieces
    # The last finding, and what it came from: so many pieces, and these texts of others.
    judged: tuple[int, list[str], Finding] = field(default_factory=lambda: (-1, [], NOTHING))

    def is_over(self, now: float) -> bool:
        return now > moved_at(self.switch) + HOUR

    @property
    def after(self) -> list[Piece]:
        return [piece for piece in self.pieces.closed if piece.at >= self.began]

    def to_text(self) -> str:
        return json.dumps([[astuple(piece) for piece in self.before], self._tuples()])

    def _tuples(self) -> list[tuple[float, ...]]:
        after = [astuple(piece) for piece in self.after]
        self.written = len(after)
        return after

    def judge(self, others: Iterable[str]) -> Finding:
        before, after, texts = list(self.before), self.after, list(others)
        self.is_written = len(after) == self.written
        source = (len(after), texts)
        if self.judged[:2] == source:  # the test takes time with the square of the pieces
            return self.judged[2]
        for text in texts:
            earlier, later = json.loads(text)
            before += [Piece(*values) for values in earlier]
            after += [Piece(*values) for values in later]
        after.sort(key=lambda piece: piece.at)
        finding = judge_move(before, after, self.tests)
        self.judged = (*source, finding)
        return finding


Watched = WatchedSplit | WatchedMove


def moved_at(switch: Switch) -> float:
    """Seconds since 1970."""
    return datetime.fromisoformat(switch.at).timestamp()


class Guard:
    """Thread-safe.

    Every server writes what it has counted, and judges what all have counted.
    """

    def __init__(
        self,
        repository: ModelRepository,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ):
        """`clock`: seconds since 1970."""
        self._repository, self._router = repository, repository.router
        self._undone, self._clock = metrics.guard_undone, clock
        self._server = secrets.token_hex(8)
        self._watched: dict[Setting, Watched] = {}
        self._pieces: dict[Setting, Pieces] = defaultdict(Pieces)
        self._lock = threading.Lock()
        self._may_have_notes = True  # of a server before
        self._revision = -1  # of the router, when it was looked at
        metrics.on_request = self.record

    def record(self, request: RequestRecord, error: BaseException | None) -> None:
        """Count a request without a version number; what was refused unseen is
        nobody's fault.
        """
        spec, servable = request.spec, request.servable
        if spec is None or spec.version is not None or isinstance(error, Full | Cancelled):
            return
        setting, has_failed = (spec.name, spec.label or ""), error is not None
        with self._lock:
            if servable is None and setting not in self._pieces:  # perhaps no such label
                return
            watched = self._watched.get(setting)
            if isinstance(watched, WatchedSplit):
                is_new_side = watched.is_answered_by_new_side(spec, servable)
                watched.count(spec.sticky_key, is_new_side, has_failed, request.run_seconds)
            # Of both sides: the next move is judged by all clients, and so is its hour before.
            pieces = self._pieces[setting]
            pieces.add(self._clock(), spec.sticky_key, has_failed, request.run_seconds)

    def findings(self, model: str) -> list[dict[str, object]]:
        """What is known of a model's guarded switches, each with a sentence."""
        found = []
        for setting, watched in sorted(self._watched.items()):
            if setting[0] == model:
                found.append(watched.to_json())
        return found

    def finding_of_split(self, setting: Setting) -> tuple[Finding, int]:
        """Of the guarded split of a model's label; and the requests of all
        servers on its new side.
        """
        watched = self._watched.get(setting)
        if not isinstance(watched, WatchedSplit):
            return NOTHING, 0
        return watched.finding, watched.requests

    def look(self) -> None:
        """Write what was counted, judge every guarded switch, undo the worse ones."""
        for watched in list(self._watched.values()):
            try:
                self._write(watched)
                self._judge(watched)
            except DogsnapError as error:  # another server was first, or the store is away
                watched.finding = Finding(False, f"the guard waits: {error.message}")
                log.debug("switch %d: %s", watched.switch.id, watched.finding.text)
        with suppress(Unavailable):
            self._forget_old_notes()

    def watch_guarded(self) -> None:
        """The newest switch of each setting is watched if it is guarded."""
        if self._router.revision == self._revision and not self._is_any_over():
            return
        self._revision = self._router.revision
        newest: dict[Setting, Switch] = {}
        for switch in self._router.switches():
            for change in switch.changes:
                if change.kind in WATCHED_KINDS:
                    newest.setdefault((change.model, change.name), switch)
        watched = {}
        for setting, switch in newest.items():
            known = self._watched.get(setting)
            if known is None or known.switch.id != switch.id:
                known = self._watch(setting, switch)
            if known is not None and not known.is_over(self._clock()):
                watched[setting] = known
        with self._lock:
            self._watched = watched

    def _is_any_over(self) -> bool:
        return any(watched.is_over(self._clock()) for watched in self._watched.values())

    def _watch(self, setting: Setting, switch: Switch) -> Watched | None:
        """None for a switch without a guard, or one that ended a split or
        removed a label.
        """
        for change in switch.changes:
            if change.kind in WATCHED_KINDS and (change.model, change.name) == setting:
                break
        if not switch.is_guarded or change.after is None:
            return None
        if change.kind == "split":
            version, share = change.after["version"], change.after["share"]
            return WatchedSplit(switch, change, version, share=share)
        now = self._clock()
        if now > moved_at(switch) + HOUR:
            return None
        with self._lock:
            pieces = self._pieces[setting]
            pieces.start()  # the open one has requests from before and after
            before = [piece for piece in pieces.closed if piece.at > now - HOUR]
        return WatchedMove(switch, change, change.after, before=before, pieces=pieces, began=now)

    def _write(self, watched: Watched) -> None:
        with self._lock:
            if isinstance(watched, WatchedMove):
                watched.pieces.close(self._clock())
            text = "" if watched.is_written else watched.to_text()
            watched.is_written = True
        if text:
            self._router.store.note(NOTES, f"{watched.switch.id}/{self._server}", text)

    def _judge(self, watched: Watched) -> None:
        others = []
        for name, text in self._router.store.notes(NOTES).items():
            number, _, server = name.partition("/")
            if number == str(watched.switch.id) and server != self._server:
                others.append(text)
        with self._lock:
            watched.finding = watched.judge(others)
        if watched.finding.is_worse:
            change = watched.change
            self._repository.withdraw(watched.switch, change, watched.finding.text)
            self._undone.labels(change.model, change.name, watched.version).inc()

    def _forget_old_notes(self) -> None:
        """Delete what was counted for switches that are watched no longer."""
        numbers = {str(watched.switch.id) for watched in self._watched.values()}
        if not self._may_have_notes and not numbers:
            return
        self._may_have_notes = bool(numbers)
        for name in self._router.store.notes(NOTES):
            number = name.partition("/")[0]
            # Another server may watch a switch that is not known here yet.
            if number not in numbers and int(number) <= self._router.revision:
                self._router.store.forget_note(NOTES, name)
