"""The performance targets of this server and how each is measured: as a ratio within one run where possible."""

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from dogsnap import processor

from bench.candidates import CLIENTS, Bench
from bench.program_runs import CannotMeasure, Load, load

PER_SECOND = "photos/s"
BARE_CALLERS = (1, 8)  # one, and as many as the server's run threads; the better one counts
FIRST_REQUESTS = 31
OVERLOAD = 8  # times the capacity
MULTIPLIES_INT8 = bool(processor.instructions() & processor.INT8)
FASTER = 3.5 if MULTIPLIES_INT8 else 1.9  # version 3 over version 2

Measured = tuple[float, str]  # and a note


@dataclass(frozen=True)
class PerformanceTarget:
    """`asked`: the minimum (`at_least`) or the maximum; `measured`: None if it could not be, and `note` then says why."""

    part: str
    what: str
    asked: float
    at_least: bool
    unit: str = ""
    measured: float | None = None
    note: str = ""

    def met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.asked if self.at_least else self.measured <= self.asked


def start_over_import(bench: Bench) -> Measured:
    def start() -> float:
        with bench.fresh(1, 2) as server:
            return server.ready_seconds

    def tensorflow() -> float:
        begun = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", "import tensorflow"], stderr=subprocess.DEVNULL, check=True
        )
        return time.monotonic() - begun

    return bench.ratio(start, tensorflow, "s")


def first_over_median(bench: Bench) -> Measured:
    def first() -> float:
        with bench.fresh(1, 2) as server:
            times = _first_requests(bench, server.predict_url(2))
        return times[0] / statistics.median(times[1:])

    return statistics.median(first() for _ in range(bench.rounds)), ""


def _first_requests(bench: Bench, url: str) -> list[float]:
    """The latencies of one client's. Raises CannotMeasure if one of them fails."""
    times = load(url, bench.bodies, clients=1, requests=FIRST_REQUESTS).good()
    if len(times) < FIRST_REQUESTS:
        raise CannotMeasure(f"{url} answered {len(times)} of {FIRST_REQUESTS} requests")
    return times


def resident(bench: Bench) -> Measured:
    with bench.fresh(1, 2) as server:
        _first_requests(bench, server.predict_url(2))
        return server.resident_mb(), ""


def added_by_fast(bench: Bench) -> Measured:
    version = bench.version_3()
    with bench.fresh(1, 2) as server:
        load(server.predict_url(2), bench.bodies, clients=CLIENTS, seconds=bench.seconds)
        before = server.resident_mb()
        server.add(version, 3)
        load(server.predict_url(3), bench.bodies, clients=CLIENTS, seconds=bench.seconds)
        return server.resident_mb() - before, ""


def throughput_over_tensorflow(bench: Bench) -> Measured:
    bare = partial(bench.bare, "tensorflow", *BARE_CALLERS)
    return bench.ratio(
        lambda: bench.throughput(bench.plain), lambda: bare()["throughput"], PER_SECOND
    )


def throughput_over_litserve(bench: Bench) -> Measured:
    return bench.ratio(
        lambda: bench.throughput(bench.plain), lambda: bench.throughput(bench.lit_serve), PER_SECOND
    )


def fast_throughput(bench: Bench) -> Measured:
    one_pass, plain = bench.one_pass, bench.plain
    found, note = bench.ratio(
        lambda: bench.throughput(one_pass), lambda: bench.throughput(plain), PER_SECOND
    )
    has = "VNNI or AMX" if MULTIPLIES_INT8 else "neither VNNI nor AMX"
    return found, f"{note}; {bench.server.precision(3)}; the processor has {has}"


def wait_over_bare_call(bench: Bench) -> Measured:
    def wait_ms() -> float:
        times = load(bench.plain, bench.bodies, clients=1, seconds=bench.seconds).good()
        return 1000 * statistics.median(times or [math.nan])

    return bench.ratio(wait_ms, lambda: bench.bare("serving", 1)["p50_ms"], "ms")


@contextmanager
def on_cores(cores: Iterable[int]) -> Iterator[None]:
    """Pin this thread, and processes started inside the block, to these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def goodput_over_capacity(bench: Bench) -> Measured:
    """An open loop of more requests than can be answered, from a load generator on another core than the server's."""
    *others, last = sorted(os.sched_getaffinity(0))
    floods: list[Load] = []
    with on_cores(others or [last]), bench.fresh(2) as server, on_cores([last]):
        url = server.predict_url(2)

        def capacity() -> float:
            return load(url, bench.bodies, clients=CLIENTS, seconds=2 * bench.seconds).throughput()

        def goodput() -> float:
            seconds = 4 * bench.seconds
            floods.append(load(url, bench.bodies, rate=rate, seconds=seconds))
            return floods[-1].good_between(seconds / 4, seconds)

        rate = OVERLOAD * capacity()
        found, note = bench.ratio(goodput, capacity, PER_SECOND)
    counts = f"{sum(len(each.good()) for each in floods)} answered, {sum(each.refused() for each in floods)} refused"
    where = (
        f"the server has {len(others)} of {len(others) + 1} cores"
        if others
        else "one core for both"
    )
    return found, f"{note}; {counts}, {sum(each.failed() for each in floods)} failed; {where}"


OVERLOADED = "goodput at 8 times the capacity / capacity, the sender on a core of its own"
MOST, LEAST = False, True
TARGETS: dict[Callable[[Bench], Measured], PerformanceTarget] = {
    measure: PerformanceTarget(*row)
    for measure, *row in (
        (
            start_over_import,
            "start",
            "start to ready with versions 1 and 2 / TensorFlow's import",
            2.5,
            MOST,
        ),
        (first_over_median, "start", "first request after ready / median", 1.2, MOST),
        (resident, "memory", "resident, versions 1 and 2 loaded", 1200.0, MOST, "MB"),
        (added_by_fast, "memory", "added by version 3", 150.0, MOST, "MB"),
        (
            throughput_over_tensorflow,
            "throughput",
            "version 2, 16 clients / TensorFlow's own call",
            0.97,
            LEAST,
        ),
        (throughput_over_litserve, "throughput", "version 2 / LitServe, 16 clients", 1.25, LEAST),
        (fast_throughput, "fast", "version 3 in one pass / version 2, 16 clients", FASTER, LEAST),
        (wait_over_bare_call, "latency", "p50 of one client / the bare call", 1.1, MOST),
        (goodput_over_capacity, "overload", OVERLOADED, 0.95, LEAST),
    )
}
PARTS = tuple(dict.fromkeys(target.part for target in TARGETS.values()))


def measure(bench: Bench, parts: Sequence[str]) -> list[PerformanceTarget]:
    """The targets of these parts, with what was measured."""
    results = []
    for measured, target in TARGETS.items():
        if target.part not in parts:
            continue
        begun = time.monotonic()
        try:
            figure, note = measured(bench)
            results.append(replace(target, measured=figure, note=note))
        except CannotMeasure as error:
            results.append(replace(target, note=str(error)))
        bench.say(f"{target.part}, {target.what}: {time.monotonic() - begun:.0f} s")
    return results
