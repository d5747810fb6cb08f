"""The status of all models: versions, labels, splits and shadows."""

from collections.abc import Iterable
from typing import Any

from dogsnap.routing.resolver import labels_in_force, uses_of
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.repository.model import State
from dogsnap.serving.response_times import Figures, agreement, figures
from dogsnap.serving.tensors.signatures import ServableId

SHOWN_DIFFERENCES = 10


def overview(predictor: Predictor, names: Iterable[str]) -> list[dict[str, Any]]:
    counted, agreed = figures(predictor.metrics), agreement(predictor.metrics)
    return [_describe(predictor, name, counted, agreed) for name in names]


def shadow_report(predictor: Predictor, name: str) -> dict[str, Any] | None:
    """How often a model's shadow names the same breed as the answers, and where
    both differ most; None without a shadow.
    """
    shadow = predictor.repository.chosen.choices(name).shadow
    if shadow is None:
        return None
    names = dict[str, str]()
    for status in predictor.repository.status(ModelSpec(name)):
        if status.description is not None:
            names |= status.description.names
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
    choices, default = repository.chosen.choices(name), repository.default_version(name)
    statuses = repository.status(ModelSpec(name))
    available = [each.version for each in statuses if each.state == State.AVAILABLE]
    labels, pending = labels_in_force(choices, available.__contains__)
    versions = []
    for status in statuses:
        uses = uses_of(choices, status.version, default, available.__contains__)
        more = {"in_use": status.in_use, "used_by": uses}
        times = counted[ServableId(name, status.version)].to_json()
        versions.append({**status.to_json(), **more, **times})
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
