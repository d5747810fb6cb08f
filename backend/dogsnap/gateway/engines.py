"""The engines of a target: a connection to each, and which of them gets a call.

Each engine fails alone. The calls that wait for one that is silent are ended,
so that they are made again at another one; one that is slow, or whose runs are
stuck, holds hardly more calls than the others. gRPC's own balancing knows
neither, nor which engine has a version. Names are resolved again and again.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

import grpc

from dogsnap.addresses import format_address
from dogsnap.errors import DeadlineExceeded, Unavailable
from dogsnap.gateway.target import Target, addresses_of, is_ipv6
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.execution.executor import TOO_LATE, remaining

log = logging.getLogger("dogsnap.engine")

LOOK_SECONDS = 1.0  # between two looks at all engines; one that does not answer so long is silent
ASK_SECONDS = 5.0  # timeout of metadata and status calls; for an answer if nobody answers sooner
STUCK_SECONDS = 2.0  # without an answer to any of the calls that wait for an engine
RESOLVE_SECONDS = 5.0  # between two looks for addresses
AHEAD = 8  # calls that an engine may hold beyond those of the one that holds the fewest
# What gRPC itself says for an engine that has not answered.
SILENCE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)
Pair = tuple[str, str]  # of metadata
Methods = dict[str, Any]  # gRPC's callables
Connect = Callable[[str, str], tuple[grpc.Channel, Methods]]  # of an address, and its host's name


LACKING = 4  # least rank of an engine that lacks the version


class Left(Exception):
    """The connection to an engine was given up."""


class Engine:
    """One address.

    `answers`: whether it does. `held`: calls that wait for it. `owed`: questions
    that do. `versions`: the available ones by model, as far as it has told.
    """

    def __init__(self, address: str, host: str, connect: Connect):
        self.address = address
        self.answers = False
        self.heard_at = 0.0  # when it last answered anything, by time.monotonic()
        self.held = 0
        self.owed = 0
        self.versions: dict[str, frozenset[int]] = {}
        self._since = 0.0  # when it began to hold calls, or has answered one of them
        self._was_stuck = False  # until it answers a call
        self._connect = partial(connect, address, host)
        self._lock = threading.Lock()
        self.channel, self._methods = self._connect()

    def call(self, name: str, request: Any, **options: Any) -> Any:
        """Raises grpc.RpcError, and Left if the connection was given up just now."""
        methods = self._methods
        with self._lock:
            self.held += 1
            self._since = time.monotonic() if self.held == 1 else self._since
        try:
            response = methods[name](request, **options)
            self._hear(is_of_call=True)
            return response
        except grpc.RpcError as error:
            if error.code() not in SILENCE:
                self._hear(is_of_call=True)
            self._was_stuck |= self.is_stuck
            raise
        except ValueError:  # the channel is closed
            if methods is self._methods:
                raise
            raise Left from None
        finally:
            with self._lock:
                self.held -= 1

    def ask(
        self, name: str, request: Any, metadata: Sequence[Pair], on_end: Callable[[], None]
    ) -> Any:
        """A call that nobody waits for, as a future."""

        def end(future: Any) -> None:
            with self._lock:
                self.owed -= 1
            if future.code() not in SILENCE:
                self._hear()
                if not self.answers:
                    log.info("the engine at %s answers", self.address)
                self.answers = True
            on_end()

        with self._lock:
            self.owed += 1
        future = self._methods[name].future(request, timeout=ASK_SECONDS, metadata=metadata)
        future.add_done_callback(end)
        return future

    def _hear(self, is_of_call: bool = False) -> None:
        self.heard_at = time.monotonic()
        if is_of_call:
            self._since, self._was_stuck = self.heard_at, False

    @property
    def is_stuck(self) -> bool:
        """Whether calls wait for it in vain. Once it was, it gets one at a time until it answers."""
        is_late = time.monotonic() - self._since > STUCK_SECONDS
        return self.held > 0 and (is_late or self._was_stuck)

    def leave(self) -> None:
        """End the calls that wait for it, with CANCELLED, and connect anew."""
        old = self.channel
        self.channel, self._methods = self._connect()
        old.close()

    def lacks(self, spec: ModelSpec) -> bool:
        """Whether it is known to have no such version, or none at all of the model."""
        versions = self.versions.get(spec.name)
        return versions is not None and not (versions and spec.version in (None, *versions))

    def may_have(self, spec: ModelSpec) -> bool:
        """Whether it can answer for the version, as far as it has told."""
        has_told = spec.name in self.versions
        return not self.lacks(spec) and (self.answers or not has_told)

    def rank(self, spec: ModelSpec) -> int:
        """How fit it is for a call: the smaller, the fitter."""
        return LACKING * self.lacks(spec) + 2 * (not self.answers) + self.is_stuck


class Engines:
    """Thread-safe. Create it after the fork."""

    def __init__(self, target: Target, connect: Connect):
        self._target, self._connect = target, connect
        self._turn = count()
        self._closed = threading.Event()
        self._asking = threading.Lock()
        self._hosts: dict[str, list[str]] = {}
        self._engines: dict[str, Engine] = {}  # by address
        self._leaving: list[Engine] = []
        self._resolve()

    def start(self, look: Callable[[], None]) -> None:
        """Look at the engines every LOOK_SECONDS, and for their addresses."""
        self._begin(LOOK_SECONDS, look)
        if self._target.has_names:  # in a thread of its own: a resolver may hang
            self._begin(RESOLVE_SECONDS, self._resolve)

    def _begin(self, seconds: float, work: Callable[[], None]) -> None:
        repeat = partial(self._repeat, seconds, work)
        threading.Thread(target=repeat, name="engines", daemon=True).start()

    def _repeat(self, seconds: float, work: Callable[[], None]) -> None:
        while not self._closed.is_set():
            try:
                work()
            except Exception:
                log.exception("looking after the engines failed")
            self._closed.wait(seconds)

    def all(self) -> list[Engine]:
        """Without the addresses of a name whose family, IPv4 or IPv6, nobody uses."""
        engines = dict(self._engines)
        for addresses in self._hosts.values():
            of_host = [engines[each] for each in addresses if each in engines]
            families = {is_ipv6(engine.address) for engine in of_host if engine.answers}
            for engine in of_host:
                if len(families) == 1 and is_ipv6(engine.address) not in families:
                    del engines[engine.address]
        return list(engines.values())

    def describe_lack(self, spec: ModelSpec) -> str:
        """How many of those that answer lack a version; "" if none does."""
        answering = [engine for engine in self.all() if engine.answers]
        lacking = sum(engine.lacks(spec) for engine in answering)
        return f"{lacking} of {len(answering)} engines lack it" if lacking else ""

    def pick(self, spec: ModelSpec, tried: Collection[Engine]) -> Engine | None:
        """The engine for the next call; None if none is left that might answer."""
        engines = self.fittest(spec, tried)
        return engines[next(self._turn) % len(engines)] if engines else None

    def fittest(self, spec: ModelSpec, tried: Collection[Engine]) -> list[Engine]:
        """Those that take turns at the next calls; none if none is left that might answer."""
        ranks = {e: e.rank(spec) for e in self._engines.values() if e not in tried}
        best = min(ranks.values(), default=LACKING)
        if not ranks or (tried and best >= LACKING):
            return []
        fittest = [engine for engine, rank in ranks.items() if rank == best]
        most = AHEAD + min(engine.held for engine in fittest)
        return [engine for engine in fittest if engine.held <= most]

    def ask_all(self, name: str, requests: Sequence[Any]) -> dict[Engine, list[Any]]:
        """What each engine answers to these calls, as finished futures, without those
        that do not answer. Calls that wait for a silent one are ended if others answer.

        Raises DeadlineExceeded where a request waits too long for other questions.
        """
        if not self._asking.acquire(timeout=remaining(-1)):  # -1: for ever
            raise DeadlineExceeded(TOO_LATE)
        try:
            begun = time.monotonic()
            # Those that leave may still hold calls.
            engines = [*self._engines.values(), *self._leaving]
            late = {engine for engine in engines if engine.owed}
            answers = self._ask(engines, late, begun, name, requests)
            self._leave_silent(engines, late, begun, bool(answers))
            return answers
        finally:
            self._asking.release()

    def _ask(
        self,
        engines: Sequence[Engine],
        late: set[Engine],
        begun: float,
        name: str,
        requests: Sequence[Any],
    ) -> dict[Engine, list[Any]]:
        ended = SimpleQueue[Engine]()
        # One that was silent before, or owes an answer, is not waited for, unless all do.
        waiting = {engine for engine in engines if engine.answers} - late or set(engines)
        asked, open_calls, metadata = {}, {}, self._target.metadata
        for engine in engines:
            on_end = partial(ended.put, engine)
            open_calls[engine] = len(requests)
            asked[engine] = [engine.ask(name, each, metadata, on_end) for each in requests]
        answers: dict[Engine, list[Any]] = {}
        while waiting:
            with suppress(Empty):
                engine = ended.get(timeout=LOOK_SECONDS / 10)
                open_calls[engine] -= 1
                if not open_calls[engine]:
                    waiting.discard(engine)
                    if engine.heard_at >= begun and engine not in self._leaving:
                        answers[engine] = asked[engine]
            seconds = time.monotonic() - begun
            if seconds > ASK_SECONDS or (answers and seconds > LOOK_SECONDS):
                break
        return answers

    def _leave_silent(
        self, asked: Sequence[Engine], late: set[Engine], begun: float, others_answer: bool
    ) -> None:
        """End the calls that wait for engines that were not heard since; close the
        connections to addresses that are gone once no call waits there.
        """
        for engine in asked:
            is_leaving = engine in self._leaving
            if is_leaving and not engine.owed:  # one that drains refuses what is new alone
                continue
            # One that was not waited for may answer calls.
            since = begun - LOOK_SECONDS if engine in late else begun
            if engine.heard_at < since:
                if engine.answers and not is_leaving:
                    log.warning("the engine at %s does not answer", engine.address)
                engine.answers = False
                if engine.held and others_answer:
                    engine.leave()
        for engine in [each for each in self._leaving if not each.held]:
            self._leaving.remove(engine)
            engine.channel.close()

    def _resolve(self) -> None:
        """Connect to new addresses; those that are gone get no new calls. A name
        keeps its addresses while it has none.
        """
        engines = {}
        for host in self._target.hosts:
            name = format_address(*host)
            with suppress(Unavailable):
                self._hosts[name] = addresses_of(host)
            for address in self._hosts.get(name, [name]):  # gRPC tries to resolve it, or a proxy
                known = self._engines.get(address)
                engines[address] = known or Engine(address, name, self._connect)
        self._leaving += [each for each in self._engines.values() if each.address not in engines]
        self._engines = engines

    def close(self) -> None:
        self._closed.set()
        for engine in [*self._engines.values(), *self._leaving]:
            engine.channel.close()
