"""The six kinds of switches: what each changes in a model, what it may be set to, how it is undone and described."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from dogsnap.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound
from dogsnap.serving.repository.model import Model, State
from dogsnap.serving.versions.model_configs import (
    ModelConfig,
    check_configs,
    check_versions,
    from_json,
)
from dogsnap.serving.versions.version_folders import (
    MAX_INT64,
    aspired_versions,
    describe_unreadable,
    missing,
)


@dataclass(frozen=True)
class Who:
    """The author of a switch: the name that the client gave, and its address."""

    name: str
    address: str = ""


# The authors of automatic switches: a changed configuration, and a version folder that was added or removed.
CONFIGURATION = Who("configuration")
WATCHER = Who("watcher")
MAX_NAME = 64  # characters of an author's name
LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
ANY = object()  # for `expected`: any value


def checked_who(name: str, address: str) -> Who:
    """The author of a switch; the name is cut to one line of at most 64 characters, and cannot be one of the server's."""
    name = " ".join(name.split())[:MAX_NAME]
    return Who("someone" if name in ("", CONFIGURATION.name, WATCHER.name) else name, address)


@dataclass(frozen=True)
class Subject:
    """A setting of a model of some `kind`; `name` if there are several. `Model` arguments are held by `switching`."""

    model: str
    name: str = ""
    kind: ClassVar[str]
    title: ClassVar[str] = ""  # of `describe`, e.g. "label {name} of {model}"
    unchosen: ClassVar[str] = "none"  # how None is described
    has_split: ClassVar[bool] = False

    def describe(self) -> str:
        return self.title.format(model=self.model, name=self.name)

    def describe_value(self, value: Any) -> str:
        return self.unchosen if value is None else str(value)

    def read(self, model: Model) -> Any:
        """The value now, as it is written to the log."""
        return model.choices.get((self.kind, self.name))

    def put(self, model: Model, value: Any) -> None:
        """Set the value in a model, as after a restart; None removes a choice."""
        model.choices.pop((self.kind, self.name), None)
        if value is not None:
            model.choices[self.kind, self.name] = value

    def apply(self, repository: Any, model: Model, value: Any) -> None:
        self.put(model, value)

    def check(self, model: Model, value: Any, undone: "Switch | None" = None) -> None:
        """Raises the types of `dogsnap.errors` for a value that the model cannot be switched to, or back to by an undo."""
        if value is not None:
            _check_available(model, value)

    def ends(self, model: Model) -> "list[Change]":
        """What a switch ends: of a label or default that moves, its split."""
        split = SplitOf(self.model, self.name)
        before = split.read(model) if self.has_split else None
        return [(split, before, None)] if before else []

    def switch(self, repository: Any, value: Any, by: Who) -> "Switch | None":
        """Check, log and apply a switch; None if nothing changes."""
        with repository.changing():
            with repository.switching(self.model) as model:
                self.check(model, value)
                before = self.read(model)
                changes = [(self, before, value), *self.ends(model)]
            return None if before == value else _made(repository, self.model, changes, by)

    def is_in_force(self, repository: Any, switch: "Switch") -> bool:
        if self.model not in repository.models():
            return False
        try:
            with repository.switching(self.model) as model:
                self.check_in_force(model, switch)
        except (Aborted, NotFound):
            return False
        return True

    def check_in_force(self, model: Model, switch: "Switch") -> None:
        """Raises Aborted unless the effect of `switch` is still in force and can be undone."""
        if self.read(model) != switch.after or switch.after == switch.before:
            raise switch.not_in_force()

    def undo(self, repository: Any, switch: "Switch", by: Who) -> "Switch":
        """Set the value from before `switch`. Raises Aborted if it is not in force or cannot be undone."""
        with repository.changing():
            parts = repository.switches.parts(switch.id)
            with repository.switching(self.model) as model:
                for each in (switch, *parts):
                    each.subject.check_in_force(model, each)
                    each.subject.check(model, each.before, each)
                back = [
                    (each.subject, each.subject.read(model), each.before)
                    for each in (switch, *parts)
                ]
                back += [
                    each for each in self.ends(model) if each[0] not in {part[0] for part in back}
                ]
            return _made(repository, self.model, back, by, switch.id)


# What is switched, from which value, to which.
Change = tuple[Subject, Any, Any]


@dataclass(frozen=True)
class Switch:
    """An entry of the log. `at` is UTC, ISO 8601; `before` and `after` are the values.

    `undoes`: the id of the switch that it undoes, or None; `part_of`: of the one that it came about and is undone with.
    """

    id: int
    at: str
    by: Who
    subject: Subject
    before: Any
    after: Any
    undoes: int | None = None
    part_of: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "at": self.at,
            "by": asdict(self.by),
            "model": self.subject.model,
            "kind": self.subject.kind,
            "name": self.subject.name,
            "from": self.before,
            "to": self.after,
            "undoes": self.undoes,
            "part_of": self.part_of,
        }

    def __str__(self) -> str:
        shown = self.subject.describe_value
        return f"{self.subject.describe()}: {shown(self.before)} -> {shown(self.after)}"

    def not_in_force(self) -> Aborted:
        return Aborted(
            f"switch {self.id} ({self}) is not in force any more; see the log of switches"
        )


def _made(
    repository: Any, name: str, changes: list[Change], by: Who, undoes: int | None = None
) -> Switch:
    """Write a switch, and then apply it: to the requests it is all or nothing."""
    switch: Switch = repository.switches.add(by, changes, undoes)
    with repository.switching(name) as model:
        for subject, _, value in changes:
            subject.apply(repository, model, value)
    return switch


class Label(Subject):
    """The version of a label, which waits for it if it is not available yet. None: no such label."""

    kind = "label"
    title = "label {name} of {model}"
    has_split = True

    def switch(
        self, repository: Any, value: int | None, by: Who, expected: Any = ANY
    ) -> "Switch | None":
        """`expected`: the version it must point to before (None: no such label), else Aborted is raised."""
        with repository.changing():
            with repository.switching(self.model) as model:
                now = self.read(model)
            # A configuration may name labels in any way, and these can be moved.
            if now is None and not LABEL.fullmatch(self.name):
                raise InvalidArgument(
                    f"label is {self.name!r}; expected 1 to 64 of the characters A-Z a-z 0-9 _ . -"
                )
            if expected is not ANY and now != expected:
                was, found = self.describe_value(expected), self.describe_value(now)
                raise Aborted(
                    f"{self.describe()} was expected at {was}, but it is at {found}; read it again"
                )
            return super().switch(repository, value, by)

    def put(self, model: Model, value: int | None) -> None:
        super().put(model, value)
        if value is None:
            model.labels.pop(self.name, None)
        model.move_labels()

    def check(self, model: Model, value: int | None, undone: Switch | None = None) -> None:
        if value is not None:
            if not 0 <= value <= MAX_INT64:
                raise InvalidArgument(f"version is {value}; expected 0 to {MAX_INT64}")
            if undone and not model.answers(value):
                raise FailedPrecondition(f"cannot undo {undone}: version {value} is not available")
            _check_staying(model, value)
        elif self.read(model) is None:
            raise NotFound(f"{model.name} has no label {self.name}; its labels: {_labels(model)}")
        elif model.choices.split(self.name):
            raise FailedPrecondition(f"{self.describe()} has a split; end the split first")


class Default(Subject):
    """The default version; None: the one that answers already, or the largest where the version policy is `latest`."""

    kind = "default"
    title = "default of {model}"
    unchosen = "not chosen"
    has_split = True

    def switch(self, repository: Any, value: int | None, by: Who) -> "Switch | None":
        """None: the largest version that is available now, or always with the version policy `latest`."""
        with repository.changing():
            with repository.switching(self.model) as model:
                if value is None and not model.follows_latest():
                    value = next(iter(model.available()), None)
            return super().switch(repository, value, by)

    def check_in_force(self, model: Model, switch: Switch) -> None:
        """An automatic change of the default is in force while none is chosen."""
        now = self.read(model)
        now = model.default() if now is None and switch.after is not None else now
        if now != switch.after or now == switch.before:
            raise switch.not_in_force()
        if switch.by == WATCHER and not model.answers(switch.before):
            why = "it came about by itself, and no version that answered before is available"
            raise Aborted(
                f"switch {switch.id} ({switch}) cannot be undone: {why}; choose a default instead"
            )


class SplitOf(Subject):
    """The share of the requests of a label (of the default, with "") that another version gets; None: all stay."""

    kind = "split"

    def describe(self) -> str:
        return f"split of {f'label {self.name}' if self.name else 'the default'} of {self.model}"

    def describe_value(self, value: dict[str, Any] | None) -> str:
        return (
            self.unchosen if value is None else f"{100 * value['share']:g} % to {value['version']}"
        )

    def check(
        self, model: Model, value: dict[str, Any] | None, undone: Switch | None = None
    ) -> None:
        if value is None:
            return
        if self.name and Label(self.model, self.name).read(model) is None:
            raise NotFound(
                f"{model.name} has no label {self.name} to split; its labels: {_labels(model)}"
            )
        if not 0 < value["share"] <= 1:
            raise InvalidArgument(
                f"the share is {100 * value['share']:g} percent; expected more than 0, at most 100"
            )
        _check_available(model, value["version"])


class Shadow(Subject):
    """The shadow version, which gets copies of the photos; None: no shadow."""

    kind = "shadow"
    title = "shadow of {model}"


class Load(Subject):
    """Whether a version is kept loaded or unloaded; None: by the version policy."""

    kind = "load"
    title = "version {name} of {model}"
    unchosen = "as the policy says"

    def describe_value(self, value: bool | None) -> str:
        return self.unchosen if value is None else "loaded" if value else "unloaded"

    def switch(self, repository: Any, value: bool | None, by: Who) -> Switch | None:
        """A version that failed to load is tried again now. Raises FailedPrecondition for a folder that is not complete."""
        repository.list_versions(self.model)
        with repository.switching(self.model) as model:
            folder = None if model.answers(int(self.name)) else model.folders.get(int(self.name))
        if value and folder:
            self._check_complete(folder)
        switch = super().switch(repository, value, by)
        if (
            switch is None
        ):  # loading a version that is to be loaded already tries again one that failed
            with repository.switching(self.model) as model:
                self.apply(repository, model, self.read(model))
        return switch

    def _check_complete(self, folder: Path) -> None:
        cannot = f"version {self.name} of {self.model} cannot be loaded"
        try:
            lacks = missing(folder)
        except OSError as error:
            raise FailedPrecondition(f"{cannot}: {describe_unreadable(folder, error)}") from error
        if lacks:
            raise FailedPrecondition(
                f"{cannot}: {folder} lacks {lacks}; expected all files of a SavedModel, copy them there and load it again"
            )

    def undo(self, repository: Any, switch: Switch, by: Who) -> Switch:
        repository.list_versions(self.model)
        return super().undo(repository, switch, by)

    def check(self, model: Model, value: bool | None, undone: Switch | None = None) -> None:
        version = int(self.name)
        if undone is None and version not in {*model.versions, *model.folders}:
            raise NotFound(
                f"{model.name} has no version {version}; its versions: {_numbers(model.versions)}"
            )
        if self._unloads(model, value):
            _check_unused(model, version)

    def apply(self, repository: Any, model: Model, value: bool | None) -> None:
        version = int(self.name)
        if self._unloads(model, value) and model.answers(version):
            repository.retire(model, [version])
        elif version in model.versions:  # one that failed is tried again, or counts as unloaded
            model.versions[version].error = ""
        self.put(model, value)
        repository.scan_soon()

    def _unloads(self, model: Model, value: bool | None) -> bool:
        """Without a choice the policy decides, which may mean unloading."""
        if value is not None:
            return not value
        return int(self.name) not in aspired_versions(
            model.config.model_version_policy, model.folders
        )


class Configuration(Subject):
    """The configuration of all models that was sent to the running server, and ends with it; None: that of its start."""

    kind = title = "configuration"
    unchosen = "as at the start"

    def describe_value(self, value: list[dict[str, Any]] | None) -> str:
        return (
            self.unchosen if value is None else "; ".join(map(_describe_model, value)) or "no model"
        )

    def switch(self, repository: Any, value: Sequence[ModelConfig], by: Who) -> Switch | None:
        """Serve exactly these models until a restart. A wrong list changes nothing."""
        check_configs(value)
        for config in value:
            check_versions(config)
        return repository.follow(value, by)

    def is_in_force(self, repository: Any, switch: Switch) -> bool:
        return repository.sent == switch.after != switch.before

    def undo(self, repository: Any, switch: Switch, by: Who) -> Switch:
        configs = None if switch.before is None else from_json(switch.before)
        undone = (
            repository.follow(configs, by, switch.id)
            if self.is_in_force(repository, switch)
            else None
        )
        if undone is None:  # or another one was sent meanwhile
            raise switch.not_in_force()
        return undone


KINDS: dict[str, type[Subject]] = {
    each.kind: each for each in (Label, Default, SplitOf, Shadow, Load, Configuration)
}
CONFIGURED = Configuration("")


def _describe_model(config: dict[str, Any]) -> str:
    """E.g. "half in /models/half, latest 2"; changes of labels are logged separately."""
    policies: dict[str, dict[str, Any]] = config.get("model_version_policy") or {"all": {}}
    ((policy, options),) = policies.items()
    numbers = options.get(
        "versions", [options["num_versions"]] if "num_versions" in options else []
    )
    return f"{config['name']} in {config['base_path']}, {' '.join([policy, *map(str, numbers)])}"


def _check_staying(model: Model, version: int) -> None:
    """Raises FailedPrecondition for a version that is being unloaded or kept unloaded: a label would wait in vain."""
    is_leaving = version in model.versions and model.versions[version].state == State.UNLOADING
    if is_leaving or model.is_kept_out(version):
        state = "is being unloaded" if is_leaving else "was unloaded by hand"
        raise FailedPrecondition(f"version {version} of {model.name} {state}; load it again first")


def _check_available(model: Model, version: int) -> None:
    _check_staying(model, version)
    if not model.answers(version):
        there = _numbers(model.available())
        raise FailedPrecondition(
            f"version {version} of {model.name} is not available; available: {there}"
        )


def _check_unused(model: Model, version: int) -> None:
    """Raises FailedPrecondition for a version in use: its requests would be left without an answer."""
    uses = model.used_by(version) + (
        ["the last one available"] if model.available() == [version] else []
    )
    if uses:
        raise FailedPrecondition(
            f"version {version} of {model.name} is in use: {', '.join(uses)}; move that first"
        )


def _numbers(numbers: Any) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def _labels(model: Model) -> str:
    return ", ".join(sorted(model.choices.of("label"))) or "none"
