"""Prometheus metrics: requests and times per model, version, protocol (label
`door`) and outcome.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dogsnap import __version__
from dogsnap.errors import DogsnapError, Full
from dogsnap.logs import ANSWERED_BY, MOST_OF_NAME, AnsweredBy, shorten
from dogsnap.serving.answers.levels import Level
from dogsnap.serving.tensors.signatures import ServableId

# Seconds; from a trivial model's call to the default deadline.
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)
STEP_BUCKETS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
)
SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
LOAD_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
VERSION = ("model", "version")
WHICH = (*VERSION, "door")
SPLIT_SHARE, SPLIT = "dogsnap_split_share", ("model", "label", "version")
SHADOW_PROTOCOL = "shadow"  # the protocol label of runs on shadows
HTTP_PROTOCOLS = ("api", "simple", "rest", "open_inference", "invocations")
PROTOCOLS = (*HTTP_PROTOCOLS, "grpc", SHADOW_PROTOCOL)
# The outcomes whose series begin at 0 with the first one.
OUTCOMES = (
    "OK",
    "INVALID_ARGUMENT",
    "FAILED_PRECONDITION",
    "NOT_FOUND",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
    "UNKNOWN",
)
# Whether the request of this thread is in the counter of requests.
COUNTED: ContextVar[bool] = ContextVar("counted", default=False)


class CounterOfKinds:
    """A counter whose series of all `kinds`, the values of its last label, begin at 0
    together: the first event of one that begins at 1 is in no increase or rate.
    """

    def __init__(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        registry: CollectorRegistry,
        kinds: Iterable[str],
    ):
        self._counter = Counter(name, text, labels, registry=registry)
        self._kinds = tuple(kinds)
        self._begun: set[tuple[str, ...]] = set()

    def begin(self, *others: object) -> None:
        key = tuple(map(str, others))
        if key not in self._begun:
            self._begun.add(key)
            for kind in self._kinds:
                self._counter.labels(*key, kind)

    def labels(self, *values: object) -> Counter:
        self.begin(*values[:-1])
        return self._counter.labels(*values)

    def remove_by_labels(self, labels: dict[str, str]) -> None:
        self._begun.clear()
        self._counter.remove_by_labels(labels)


@dataclass
class RequestRecord:
    """Which version answers a request; None while it has reached none: the
    number of names in requests is unbounded.
    """

    servable: ServableId | None = None
    run_seconds: float = 0.0


OnStep = Callable[[str, float, ServableId | None], None]  # its name, and how long it took
OnEnd = Callable[[RequestRecord, BaseException | None], None]  # with the error, if it failed


class Metrics(Collector):
    """One registry per server, so that tests can run several in a process."""

    def __init__(self, on_step: OnStep = lambda step, seconds, servable: None) -> None:
        """`on_step` is called after each step of a request, for traces."""
        self.registry = CollectorRegistry()
        self.label_names: dict[str, tuple[str, ...]] = {SPLIT_SHARE: SPLIT}  # by metric
        self._of_versions: list[Any] = []  # the metrics that grow with every version
        self.forgotten: dict[str, int] = defaultdict(int)  # by model, how often `forget` was called
        self._on_step = on_step
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        build = Info("dogsnap_build", "the release that runs", registry=self.registry)
        build.info({"version": __version__})
        self._add_requests()
        self._add_versions()
        self._add_answers()
        for protocol in PROTOCOLS:
            self._requests.begin("", "", protocol)
            self.refused.begin(protocol)

    def _add_requests(self) -> None:
        self._requests = self.add(
            CounterOfKinds,
            "dogsnap_requests",
            "requests by outcome: OK or a canonical error code (the label door is the protocol)",
            (*WHICH, "outcome"),
            kinds=OUTCOMES,
        )
        self._seconds = self.add(
            Histogram,
            "dogsnap_request_seconds",
            "time from a parsed request to its answer",
            WHICH,
            buckets=LATENCY_BUCKETS,
        )
        self._step_seconds = self.add(
            Histogram,
            "dogsnap_step_seconds",
            "time of one step of a request: check (the photo), queue (wait for a run "
            "thread), run (the network), name",
            (*VERSION, "step"),
            buckets=STEP_BUCKETS,
        )
        self._sizes = self.add(
            Histogram,
            "dogsnap_batch_size",
            "photos or rows in one run of the network",
            VERSION,
            buckets=SIZE_BUCKETS,
        )
        self.refused = self.add(
            CounterOfKinds,
            "dogsnap_refused_requests",
            "requests refused before any work: full (no place in the queue), key (none "
            "or a wrong one), rate (over a limit)",
            ("door", "reason"),
            kinds=("full", "key", "rate"),
        )
        self._routed = self.add(
            Counter,
            "dogsnap_routed_requests",
            "requests without a version number, by label ('' for the default) and the "
            "version that answered",
            ("model", "label", "version"),
        )

    def _add_versions(self) -> None:
        self.available = self.add(
            Gauge, "dogsnap_version_available", "1 while the version is available", VERSION
        )
        self._load_seconds = self.add(
            Gauge,
            "dogsnap_load_seconds",
            "duration of the last load and warm-up of the version",
            VERSION,
        )
        self._load_times = self.add(
            Histogram,
            "dogsnap_load_duration_seconds",
            "duration of each load and warm-up",
            ("model",),
            buckets=LOAD_BUCKETS,
        )
        self.failed_loads = self.add(
            Counter, "dogsnap_failed_loads", "failed loads of the version", VERSION
        )

    def _add_answers(self) -> None:
        self.answered = self.add(
            CounterOfKinds,
            "dogsnap_answers",
            "answers of /api/classify by level: breed, group, set, unsure, unknown, no_dog "
            "or labels",
            (*VERSION, "level"),
            kinds=Level,
        )
        self.feedback = self.add(
            CounterOfKinds,
            "dogsnap_feedback",
            "answers that got feedback: right, wrong, or unclear (e.g. a mix)",
            (*VERSION, "verdict"),
            kinds=("right", "wrong", "unclear"),
        )
        self._shadowed = self.add(
            CounterOfKinds,
            "dogsnap_shadowed_photos",
            "rows of requests sent to a shadow: agree or differ (in the best answer), dropped "
            "(the server was busy), failed",
            (*VERSION, "shadow", "result"),
            kinds=("agree", "differ", "dropped", "failed"),
        )
        self.guard_undone = self.add(
            Counter,
            "dogsnap_guard_undone",
            "guarded switches that were undone since the version did worse or was slower",
            SPLIT,
        )

    def add(
        self, kind: type[Any], name: str, text: str, labels: tuple[str, ...] = (), **options: Any
    ) -> Any:
        """A new metric of this kind (Counter, Gauge or Histogram) in the registry."""
        self.label_names[name] = labels
        metric = kind(name, text, labels, registry=self.registry, **options)
        if set(VERSION) <= set(labels):
            self._of_versions.append(metric)
        return metric

    @contextmanager
    def request(
        self,
        protocol: str,
        label: str | None = None,
        on_end: OnEnd = lambda record, error: None,
    ) -> Iterator[RequestRecord]:
        """Count and time what happens inside, whatever its end, and call `on_end` then;
        `label` ("" for the default) if it names no version.
        """
        COUNTED.set(True)
        record, started, outcome = RequestRecord(), time.perf_counter(), "INTERNAL"
        failure: BaseException | None = None
        try:
            yield record
            outcome = "OK"
        except BaseException as error:
            failure = error
            if isinstance(error, DogsnapError):
                outcome = error.code
            if isinstance(error, Full):
                self.refused.labels(protocol, "full").inc()
            raise
        finally:
            on_end(record, failure)
            model, version = _labels(record.servable)
            ANSWERED_BY.set(AnsweredBy(model, version, shorten(label or "", MOST_OF_NAME)))
            self._requests.labels(model, version, protocol, outcome).inc()
            self._seconds.labels(model, version, protocol).observe(time.perf_counter() - started)
            if label is not None and model:
                self._routed.labels(model, label, version).inc()

    def count_unread(self, protocol: str, outcome: str) -> None:
        """Count a request of which nothing is known, since it could not be read, unless
        it is counted.
        """
        if not COUNTED.get():
            self._requests.labels("", "", protocol, outcome).inc()

    def expect(self, servable: ServableId) -> None:
        """Begin the counters of a version at 0."""
        self.failed_loads.labels(*servable)
        self.answered.begin(*servable)
        self.feedback.begin(*servable)
        self._routed.labels(servable.name, "", servable.version)
        for protocol in PROTOCOLS:
            self._requests.begin(*servable, protocol)

    @contextmanager
    def step(self, step: str, servable: ServableId | None = None) -> Iterator[None]:
        """Time a step of a request; without `servable` before the version is known."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.took(step, time.perf_counter() - started, servable)

    def took(self, step: str, seconds: float, servable: ServableId | None = None) -> None:
        self._step_seconds.labels(*_labels(servable), step).observe(seconds)
        self._on_step(step, seconds, servable)

    def ran(self, servable: ServableId, size: int) -> None:
        """Record a batch size."""
        self._sizes.labels(*servable).observe(size)

    def count_shadow(self, answered: ServableId, shadow: int, result: str, photos: int) -> None:
        """Count photos of a shadow by result: agree, differ, dropped or failed."""
        self._shadowed.labels(*answered, shadow, result).inc(photos)

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a gauge that is evaluated at each scrape."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def watch_splits(self, splits: Callable[[], Iterable[tuple[str, str, int, float]]]) -> None:
        """Add the gauge of splits (model, label, version, share), so that ended
        ones leave the metrics.
        """
        self._splits = splits
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            SPLIT_SHARE,
            "share of a label's requests that the split sends to the version, 0 to 1",
            labels=SPLIT,
        )
        for *names, version, share in self._splits():
            family.add_metric((*names, str(version)), share)
        return [family]

    def record_load(self, servable: ServableId, seconds: float) -> None:
        self.expect(servable)
        self.available.labels(*servable).set(1)
        self._load_seconds.labels(*servable).set(seconds)
        self._load_times.labels(servable.name).observe(seconds)

    def forget(self, servable: ServableId) -> None:
        """Remove a version from the metrics that was deleted, or was exported again."""
        for metric in self._of_versions:
            metric.remove_by_labels({"model": servable.name, "version": str(servable.version)})
        self._shadowed.remove_by_labels({"model": servable.name, "shadow": str(servable.version)})
        self.forgotten[servable.name] += 1


def _labels(servable: ServableId | None) -> tuple[str, str]:
    return (servable.name, str(servable.version)) if servable else ("", "")
