"""Entries of the log: a switch with its author, time and changes, as JSON and in words."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from dogsnap.errors import Unavailable
from dogsnap.model_urls import without_secrets
from dogsnap.routing.choices import CONFIGURATION_KIND, HIDDEN, KINDS, Change

FORMAT = 1  # of an entry in a store
OPTIONAL = ("forced", "is_guarded", "reason")  # fields that are written only if they are set
MAX_NAME = 64  # characters of an author's name


@dataclass(frozen=True)
class Who:
    """The author of a switch: the name that the client gave, and its address."""

    name: str
    address: str = ""


# Authors of automatic switches: a changed configuration; a default that moved by itself, whose
# entry records that and changes no value.
CONFIGURATION = Who("configuration")
WATCHER = Who("watcher")
GUARD = Who("guard")
ROLLOUT = Who("rollout")
RESERVED = ("", CONFIGURATION.name, WATCHER.name, GUARD.name, ROLLOUT.name)


def check_author(name: str, address: str) -> Who:
    """The author in one line of at most 64 characters; nobody can pose as the server."""
    name = " ".join(name.split())[:MAX_NAME]
    return Who("someone" if name in RESERVED else name, address)


@dataclass(frozen=True)
class Switch:
    """An entry of the log; `id` counts from 1, `at` is UTC in ISO 8601.

    The first of `changes` is what was asked for, the others came with it.
    `undoes`: the id of the switch that it undoes, or None. `forced`: the
    differences in spite of which it was made. `is_guarded`: it is undone if its
    version is worse. `reason`: why the guard has undone another.
    """

    id: int
    at: str
    by: Who
    changes: tuple[Change, ...]
    undoes: int | None = None
    forced: tuple[str, ...] = ()
    is_guarded: bool = False
    reason: str = ""

    @property
    def model(self) -> str:
        """The model that was switched; "" for the configuration of a server."""
        return self.changes[0].model

    @property
    def models(self) -> tuple[str, ...]:
        """All models that were switched, each once."""
        if not self.model:
            return ("",)
        return tuple(dict.fromkeys(change.model for change in self.changes))

    def to_text(self) -> str:
        """JSON for a store."""
        entry = asdict(self)
        del entry["id"]
        for name in OPTIONAL:  # earlier releases read what they know
            if not entry[name]:
                del entry[name]
        return json.dumps({"format": FORMAT, **entry}, ensure_ascii=False)

    @classmethod
    def from_text(cls, number: int, text: str) -> "Switch":
        """Raises Unavailable for an entry that this release cannot read."""
        try:
            entry = json.loads(text)
            written = entry.pop("format")
            if written != FORMAT:
                raise Unavailable(
                    f"switch {number} has format {written}, this release reads {FORMAT}: a newer "
                    "release wrote it; update this server, or choose another --switch-log"
                )
            changes = tuple(Change(**change) for change in entry.pop("changes"))
            if not changes or any(change.kind not in KINDS for change in changes):
                raise ValueError("no or unknown kinds of changes")
            forced = tuple(entry.pop("forced", ()))
            by = Who(**entry.pop("by"))
            return cls(number, by=by, changes=changes, forced=forced, **entry)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Unavailable(
                f"switch {number} cannot be read ({error!r}); expected a log of switches of "
                "dogsnap, choose another --switch-log"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """JSON for clients; `kind`, `name`, `from` and `to` are those of the
        first change, `text` is about all.
        """
        first = self.changes[0]
        return {
            "id": self.id,
            "at": self.at,
            "by": asdict(self.by),
            "model": first.model,
            "kind": first.kind,
            "name": first.name,
            "from": first.before,
            "to": first.after,
            "undoes": self.undoes,
            "forced": list(self.forced),
            "guarded": self.is_guarded,
            "reason": self.reason,
            "text": str(self),
        }

    def __str__(self) -> str:
        shown = [describe(change) for change in self.changes if change.kind != HIDDEN]
        forced = f" (forced: {'; '.join(self.forced)})" if self.forced else ""
        guarded = " (guarded)" if self.is_guarded else ""
        reason = f" ({self.reason})" if self.reason else ""
        return "; ".join(shown) + forced + guarded + reason


def iso(time: datetime) -> str:
    """A time in UTC, e.g. 2026-11-26T09:30:00.123456Z."""
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def describe(change: Change) -> str:
    """E.g. "label stable of half: 1 -> 2"."""
    before = describe_value(change.kind, change.before)
    return f"{describe_setting(change)}: {before} -> {describe_value(change.kind, change.after)}"


def describe_setting(change: Change) -> str:
    """E.g. "label stable of half"."""
    model, name = change.model, change.name
    titles = {
        "label": f"label {name} of {model}",
        "split": f"split of {describe_label(name)} of {model}",
        "rollout": f"rollout of {describe_label(name)} of {model}",
        "load": f"version {name} of {model}",
        "unload": f"all versions of {model}",
        CONFIGURATION_KIND: CONFIGURATION_KIND,
    }
    return titles.get(change.kind, f"{change.kind} of {model}")


def describe_label(label: str) -> str:
    return f"label {label}" if label else "the default"


def describe_value(kind: str, value: Any) -> str:
    if value is None:
        words = {
            "default": "not chosen",
            "load": "as the policy says",
            "unload": "as the policy says",
            CONFIGURATION_KIND: "as at the start",
        }
        return words.get(kind, "none")
    if kind == "split":
        return f"{100 * value['share']:g} % to {value['version']}"
    if kind == "rollout":
        return _describe_rollout(value)
    if kind in ("load", "unload"):
        return "loaded" if value and kind == "load" else "unloaded"
    if kind == CONFIGURATION_KIND:
        return "; ".join(map(_describe_model, value)) or "no model"
    return str(value)


def _describe_rollout(value: dict[str, Any]) -> str:
    """E.g. "to 2, step 1 of 3 (5 %, then 25, 100)"."""
    step, steps = value["step"], [f"{step:g}" for step in value["steps"]]
    paused = ", paused" if value["is_paused"] else ""
    if step < 0:
        begin = f"from {value['since'][:19]}Z"
        return f"to {value['version']} by {', '.join(steps)} % {begin}{paused}"
    more = f", then {', '.join(steps[step + 1 :])}"
    return f"to {value['version']}, step {step + 1} of {len(steps)} ({steps[step]} %{more}){paused}"


def _describe_model(config: dict[str, Any]) -> str:
    """E.g. "half in /models/half, latest 2"."""
    policies: dict[str, dict[str, Any]] = config.get("model_version_policy") or {"all": {}}
    ((policy, options),) = policies.items()
    numbers = options.get("versions", [])
    if "num_versions" in options:
        numbers = [options["num_versions"]]
    base_path = without_secrets(config["base_path"])
    return f"{config['name']} in {base_path}, {' '.join([policy, *map(str, numbers)])}"
