"""What is chosen for models as a document that can be kept in a repository, and
applied again.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from dogsnap.errors import InvalidArgument
from dogsnap.routing import changes
from dogsnap.routing.changes import Planner, Versions
from dogsnap.routing.choices import Change, Choices
from dogsnap.routing.spec import MAX_INT64

FORMAT = 1
VERSION = {"type": "integer", "minimum": 0, "maximum": MAX_INT64}
VERSION_OR_NONE = {"anyOf": [VERSION, {"type": "null"}]}
SPLIT = {
    "type": "object",
    "properties": {
        "label": {"type": "string"},
        "version": VERSION,
        "percent": {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
    },
    "required": ["version", "percent"],
    "additionalProperties": False,
}
MODEL = {
    "type": "object",
    "properties": {
        "default": VERSION_OR_NONE,
        "labels": {"type": "object", "additionalProperties": VERSION},
        "splits": {"type": "array", "items": SPLIT},
        "shadow": VERSION_OR_NONE,
        "loaded": {"type": "array", "items": VERSION},
        "unloaded": {"type": "array", "items": VERSION},
    },
    "additionalProperties": False,
}
DOCUMENT = {
    "type": "object",
    "properties": {
        "format": {"const": FORMAT},
        "models": {"type": "object", "additionalProperties": MODEL},
    },
    "required": ["format", "models"],
    "additionalProperties": False,
}


def describe_state(models: Mapping[str, Choices]) -> dict[str, Any]:
    """The document of what is chosen for these models."""
    described = {}
    for model, choices in models.items():
        splits = []
        for label, split in choices.splits.items():
            named = {"label": label} if label else {}
            percent = round(100 * split.share, 10)
            splits.append({**named, "version": split.version, "percent": percent})
        described[model] = {
            "default": choices.default,
            "labels": dict(choices.labels),
            "splits": splits,
            "shadow": choices.shadow,
            "loaded": [number for number, is_loaded in choices.loads.items() if is_loaded],
            "unloaded": [number for number, is_loaded in choices.loads.items() if not is_loaded],
        }
    return {"format": FORMAT, "models": described}


def read_state(document: Any) -> dict[str, dict[str, Any]]:
    """What the document asks for, by model.

    Raises InvalidArgument with the place of what is wrong.
    """
    written = document.get("format") if isinstance(document, dict) else None
    if isinstance(written, int) and written > FORMAT:
        raise InvalidArgument(
            f"the state has format {written}, this release reads {FORMAT}: a newer release wrote "
            "it; update this server"
        )
    error = best_match(Draft202012Validator(DOCUMENT).iter_errors(document))
    if error is not None:
        place = error.json_path.removeprefix("$.")
        raise InvalidArgument(
            f"the state is wrong at {place}: {error.message:.200}; `dogsnap models export` shows "
            "what is expected"
        )
    models: dict[str, dict[str, Any]] = document["models"]
    for model, wanted in models.items():
        for label in wanted.get("labels", {}):
            if not isinstance(label, str):
                raise InvalidArgument(f"a label of {model} is {label!r}; write it in quotes")
        both = set(wanted.get("loaded", ())) & set(wanted.get("unloaded", ()))
        names = [split.get("label", "") for split in wanted.get("splits", ())]
        if both or len(names) > len(set(names)):
            raise InvalidArgument(f"the state of {model} names a version or a split twice")
    return models


def change_state(choices: Choices, versions: Versions, wanted: Mapping[str, Any]) -> list[Change]:
    """The changes that bring a model to what is wanted; what that does not name
    stays as it is.

    Raises what the switches raise that it takes.
    """
    merged: dict[tuple[str, str], Change] = {}
    for plan in _steps(choices, wanted):
        for change in plan(choices, versions):
            setting = change.kind, change.name
            before = merged[setting].before if setting in merged else change.before
            merged[setting] = Change(change.model, *setting, before, change.after)
            choices = choices.with_changes([change])
    return [change for change in merged.values() if change.before != change.after]


def _steps(choices: Choices, wanted: Mapping[str, Any]) -> list[Planner]:
    """In an order in which each of them is possible if all together are."""
    splits = {split.get("label", ""): split for split in wanted.get("splits", ())}
    steps: list[Planner] = []
    for number in wanted.get("loaded", ()):
        steps.append(partial(changes.change_load, version=number, value=True))
    if "splits" in wanted:
        for label in set(choices.splits) - set(splits):
            steps.append(partial(changes.end_split, label=label))
    if "default" in wanted:
        version = wanted["default"]
        steps.append(
            changes.forget_default
            if version is None
            else partial(changes.change_default, version=version)
        )
    steps += _label_steps(choices, wanted)
    for label, split in splits.items():
        share = split["percent"] / 100
        steps.append(partial(_make_split, label=label, version=split["version"], share=share))
    if "shadow" in wanted:
        steps.append(partial(changes.change_shadow, version=wanted["shadow"]))
    for number in wanted.get("unloaded", ()):
        steps.append(partial(changes.change_load, version=number, value=False))
    if "loaded" in wanted and "unloaded" in wanted:
        for number in set(choices.loads) - {*wanted["loaded"], *wanted["unloaded"]}:
            steps.append(partial(_forget_load, version=number))
    return steps


def _label_steps(choices: Choices, wanted: Mapping[str, Any]) -> list[Planner]:
    steps: list[Planner] = []
    for label, version in wanted.get("labels", {}).items():
        steps.append(partial(changes.change_label, label=label, version=version))
    for label in choices.labels:
        if "labels" in wanted and label not in wanted["labels"]:
            steps.append(partial(changes.change_label, label=label, version=None))
    return steps


def _make_split(
    choices: Choices, versions: Versions, label: str, version: int, share: float
) -> list[Change]:
    """Nothing for the same one, which may be a step of a rollout."""
    if choices.get("split", label) == {"version": version, "share": share}:
        return []
    return changes.change_split(choices, versions, label, version, share)


def _forget_load(choices: Choices, versions: Versions, version: int) -> list[Change]:
    return [Change(versions.model, "load", str(version), choices.loads.get(version), None)]
