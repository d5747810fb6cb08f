"""Requests, errors and latencies of each version, as the metrics have counted them."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.samples import Sample

from dogsnap.serving.metrics import SHADOW_PROTOCOL, Metrics
from dogsnap.serving.tensors.signatures import ServableId

# Outcomes caused by the server; any other except OK is the client's.
FAULTS = {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED"}
REQUESTS, SHADOWED = "dogsnap_requests_total", "dogsnap_shadowed_photos_total"
SECONDS, BUCKETS = "dogsnap_request_seconds_sum", "dogsnap_request_seconds_bucket"


@dataclass
class Figures:
    """Counts and times of one version.

    `buckets`: upper bound in seconds -> requests at most that long.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    buckets: dict[float, float] = field(default_factory=lambda: defaultdict(float))

    def to_json(self) -> dict[str, Any]:
        """`refused`: wrong requests; `failed`: failures of the server; times in
        milliseconds, null without requests.
        """
        requests, failed = self.outcomes.total(), sum(self.outcomes[each] for each in FAULTS)
        p50, p95 = (quantile_of(sorted(self.buckets.items()), each) for each in (0.5, 0.95))
        return {
            "requests": requests,
            "refused": requests - failed - self.outcomes["OK"],
            "failed": failed,
            "error_rate": failed / requests if requests else None,
            "mean_ms": 1000 * self.seconds / requests if requests else None,
            "p50_ms": p50 and 1000 * p50,
            "p95_ms": p95 and 1000 * p95,
        }


def quantile_of(buckets: list[tuple[float, float]], quantile: float) -> float | None:
    """A quantile from cumulative histogram buckets, with linear interpolation
    as in Prometheus' histogram_quantile.
    """
    if not buckets or not buckets[-1][1]:
        return None
    rank, lower, below = quantile * buckets[-1][1], 0.0, 0.0
    for upper, count in buckets:
        if count >= rank and count > below:
            if math.isinf(upper):
                return lower
            return lower + (upper - lower) * (rank - below) / (count - below)
        lower, below = upper, count
    return lower


def figures(metrics: Metrics) -> dict[ServableId, Figures]:
    """The figures of every version with requests, without runs as a shadow."""
    found: dict[ServableId, Figures] = defaultdict(Figures)
    for sample in _samples(metrics, REQUESTS, SECONDS, BUCKETS):
        labels = sample.labels
        if not labels["version"] or labels["door"] == SHADOW_PROTOCOL:
            continue
        version = found[ServableId(labels["model"], int(labels["version"]))]
        if sample.name == REQUESTS:
            version.outcomes[labels["outcome"]] += int(sample.value)
        elif sample.name == SECONDS:
            version.seconds += sample.value
        else:
            version.buckets[float(labels["le"])] += sample.value
    return found


def agreement(metrics: Metrics) -> dict[ServableId, dict[str, int]]:
    """By shadow version: the number of photos with each result (agree, differ,
    dropped, failed).
    """
    results = ("agree", "differ", "dropped", "failed")
    found: dict[ServableId, dict[str, int]] = defaultdict(lambda: dict.fromkeys(results, 0))
    for sample in _samples(metrics, SHADOWED):
        shadow = ServableId(sample.labels["model"], int(sample.labels["shadow"]))
        found[shadow][sample.labels["result"]] += int(sample.value)
    return found


def _samples(metrics: Metrics, *names: str) -> Iterator[Sample]:
    for family in metrics.registry.restricted_registry(names).collect():
        yield from family.samples
