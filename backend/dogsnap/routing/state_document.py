"""What is chosen for models as a document that can be kept in a repository, and
applied again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dogsnap.errors import InvalidArgument
from dogsnap.routing.choices import HIDDEN, Choices
from dogsnap.routing.planners import Versions, change_label, change_load, change_unload
from dogsnap.schemas import find_fault, read_schema

FORMAT = 1
# Read with the code: while the server runs, another release may replace the file.
SCHEMA = read_schema(Path(__file__).with_name("state.schema.json"))


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
            **({"served": False} if choices.is_unloaded else {}),
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
    if fault := find_fault(document, SCHEMA):
        raise InvalidArgument(
            f"the state is wrong: {fault}; `dogsnap models export` shows what is expected"
        )
    models: dict[str, dict[str, Any]] = document["models"]
    for model, wanted in models.items():
        both = set(wanted.get("loaded", ())) & set(wanted.get("unloaded", ()))
        names = [split.get("label", "") for split in wanted.get("splits", ())]
        if both or len(names) > len(set(names)):
            raise InvalidArgument(f"the state of {model} names a version or a split twice")
    return models


def change_state(choices: Choices, versions: Versions, wanted: Mapping[str, Any]) -> Choices:
    """The value of a model as wanted; what that does not name stays as it is.

    So does what is as wanted: it is not checked again, as where its version is gone since.
    """
    loads: dict[int, bool | None] = {}
    if "loaded" in wanted and "unloaded" in wanted:
        loads.update(dict.fromkeys(choices.loads))
    loads.update(dict.fromkeys(wanted.get("loaded", ()), True))
    loads.update(dict.fromkeys(wanted.get("unloaded", ()), False))
    after = choices
    for number, is_loaded in loads.items():
        if is_loaded == choices.loads.get(number):
            continue
        after = change_load(after, versions, number, is_loaded)
    if "served" in wanted:
        after = change_unload(after, versions, is_unloaded=not wanted["served"])
    for kind in ("default", "shadow"):
        if kind in wanted:
            after = after.with_value(kind, "", wanted[kind])
    if after.default is None and choices.default is not None:
        largest = next(iter(versions.available), None)  # it answers, and is not chosen
        after = after.with_value(HIDDEN, "", largest)
    if "labels" in wanted:
        labels = {**dict.fromkeys(choices.labels), **wanted["labels"]}
        for label, version in labels.items():
            after = change_label(after, versions, label, version)
    if "splits" in wanted:
        splits: dict[str, Any] = dict.fromkeys(choices.splits)
        for split in wanted["splits"]:
            share = split["percent"] / 100
            splits[split.get("label", "")] = {"version": split["version"], "share": share}
        for label, value in splits.items():
            after = after.with_value("split", label, value)
    return after.with_edits_since(choices)
