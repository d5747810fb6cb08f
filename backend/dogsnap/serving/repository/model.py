"""One model: versions, labels, and chosen default, splits and shadow. Not thread-safe: the repository holds the lock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from dogsnap.errors import InvalidArgument
from dogsnap.files import without_folders
from dogsnap.routing.choices import Choices
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.description import Description
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.servable import Servable
from dogsnap.serving.versions.version_folders import Fingerprint, is_folder


class State(StrEnum):
    """The states of TensorFlow Serving's GetModelStatus."""

    START = "START"
    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclass(frozen=True)
class ModelSpec:
    """The model that a request asks for: by version, label or default. In splits, a `sticky_key` is always on the same side."""

    name: str
    version: int | None = None
    label: str | None = None
    sticky_key: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidArgument("ModelSpec has no name specified.")
        for what, text in (("name", self.name), ("label", self.label or "")):
            try:
                text.encode()
            except UnicodeEncodeError:  # JSON can contain unpaired surrogates
                sentence = (
                    f"expected a model's {what} in UTF-8, received {text!a}; send whole characters"
                )
                raise InvalidArgument(sentence) from None
        if self.version is not None and self.label is not None:
            raise InvalidArgument(
                f"expected a version or a label, received both: {self.version} and {self.label}"
            )


@dataclass
class Version:
    """A version folder; guarded by the repository's lock. `path`: to load it from; `fingerprint`: of that, when last seen."""

    id: ServableId
    path: Path
    state: State = State.START
    error: str = ""
    servable: Servable | None = None
    in_use: int = 0
    fingerprint: Fingerprint = ()
    failed_at: float = 0.0
    load_seconds: float = 0.0

    @property
    def failure(self) -> str:
        """`error` as anybody may read it: without the folders of this machine."""
        own = f"{self.id.name}/{self.id.version}"
        return without_folders(self.error.replace(str(self.path), own))

    def is_elsewhere(self) -> bool:
        """Whether it still answers from the path of before, since the base path was changed."""
        return (
            self.state == State.AVAILABLE
            and self.servable is not None
            and self.servable.path != self.path
        )


@dataclass(frozen=True)
class VersionStatus:
    """`error`: why it failed to load; `runtime`: None unless loaded; `description`: empty if not loaded, None if unknown."""

    version: int
    state: State
    error: str
    load_seconds: float
    runtime: Mapping[str, Any] | None
    description: Description | None

    @property
    def shown_state(self) -> str:
        """FAILED for a version that failed to load, which TensorFlow Serving calls END."""
        return "FAILED" if self.state == State.END and self.error else self.state

    def to_json(self) -> dict[str, Any]:
        """`classes`: how many breeds it names, 0 if none (`/api/classify` refuses it) or not loaded, null if unknown."""
        return {
            "version": self.version,
            "state": self.shown_state,
            "error": self.error,
            "load_seconds": self.load_seconds,
            "runtime": self.runtime,
            "classes": None if self.description is None else len(self.description.labels),
        }


@dataclass
class Model:
    """A configured model: its versions by number, its labels in force, and the administrators' choices.

    `is_named`: the configuration names it, it was not only found in a folder. `was_ready`: a version of it was available once.
    `is_new`: no scan has followed the configuration yet. `answering`: the version that has answered by default since none was
    chosen. `removed`: it is no longer configured. `folders`: the versions that `Repository.list_versions` last saw on disk.
    """

    config: ModelConfig
    versions: dict[int, Version] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)
    answering: int | None = None
    is_named: bool = True
    was_ready: bool = False
    is_new: bool = True
    removed: bool = False
    folders: dict[int, Path] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.config.name

    def available(self) -> list[int]:
        """The numbers of the available versions, largest first."""
        return sorted(
            (n for n, v in self.versions.items() if v.state == State.AVAILABLE), reverse=True
        )

    def answers(self, number: int | None) -> bool:
        return number in self.versions and self.versions[number].state == State.AVAILABLE

    def follows_latest(self) -> bool:
        """Whether a new version takes over by itself, as the version policy says."""
        return self.config.model_version_policy.WhichOneof("policy_choice") == "latest"

    def meant_default(self) -> int | None:
        """The version that is to answer by default: the chosen one, or the one that has answered; None for the largest."""
        if self.choices.default is not None or self.follows_latest():
            return self.choices.default
        return self.answering

    def default(self) -> int | None:
        """The default version; while the one that is meant is not available, the one that has answered, or the largest."""
        meant = (
            self.meant_default(),
            None if self.follows_latest() else self.answering,
            *self.available(),
        )
        return next((each for each in meant if self.answers(each)), None)

    def track(self, number: int, path: Path) -> Version:
        """The version of this number, to load from `path`; one loaded from another path answers until it is replaced."""
        version = self.versions.setdefault(number, Version(ServableId(self.name, number), path))
        if version.path != path:
            version.path, version.fingerprint, version.error = path, (), ""
        return version

    def is_kept_out(self, number: int) -> bool:
        """Whether this version must not be loaded: it was unloaded, or the model is no longer configured."""
        return self.removed or self.choices.load(number) is False

    def end_idle(self) -> list[Version]:
        """Unload the leaving versions that have no running request, and return them."""
        idle = [
            each
            for each in self.versions.values()
            if each.state == State.UNLOADING and each.in_use == 0
        ]
        for version in idle:
            version.servable, version.state = None, State.END
        return idle

    def forget_vanished(self) -> list[Version]:
        """Remove and return the versions that are not loaded and whose folders are deleted."""
        gone = [
            n
            for n, v in self.versions.items()
            if v.state in (State.START, State.END) and not is_folder(v.path)
        ]
        return [self.versions.pop(number) for number in gone]

    def status(self, number: int) -> VersionStatus:
        version, servable = self.versions[number], self.versions[number].servable
        runtime, description = (
            (servable.runtime, servable.description) if servable else (None, Description())
        )
        error = version.failure
        if error and version.state == State.AVAILABLE:
            error = f"it answers from its old base path, since loading it from the new one failed: {error}"
        return VersionStatus(
            number, version.state, error, version.load_seconds, runtime, description
        )

    @property
    def pending_labels(self) -> dict[str, int]:
        """The labels that wait for their version; meanwhile those that were in force before stay so."""
        chosen = sorted(self.choices.of("label").items())
        return {label: number for label, number in chosen if self.labels.get(label) != number}

    def move_labels(self) -> list[tuple[str, int | None, int]]:
        """Move the labels whose version is available now; returns each with its version before and now."""
        moved = [
            (label, self.labels.get(label), n)
            for label, n in self.pending_labels.items()
            if self.answers(n)
        ]
        self.labels.update({label: number for label, _, number in moved})
        return moved

    def used_by(self, number: int) -> list[str]:
        """What sends requests to a version, now or when it is available: default, labels, splits, shadow."""
        default = (
            ["default"]
            if self.default() == number
            else ["default (waits)"] * (self.choices.default == number)
        )
        labels = [label for label, version in sorted(self.labels.items()) if version == number]
        pending = [
            f"{label} (waits)"
            for label, version in self.pending_labels.items()
            if version == number
        ]
        splits = [
            f"{100 * split.share:g} % of {label or 'default'}"
            for label, split in self.choices.splits().items()
            if split.version == number
        ]
        return default + labels + pending + splits + ["shadow"] * (self.choices.shadow == number)

    def is_missed(self) -> bool:
        """Whether the server is not ready without it, which a folder that never held a model does not cause."""
        return (self.is_named or self.was_ready) and not self.available()

    def is_served(self) -> bool:
        """Whether the model is available as configured; failed versions beside an available one do not count."""
        moves = any(version.is_elsewhere() for version in self.versions.values())
        return bool(self.available()) and not self.is_new and not moves

    def failed(self) -> list[Version]:
        """The failed versions that prevent `is_served`."""
        versions = [
            each for each in self.versions.values() if each.is_elsewhere() or not self.available()
        ]
        return [version for version in versions if version.error]

    def is_gone(self) -> bool:
        """Whether it is no longer configured and all its versions are unloaded."""
        return self.removed and all(
            each.state in (State.START, State.END) for each in self.versions.values()
        )

    def is_loading(self) -> bool:
        return any(
            version.state in (State.START, State.LOADING) for version in self.versions.values()
        )
