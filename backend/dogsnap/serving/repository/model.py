"""One model: its versions, and which answers.

Not thread-safe: the repository holds the lock.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from dogsnap.errors import NotFound, Unavailable
from dogsnap.files import without_folders
from dogsnap.routing.choices import HIDDEN, Choices
from dogsnap.routing.planners import Versions
from dogsnap.routing.resolver import answering_version, resolve
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.description import Description
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.servable import LocalServable
from dogsnap.serving.versions.version_folders import Fingerprint
from dogsnap.serving.versions.version_policy import aspired_versions


class State(StrEnum):
    """The states of TensorFlow Serving's GetModelStatus."""

    START = "START"
    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclass
class Version:
    """A version folder; guarded by the repository's lock.

    `path`: to load it from. `files`: there, at the last scan; `tried`: when it was
    loaded, or tried. `digest`: of what was loaded. `is_exported_again`: the
    folder holds something else now; `is_wanted_again`: to be loaded.
    """

    id: ServableId
    path: Path
    state: State = State.START
    error: str = ""
    servable: LocalServable | None = None
    in_use: int = 0
    files: Fingerprint = ()
    tried: Fingerprint = ()
    digest: str = ""
    is_exported_again: bool = False
    is_wanted_again: bool = False
    failed_at: float = 0.0
    load_seconds: float = 0.0

    @property
    def failure(self) -> str:
        """`error` as anybody may read it: without the folders of this machine."""
        own = f"{self.id.name}/{self.id.version}"
        return without_folders(self.error.replace(str(self.path), own))

    @property
    def note(self) -> str:
        """What to do about a folder that does not hold what answers; "" if it does."""
        if not self.is_exported_again or self.state != State.AVAILABLE:
            return ""
        command = f"dogsnap models load {self.id.version} --model {self.id.name}"
        return f"its folder holds another export than the one that answers; `{command}` takes it"

    def is_due(self) -> bool:
        """Whether a scan is still to load it, or to see what its folder holds now."""
        is_still = self.state == State.AVAILABLE and self.files == self.tried
        is_moving = self.is_wanted_again or self.is_elsewhere()
        return not self.error and (not is_still or is_moving)

    def is_elsewhere(self) -> bool:
        """Whether it still answers from the path of before, since the base path
        was changed.
        """
        return (
            self.state == State.AVAILABLE
            and self.servable is not None
            and self.servable.path != self.path
        )


@dataclass(frozen=True)
class VersionStatus:
    """`error`: why it failed to load; `runtime`: None unless loaded;
    `description`: empty if not loaded, None if unknown.

    `in_use`: requests that run on it here.
    """

    version: int
    state: State
    error: str
    load_seconds: float
    runtime: Mapping[str, Any] | None
    description: Description | None
    in_use: int = 0
    note: str = ""

    @property
    def shown_state(self) -> str:
        """FAILED for a version that failed to load, which TensorFlow Serving calls END."""
        return "FAILED" if self.state == State.END and self.error else self.state

    def to_json(self) -> dict[str, Any]:
        """`classes`: how many breeds it names, 0 if none (`/api/classify`
        refuses it) or not loaded, null if unknown.
        """
        return {
            "version": self.version,
            "state": self.shown_state,
            "error": self.error,
            "note": self.note,
            "load_seconds": self.load_seconds,
            "runtime": self.runtime,
            "classes": None if self.description is None else len(self.description.labels),
        }


@dataclass
class Model:
    """A configured model: its versions by number, and what was chosen.

    `is_named`: the configuration names it, it was not only found in a folder.
    `was_ready`: a version of it was available once. `is_new`: no scan has
    followed the configuration yet. `answering`: the version that has answered
    by default since none was chosen. `logged_default`: as the log knows it.
    `trouble`: why the base path holds no version. `removed`: the model is no
    longer configured. `has_labels_written`: the labels of its configuration are
    among the choices.
    """

    config: ModelConfig
    versions: dict[int, Version] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)
    answering: int | None = None
    is_named: bool = True
    was_ready: bool = False
    logged_default: int | None = None
    trouble: str = ""
    is_new: bool = True
    removed: bool = False
    has_labels_written: bool = False

    @property
    def name(self) -> str:
        return self.config.name

    def in_state(self, *states: State) -> list[Version]:
        return [version for version in self.versions.values() if version.state in states]

    def available(self) -> list[int]:
        """The numbers of the available versions, largest first."""
        numbers = [version.id.version for version in self.in_state(State.AVAILABLE)]
        return sorted(numbers, reverse=True)

    def answers(self, number: int | None) -> bool:
        return number in self.versions and self.versions[number].state == State.AVAILABLE

    def follows_latest(self) -> bool:
        """Whether a new version takes over by itself, as the version policy says."""
        return self.config.model_version_policy.WhichOneof("policy_choice") == "latest"

    def adopt(self, choices: Choices) -> None:
        """What is chosen now. Of a label or default whose version is not there yet,
        nor the one before, the version that answers here goes on.
        """
        default = self.default()
        for label in ("", *choices.labels):
            if answering_version(choices, label, self.answers) is None:
                now = answering_version(self.choices, label, self.answers) if label else default
                if choices.of(label) is not None and now is not None:
                    choices = choices.with_value(HIDDEN, label, now)
        self.choices = choices

    def _preferred_versions(self) -> list[int]:
        """The versions that are to answer by default: the chosen one, the one
        before it, and the one that has answered.
        """
        answering = None if self.follows_latest() else self.answering
        numbers = (self.choices.default, self.choices.until.get(""), answering)
        return [number for number in numbers if number is not None]

    def default(self) -> int | None:
        """The default version; while none that is meant is available, the largest."""
        for number in (*self._preferred_versions(), *self.available()):
            if self.answers(number):
                return number
        return None

    def resolve(self, spec: ModelSpec, started: bool) -> Version:
        """The version that answers `spec`; `started`: the first scan is
        finished.

        Raises NotFound, InvalidArgument (no such label), and Unavailable while
        it loads.
        """
        number = resolve(self.choices, spec, self.answers)
        is_default = spec.version is None and spec.label is None
        if number is None or (is_default and not self.answers(number)):
            return self._default(started)
        return self._exactly(number)

    def _default(self, started: bool) -> Version:
        number = self.default()
        preferred = next(iter(self._preferred_versions()), number)
        if number is not None and (started or number == preferred):
            return self.versions[number]
        if not self.choices.is_unloaded and (self.is_loading() or not started):
            troubles = [f"; {version.id}: {version.failure}" for version in self.list_failed()]
            raise Unavailable(f"{self.name} is still loading; try again{''.join(troubles)}")
        reasons = []
        for version in self.list_failed():
            reasons.append(f"; {version.id} failed to load: {version.failure}")
        if self.choices.is_unloaded:
            reasons = ["; it was unloaded, and answers when it is loaded again"]
        asked = f"Servable not found for request: Latest({self.name})"
        raise NotFound(f"{asked}; none of its versions is available{''.join(reasons)}")

    def _exactly(self, number: int) -> Version:
        version = self.versions.get(number)
        if version and version.state == State.AVAILABLE:
            return version
        if version and version.state in (State.START, State.LOADING):
            trouble = f": {version.failure}" if version.error else ""
            raise Unavailable(f"{version.id} is still loading; try again{trouble}")
        available = ", ".join(map(str, self.available())) or "none"
        why = f"; it failed to load: {version.failure}" if version and version.error else ""
        asked = f"Servable not found for request: Specific({self.name}, {number})"
        raise NotFound(f"{asked}{why}; available versions: {available}")

    def track(self, number: int, path: Path) -> Version:
        """The version of this number, to load from `path`; one loaded from
        another path answers until it is replaced.
        """
        version = self.versions.setdefault(number, Version(ServableId(self.name, number), path))
        if version.path != path:
            version.path, version.files, version.error = path, (), ""
        return version

    def versions_to_load(self, folders: Mapping[int, Path]) -> set[int]:
        """The existing versions that version policy and choices select."""
        by_policy = aspired_versions(self.config.model_version_policy, folders)
        return self.choices.versions_to_load(by_policy, folders)

    def wanted(self) -> list[Version]:
        """Those that are loaded, or are to be."""
        folders = {number: version.path for number, version in self.versions.items()}
        return [self.versions[number] for number in sorted(self.versions_to_load(folders))]

    def is_kept_out(self, number: int) -> bool:
        """Whether this version must not be loaded: it was unloaded, or the
        model is no longer configured.
        """
        return self.removed or self.choices.keeps_out(number)

    def end_idle(self) -> list[Version]:
        """Unload the leaving versions that have no running request, and return them."""
        idle = [version for version in self.in_state(State.UNLOADING) if version.in_use == 0]
        for version in idle:
            version.servable, version.state = None, State.END
        return idle

    def forget(self, paths: Collection[Path]) -> list[Version]:
        """Remove and return the versions that are not loaded and have one of
        these `paths`, which are deleted.
        """
        idle = self.in_state(State.START, State.END)
        gone = [version for version in idle if version.path in paths]
        for version in gone:
            del self.versions[version.id.version]
        return gone

    def status(self, number: int) -> VersionStatus:
        version, servable = self.versions[number], self.versions[number].servable
        runtime, description = None, Description()
        if servable:
            runtime, description = servable.runtime, servable.description
        error = version.failure
        if error and version.state == State.AVAILABLE:
            how = "as it was loaded before, since loading it again"
            if version.is_elsewhere():
                how = "from its old base path, since loading it from the new one"
            error = f"it answers {how} failed: {error}"
        return VersionStatus(
            number,
            version.state,
            error,
            version.load_seconds,
            runtime,
            description,
            version.in_use,
            version.note,
        )

    def known_versions(self, folders: Mapping[int, Path], faults: Mapping[int, str]) -> Versions:
        """What a switch is checked against; `folders`: the versions on disk,
        and what they lack.
        """
        unloading = [version.id.version for version in self.in_state(State.UNLOADING)]
        return Versions(
            self.name,
            tuple(self.available()),
            self.default(),
            existing=frozenset({*self.versions, *folders}),
            unloading=frozenset(unloading),
            by_policy=frozenset(aspired_versions(self.config.model_version_policy, folders)),
            follows_latest=self.follows_latest(),
            faults={number: faults[number] for number in faults if not self.answers(number)},
        )

    def is_missed(self) -> bool:
        """Whether the server is not ready without it, which a folder that never
        held a model does not cause, nor a model that was unloaded.
        """
        is_expected = (self.is_named or self.was_ready) and not self.choices.is_unloaded
        return is_expected and not self.available()

    def is_served(self) -> bool:
        """Whether the model is available as configured; failed versions beside
        an available one do not count.
        """
        moves = any(version.is_elsewhere() for version in self.versions.values())
        return bool(self.available()) and not self.is_new and not moves

    def list_failed(self) -> list[Version]:
        """The failed versions that prevent `is_served`."""
        is_silent = not self.available()
        failed = [version for version in self.versions.values() if version.error]
        return [version for version in failed if is_silent or version.is_elsewhere()]

    def is_gone(self) -> bool:
        """Whether it is no longer configured and all its versions are unloaded."""
        return self.removed and len(self.in_state(State.START, State.END)) == len(self.versions)

    def is_loading(self) -> bool:
        return bool(self.in_state(State.START, State.LOADING))
