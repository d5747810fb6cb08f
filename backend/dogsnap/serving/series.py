"""Requests, errors and latencies of each version over the last day, in buckets
of ten seconds.

A request costs nothing: the metrics count it anyway, and what they have counted
more since the last look is added to the bucket of that look.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dogsnap.serving.metrics import LATENCY_BUCKETS, Metrics
from dogsnap.serving.response_times import FAULTS, Figures, figures, quantile_of
from dogsnap.serving.tensors.signatures import ServableId

BUCKET_SECONDS = 10
BUCKETS = 24 * 3600 // BUCKET_SECONDS
MOST_POINTS = 360  # of an answer: a day by four minutes
RECENT_BUCKETS = 6  # a minute
UPPER_SECONDS = (*LATENCY_BUCKETS, float("inf"))
# Columns of a bucket: requests of each interval of latencies, and those that were refused, and failed.
REFUSED, FAILED = len(UPPER_SECONDS), len(UPPER_SECONDS) + 1
COLUMNS = FAILED + 1
COUNT = np.uint16  # a day of a version takes 300 kB; 6,500 requests a second fill an interval
Counts = npt.NDArray[np.int64]


class Series:
    """Thread-safe.

    Buckets are numbered by a clock that never jumps; times of day are told by
    the clock of the machine as it is when somebody asks.
    """

    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
    ):
        """`clock`, `time_of_day`: seconds."""
        self._metrics, self._clock, self._time_of_day = metrics, clock, time_of_day
        self._counts: dict[ServableId, npt.NDArray[COUNT]] = {}  # by bucket's number % BUCKETS
        self._before = {servable: _row_of(each) for servable, each in figures(metrics).items()}
        self._began = clock()
        self._bucket = 0  # of the last look
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Look at the end of every bucket, in a thread."""
        threading.Thread(target=self._work, name="series", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _work(self) -> None:
        while not self._closed.wait(BUCKET_SECONDS - self._age() % BUCKET_SECONDS):
            self.look()

    def _age(self) -> float:
        return self._clock() - self._began

    def look(self) -> None:
        """Add what was counted since the last look to the bucket of that look."""
        with self._lock:
            now = figures(self._metrics)
            rows = {servable: _row_of(each) for servable, each in now.items()}
            for servable, row in rows.items():
                more = row - self._before.get(servable, np.zeros_like(row))
                if (more < 0).any():  # the version was deleted, and is back
                    more = row
                if more.any():
                    self._add(servable, more)
            self._before = rows
            self._go_on(int(self._age() // BUCKET_SECONDS))

    def _add(self, servable: ServableId, more: Counts) -> None:
        if servable not in self._counts:
            self._counts[servable] = np.zeros((BUCKETS, COLUMNS), COUNT)
        bucket = self._counts[servable][self._bucket % BUCKETS]
        bucket[:] = np.minimum(bucket + more, np.iinfo(COUNT).max)

    def _go_on(self, bucket: int) -> None:
        """To this bucket: it and those that were missed are empty."""
        missed = np.arange(max(self._bucket, bucket - BUCKETS) + 1, bucket + 1) % BUCKETS
        for servable, counts in list(self._counts.items()):
            counts[missed] = 0
            if missed.size and not counts.any():
                del self._counts[servable]
        self._bucket = max(self._bucket, bucket)

    def recent(self, model: str) -> dict[int, int]:
        """The requests of the last minute, by version."""
        self.look()
        last = np.arange(self._bucket - RECENT_BUCKETS + 1, self._bucket + 1) % BUCKETS
        sums = {}
        for servable, counts in list(self._counts.items()):
            if servable.name == model:
                sums[servable.version] = int(counts[last, :REFUSED].sum())
        return sums

    def describe(self, model: str, seconds: float, until: float | None = None) -> dict[str, Any]:
        """The last `seconds` before `until`, seconds since 1970 (None: now), as
        JSON: for each version one value a point.

        `times`: when each point begins; `step`: how long it lasts, the last one
        until `now`; `began`: since when it was counted. Times of requests in
        milliseconds, null for a point without any. `whole`: of all points.
        """
        self.look()
        began, now = self._time_of_day() - self._age(), self._time_of_day()
        end = now if until is None else until
        last = min(self._bucket, int((end - began) // BUCKET_SECONDS))
        asked = int(min(seconds // BUCKET_SECONDS, BUCKETS))
        oldest = max(0, last - asked + 1, self._bucket - BUCKETS + 1)
        width = math.ceil(asked / MOST_POINTS)  # buckets of a point
        # Points begin at multiples of their width: they stay the same from one answer to the next.
        first = oldest // width * width
        starts = np.arange(first, last + 1, width)
        numbers = np.arange(oldest, last + 1)
        versions: dict[str, dict[str, Any]] = {}
        with self._lock:
            for servable, counts in sorted(self._counts.items(), key=lambda each: each[0].version):
                if servable.name == model:
                    points = np.zeros((len(starts), COLUMNS), np.int64)
                    np.add.at(points, (numbers - first) // width, counts[numbers % BUCKETS])
                    whole = _describe(points.sum(0, keepdims=True))
                    sums = {name: value for name, (value,) in whole.items()}
                    versions[str(servable.version)] = {**_describe(points), "whole": sums}
        times = [round(began + BUCKET_SECONDS * start, 3) for start in starts.tolist()]
        step = width * BUCKET_SECONDS
        return {"began": began, "now": now, "step": step, "times": times, "versions": versions}


def _row_of(counted: Figures) -> Counts:
    up_to = [counted.buckets.get(upper, 0.0) for upper in UPPER_SECONDS]
    failed = sum(counted.outcomes[each] for each in FAULTS)
    refused = counted.outcomes.total() - failed - counted.outcomes["OK"]
    return np.array([*np.diff(up_to, prepend=0.0), refused, failed]).astype(np.int64)


def _describe(rows: Counts) -> dict[str, list[float | None]]:
    times: dict[str, list[float | None]] = {}
    for name, quantile in (("p50_ms", 0.5), ("p95_ms", 0.95)):
        times[name] = []
        for counts in rows[:, :REFUSED].cumsum(1).tolist():
            found = quantile_of(list(zip(UPPER_SECONDS, counts, strict=True)), quantile)
            times[name].append(found and round(1000 * found, 3))
    requests = rows[:, :REFUSED].sum(1).tolist()
    refused, failed = rows[:, REFUSED].tolist(), rows[:, FAILED].tolist()
    return {"requests": requests, "refused": refused, "failed": failed, **times}
