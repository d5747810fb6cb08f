"""The status of all models: versions, labels, splits, shadows, and each
version's requests, errors and latencies.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.samples import Sample

from dogsnap.routing.resolver import labels_in_force, uses_of
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.metrics import SHADOW_PROTOCOL, Metrics
from dogsnap.serving.repository.model import State
from dogsnap.serving.tensors.signatures import ServableId

# Outcomes caused by the server; any other except OK is the client's.
FAULTS = {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED"}
SHOWN_DIFFERENCES = 10
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


def overview(predictor: Predictor, names: Iterable[str]) -> list[dict[str, Any]]:
    counted, agreed = figures(predictor.metrics), agreement(predictor.metrics)
    return [_describe(predictor, name, counted, agreed) for name in names]


def shadow_report(predictor: Predictor, name: str) -> dict[str, Any] | None:
    """How often a model's shadow names the same breed as the answers, and where
    both differ most; None without a shadow.
    """
    shadow = predictor.repository.router.choices(name).shadow
    if shadow is None:
        return None
    names = {}
    for status in predictor.repository.status(ModelSpec(name)):
        if status.description is not None:
            names.update({label["id"]: label["name"] for label in status.description.labels})
    counted = agreement(predictor.metrics)[ServableId(name, shadow)]
    seen = counted["agree"] + counted["differ"]
    differences = predictor.shadow.differences(name, shadow, SHOWN_DIFFERENCES)
    return {
        "version": shadow,
        **counted,
        "agreement": counted["agree"] / seen if seen else None,
        "differences": [
            {"answered": names.get(ours, ours), "shadow": names.get(theirs, theirs), "times": times}
            for (ours, theirs), times in differences
        ],
    }


def _describe(
    predictor: Predictor,
    name: str,
    counted: dict[ServableId, Figures],
    agreed: dict[ServableId, dict[str, int]],
) -> dict[str, Any]:
    repository = predictor.repository
    choices, default = repository.router.choices(name), repository.default_version(name)
    statuses = repository.status(ModelSpec(name))
    available = [each.version for each in statuses if each.state == State.AVAILABLE]
    labels, pending = labels_in_force(choices, available.__contains__)
    versions = []
    for status in statuses:
        figures_of_version = counted.get(ServableId(name, status.version), Figures())
        uses = uses_of(choices, status.version, default, available.__contains__)
        more = {"in_use": status.in_use, "used_by": uses}
        versions.append({**status.to_json(), **more, **figures_of_version.to_json()})
    splits = []
    for label, split in choices.splits.items():
        splits.append({"label": label, "version": split.version, "percent": 100 * split.share})
    shadow = None
    if choices.shadow is not None:
        counts = agreed[ServableId(name, choices.shadow)]
        shadow = {"version": choices.shadow, **counts}
    return {
        "name": name,
        "default_version": default,
        "default_chosen": choices.default,
        "labels": labels,
        "pending_labels": pending,
        "splits": splits,
        "shadow": shadow,
        "versions": versions,
        **predictor.guard.describe(name),
    }
