"""Guards switches: counts how versions answer, keeps that in the
store, undoes the worse, and makes the steps of rollouts whose guard is content.
"""

import hashlib
import json
import logging
import math
import secrets
import statistics
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial

from dogsnap.errors import Cancelled, DogsnapError, Full, Unavailable
from dogsnap.routing.choices import Change, Rollout
from dogsnap.routing.planners import withdraw
from dogsnap.routing.rollout import advance_rollout
from dogsnap.routing.sequential_test import (
    HOUR,
    MOST_CLIENTS,
    PIECE_CLIENTS,
    PIECE_SECONDS,
    Counts,
    Finding,
    Piece,
    Versions,
    judge,
    judge_move,
)
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.sticky_split import Split
from dogsnap.routing.switch_log import GUARD, ROLLOUT, Switch, describe_value, iso
from dogsnap.serving.metrics import Metrics, RequestRecord
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.repository.switcher import Switcher

log = logging.getLogger("dogsnap.guard")

NOTES = "guard"  # kind of the notes: <switch>/<server> -> what that server has counted
LOOK_SECONDS = 1.0
FIRST_CLIENTS = 10  # whose first runs tell what time is usual
SLOW = 2.0  # times the lower quartile of these
NOTHING = Finding("nothing was counted yet")
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
        if count < PIECE_CLIENTS or now - self._began < PIECE_SECONDS:
            return
        runs = [seconds for seconds in self._clients.values() if seconds is not None]
        # Without the first: a client that breaks decides nothing.
        failing = max(0, len(self._failing) - 1) / count
        self.closed.append(Piece(self._began, failing, statistics.median(runs) if runs else 0.0))
        self.start()


class GuardedSwitch(ABC):
    """A guarded switch, what this server has counted of it, and the finding."""

    version: int
    until = math.inf  # by the guard's clock; a split is guarded while it lasts

    def __init__(self, switch: Switch, change: Change):
        """`change`: of one of GUARDED_KINDS."""
        self.switch = switch
        self.change = change
        self.finding = NOTHING
        # The test of a move takes time with the square of its pieces.
        self.judge_once = lru_cache(1)(self.judge)
        self.tests = 1  # that share the rate of false alarms: the steps of a rollout
        for other in switch.changes:
            if other.kind == "rollout" and other.name == change.name:
                self.tests = len((other.after or other.before)["steps"])

    def to_json(self) -> dict[str, object]:
        return {
            "switch": self.switch.id,
            "version": self.version,
            "kind": self.change.kind,
            "label": self.change.name,
            "text": self.finding.text,
        }

    def count(self, spec: ModelSpec, request: RequestRecord, has_failed: bool) -> None:
        """Count a request, beside what Pieces count."""
        return

    @abstractmethod
    def to_text(self) -> str:
        """What this server has counted, for the store; "" for nothing."""

    @abstractmethod
    def judge(self, texts: Sequence[str], before: int | None) -> Finding:
        """What follows from the texts of all servers; `before`: the version that it
        replaces, as far as it is known.
        """


class GuardedSplit(GuardedSwitch):
    def __init__(self, switch: Switch, change: Change):
        super().__init__(switch, change)
        self._split = Split(**change.after)
        self.version = self._split.version
        self._counts = Counts()
        self._first_runs: dict[str, float] = {}
        self._slow_seconds = math.inf

    def count(self, spec: ModelSpec, request: RequestRecord, has_failed: bool) -> None:
        if request.servable is None:  # an engine may lack the version that was meant
            is_new_side = self._split.takes(spec.name, spec.sticky_key)
        else:
            is_new_side = request.servable.version == self.version
        key = f"{self.switch.id}/{spec.sticky_key}"
        client = hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
        counts = self._counts
        counts.requests[is_new_side] += 1
        if len(counts.clients) < MOST_CLIENTS:
            counts.clients[client] = is_new_side
        if has_failed:
            counts.failures[is_new_side] += 1
            if len(counts.failing) < MOST_CLIENTS:
                counts.failing[client] = is_new_side
        elif client not in self._first_runs and len(self._first_runs) < MOST_CLIENTS:
            self._first_runs[client] = request.run_seconds
            self._judge_first_run(client)

    def _judge_first_run(self, client: str) -> None:
        """What is usual depends on the first clients of both sides, and so favours none."""
        judged = [client]
        if len(self._first_runs) == FIRST_CLIENTS:
            self._slow_seconds = SLOW * sorted(self._first_runs.values())[FIRST_CLIENTS // 4]
            judged = list(self._first_runs)
        for name in judged:
            if self._first_runs[name] > self._slow_seconds:
                self._counts.slow[name] = self._counts.clients.get(name, False)

    def to_text(self) -> str:
        return json.dumps(vars(self._counts)) if any(self._counts.requests) else ""

    def judge(self, texts: Sequence[str], before: int | None) -> Finding:
        total = Counts()
        for text in texts:
            total.add(Counts(**json.loads(text)))
        versions = Versions(before, self.version)
        return judge(total, self._split.share, versions, self.tests)


class GuardedMove(GuardedSwitch):
    """Of a label or default, whose pieces go on."""

    def __init__(self, switch: Switch, change: Change, pieces: Pieces, now: float, age: float):
        """`age`: seconds since the switch was made."""
        super().__init__(switch, change)
        self.version = change.after
        self._began, self._made = now, now - age
        self.until = self._made + HOUR
        self._pieces = pieces
        pieces.start()  # the open one has requests from before and after
        self._before = [piece for piece in pieces.closed if piece.at > self._made - HOUR]

    def to_text(self) -> str:
        after = [piece for piece in self._pieces.closed if piece.at >= self._began]
        # With times since the move, which those of other servers have as well.
        told = []
        for pieces in (self._before, after):
            told.append([piece._replace(at=piece.at - self._made) for piece in pieces])
        return json.dumps(told)

    def judge(self, texts: Sequence[str], before: int | None) -> Finding:
        earlier: list[Piece] = []
        later: list[Piece] = []
        for text in texts:
            pieces = json.loads(text)
            earlier += map(Piece._make, pieces[0])
            later += map(Piece._make, pieces[1])
        versions = Versions(before, self.version)
        return judge_move(earlier, sorted(later), versions, self.tests)


def seconds_of(text: str) -> float:
    """Since 1970, of a time in ISO 8601."""
    return datetime.fromisoformat(text).timestamp()


class Guard:
    """Thread-safe.

    Every server writes what it has counted, and judges what all have counted;
    of several servers one undoes a switch, or makes a step.
    """

    def __init__(
        self,
        repository: ModelRepository,
        switcher: Switcher,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
    ):
        """`clock`: seconds, and never jumps; `time_of_day`: seconds since 1970."""
        self._repository = repository
        self._chosen = repository.chosen
        self._switcher = switcher
        self._undone = metrics.guard_undone
        self._clock, self._time_of_day = clock, time_of_day
        self._server = secrets.token_hex(8)
        self._guarded: dict[Setting, GuardedSwitch] = {}
        self._pieces: dict[Setting, Pieces] = defaultdict(Pieces)
        self._waits: dict[Setting, str] = {}  # what rollouts wait for
        self._lock = threading.Lock()
        self._revision = -1  # of what is chosen, when its switches were looked through
        self._looked = self._read = -math.inf  # the second: while the store answered
        self._made: dict[str, float] = {}  # switches and steps by their time of day

    def record(self, spec: ModelSpec, request: RequestRecord, error: BaseException | None) -> None:
        """Count a request without a version number; what was refused unseen is
        nobody's fault.
        """
        if spec.version is not None or isinstance(error, Full | Cancelled):
            return
        setting = (spec.name, spec.label or "")
        has_failed = error is not None
        with self._lock:
            if request.servable is None and setting not in self._pieces:  # perhaps no such label
                return
            if guarded := self._guarded.get(setting):
                guarded.count(spec, request, has_failed)
            # Of both sides: the next move is judged by all clients, and so is its hour before.
            pieces = self._pieces[setting]
            pieces.add(self._clock(), spec.sticky_key, has_failed, request.run_seconds)

    def describe(self, model: str) -> dict[str, list[dict[str, object]]]:
        """The guarded switches of a model and its rollouts, each with a sentence."""
        guarded = self._guarded_now()
        guards = [each.to_json() for each in guarded if each.change.model == model]
        rollouts = []
        for label, rollout in self._chosen.choices(model).rollouts.items():
            value = rollout.to_value()
            text = describe_value("rollout", value)
            if waits := self._waits.get((model, label), ""):
                text = f"{text}; {waits}"
            rollouts.append({"label": label, **value, "text": text})
        return {"guards": guards, "rollouts": rollouts}

    def follow(self) -> None:
        """Do what is due, after what is chosen was read from its store."""
        if self._chosen.revision != self._revision:
            self._find_guarded()
        if self._clock() >= self._looked + LOOK_SECONDS:
            self.look()

    def _find_guarded(self) -> None:
        """The newest switch of each setting, if it is guarded."""
        self._revision = self._chosen.revision
        guarded = {}
        for setting, (switch, change) in sorted(self._chosen.newest_changes().items()):
            known = self._guarded.get(setting)
            if known is not None and known.switch.id == switch.id:
                guarded[setting] = known
            elif switch.is_guarded and change.after is not None:  # no end of a split or label
                guarded[setting] = self._begin(switch, change)
        with self._lock:
            self._guarded = guarded

    def _begin(self, switch: Switch, change: Change) -> GuardedSwitch:
        version = change.after["version"] if change.kind == "split" else change.after
        self._undone.labels(change.model, change.name, version)  # it begins at 0
        if change.kind == "split":
            return GuardedSplit(switch, change)
        with self._lock:
            pieces = self._pieces[change.model, change.name]
            return GuardedMove(
                switch, change, pieces, self._clock(), self._seconds_since(switch.at)
            )

    def _seconds_since(self, at: str) -> float:
        """Since a switch or step was made `at` this time of day; at most since the
        store was last read, which did not have it: the clocks of two servers may differ.
        """
        now = self._clock()
        if at not in self._made:
            age = self._time_of_day() - seconds_of(at)
            self._made[at] = now - min(max(0.0, age), now - self._read)
        return now - self._made[at]

    def _guarded_now(self) -> list[GuardedSwitch]:
        """In the order of models and labels."""
        now = self._clock()
        return [guarded for guarded in self._guarded.values() if now <= guarded.until]

    def look(self) -> None:
        """Write what was counted, judge every guarded switch, undo the worse
        ones, and make the steps that are due.
        """
        now = self._clock()
        with self._lock:
            for pieces in self._pieces.values():
                pieces.close(now)
        for guarded in self._guarded_now():
            try:
                self._judge(guarded)
            except DogsnapError as error:  # another server was first, or the store is away
                guarded.finding = Finding(f"the guard waits: {error.message}")
                log.debug("switch %d: %s", guarded.switch.id, guarded.finding.text)
        with suppress(Unavailable):
            self._forget_old_notes()
        self._advance_rollouts()
        self._looked = now
        if not self._chosen.trouble:
            self._read = now

    def _judge(self, guarded: GuardedSwitch) -> None:
        prefix = f"{guarded.switch.id}/"
        own_name = prefix + self._server
        with self._lock:
            own_text = guarded.to_text()
        notes = self._chosen.store.notes(NOTES)
        if own_text and own_text != notes.get(own_name):
            self._chosen.store.note(NOTES, own_name, own_text)
            notes[own_name] = own_text
        texts = tuple(text for name, text in sorted(notes.items()) if name.startswith(prefix))
        guarded.finding = guarded.judge_once(texts, self._version_before(guarded.change))
        if guarded.finding.is_worse:
            change = guarded.change
            planners = {change.model: partial(withdraw, switch=guarded.switch, change=change)}
            plan = self._switcher.plan(planners, is_compared=False, undoes=guarded.switch)
            self._switcher.apply(plan, GUARD, reason=guarded.finding.text)
            self._undone.labels(change.model, change.name, guarded.version).inc()

    def _version_before(self, change: Change) -> int | None:
        """The version that a split takes requests from, or that a move left."""
        if change.kind != "split":
            return change.before if isinstance(change.before, int) else None
        if change.name:
            return self._chosen.choices(change.model).labels.get(change.name)
        with suppress(DogsnapError):
            return self._repository.default_version(change.model)
        return None

    def _forget_old_notes(self) -> None:
        """Delete what was counted for switches that are guarded no longer."""
        numbers = {guarded.switch.id for guarded in self._guarded_now()}
        for name in self._chosen.store.notes(NOTES):
            number = int(name.partition("/")[0])
            # Another server may guard a switch that is not known here yet.
            if number not in numbers and number <= self._chosen.revision:
                self._chosen.store.forget_note(NOTES, name)

    def _advance_rollouts(self) -> None:
        waits = {}
        for model, label, rollout in self._chosen.rollouts():
            try:
                waits[model, label] = self._advance(model, label, rollout)
            except DogsnapError as error:  # another server was first, or the version is not there
                waits[model, label] = f"waits: {error.message}"
                log.debug("rollout of %s %s %s", model, label, waits[model, label])
        self._waits = waits

    def _advance(self, model: str, label: str, rollout: Rollout) -> str:
        """Make the next step if it is its time; otherwise say what it waits for."""
        if rollout.is_paused:
            return ""
        if rollout.step >= 0:
            left = rollout.every - self._seconds_since(rollout.since)
        else:
            left = seconds_of(rollout.since) - self._time_of_day()
        if left > 0:
            percent = rollout.steps[rollout.step + 1]
            due = self._time_of_day() + left
            return f"{percent:g} % from {iso(datetime.fromtimestamp(due, UTC))[:19]}Z"
        if rollout.step >= 0:
            guarded = self._guarded.get((model, label))
            finding = guarded.finding if guarded else NOTHING
            if not finding.is_content:
                return f"waits: {finding.text}"
            if finding.requests < rollout.requests:
                return (
                    f"waits: {finding.requests} requests in this step, {rollout.requests} are "
                    "asked for"
                )
        now = iso(datetime.now(UTC))
        planners = {model: partial(advance_rollout, label=label, rollout=rollout, now=now)}
        plan = self._switcher.plan(planners, is_guarded=True, is_compared=False)
        self._switcher.apply(plan, ROLLOUT)
        return ""
