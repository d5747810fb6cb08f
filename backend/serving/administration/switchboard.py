"""Carries out switches (labels, default, splits, shadows, loading, unloading, configuration) and undoes them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backend.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound
from backend.serving.repository.model import Model
from backend.serving.repository.repository import Repository
from backend.serving.traffic.choices import Split
from backend.serving.traffic.switch_log import (
    CONFIGURATION,
    CONFIGURED,
    MAX_NAME,
    WATCHER,
    Subject,
    Switch,
    Who,
    shown,
)
from backend.serving.versions.model_configs import ModelConfig, check_configs, check_versions, from_json
from backend.serving.versions.version_folders import MAX_INT64, aspired_versions, version_folders

LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
ANY = object()  # for `expected`: whatever there is now


class Switchboard:
    """Every method is one switch: checked, carried out at once for all requests that come after it, and put in the log.

    They give the `Switch`, or None if everything was so already, and raise the types of `backend.errors`.
    """

    def __init__(self, repository: Repository):
        self._repository = repository
        self.switches = repository.switches

    def label(
        self, model: str, label: str, version: int | None, by: Who, expected: Any = ANY, undoes: int | None = None
    ) -> Switch | None:
        """Point a label to a version; it waits for one that does not answer yet. None takes the label away.

        `expected` is the version it must point to before (None: there must be no such label), else Aborted is raised.
        """
        with self._repository.switching(model) as there:
            if undoes is None:
                _check_label(there, label)
            self._check_expected(there, label, expected)
            if version is None:
                self._check_removable(there, label)
            else:
                _check_number(version)
                _check_staying(there, version)
            return self._switch(there, Subject(model, "label", label), version, by, undoes)

    def default(self, model: str, version: int | None, by: Who, undoes: int | None = None) -> Switch | None:
        """Choose the version that answers when a request names none; None: the largest that is available."""
        with self._repository.switching(model) as there:
            if version is not None:
                _check_available(there, version)
            return self._switch(there, Subject(model, "default"), version, by, undoes)

    def split(self, model: str, label: str, split: Split | None, by: Who, undoes: int | None = None) -> Switch | None:
        """Send a share of a label's requests (of the default's, with "") to another version; None ends it."""
        with self._repository.switching(model) as there:
            if split is not None:
                self._check_split(there, label, split)
            return self._switch(there, Subject(model, "split", label), split and split.to_json(), by, undoes)

    def shadow(self, model: str, version: int | None, by: Who, undoes: int | None = None) -> Switch | None:
        """Show a version the photos that other versions of the model answer; None ends it."""
        with self._repository.switching(model) as there:
            if version is not None:
                _check_available(there, version)
            return self._switch(there, Subject(model, "shadow"), version, by, undoes)

    def load(self, model: str, version: int, wanted: bool, by: Who, undoes: int | None = None) -> Switch | None:
        """Load a version, whatever the policy says (and one that failed, now), or unload one and keep it out."""
        with self._repository.switching(model) as there:
            if version not in {*there.versions, *version_folders(Path(there.config.base_path))}:
                raise NotFound(f"{model} has no version {version}; its versions: {_numbers(there.versions)}")
            if wanted:
                there.forget_failure(version)
            else:
                _check_unused(there, version)
                self._repository.retire(there, [version] if there.answers(version) else [])
            switch = self._switch(there, Subject(model, "load", str(version)), wanted, by, undoes)
        self._repository.scan_soon()
        return switch

    def configure(self, configs: Sequence[ModelConfig], by: Who) -> Switch | None:
        """Serve these models, and no others, until a restart. Nothing is changed for a list that cannot be served."""
        check_configs(configs)
        for config in configs:
            check_versions(config)
        return self._repository.follow(configs, by)

    def undo(self, by: Who, number: int | None = None, model: str = "") -> Switch:
        """Take back a switch: that of this number, or the last one still in force (of a model, if it is named).

        Raises Aborted for one that something else followed, or that cannot be taken back.
        """
        switch = self._last_in_force(model) if number is None else self._numbered(number)
        if switch.subject == CONFIGURED:
            undo = self._take_configuration_back(switch, by)
        else:
            with self._repository.switching(switch.subject.model) as there:
                _check_in_force(there, switch)
                undo = self._take_back(there, switch, by)
        if undo is None:
            raise Aborted(f"switch {switch.id} ({switch}) was taken back meanwhile; look at the log")
        return undo

    def is_undoable(self, switch: Switch) -> bool:
        """Whether a switch, which is no undo itself, is still in force and was not undone."""
        if switch.undoes is not None or switch.id in self.switches.undone():
            return False
        if switch.subject == CONFIGURED:
            return self._is_configured(switch)
        if switch.subject.model not in self._repository.models():
            return False
        try:
            with self._repository.switching(switch.subject.model) as there:
                _check_in_force(there, switch)
        except (Aborted, NotFound):
            return False
        return True

    def _last_in_force(self, model: str) -> Switch:
        for switch in self.switches.switches(model):
            if self.is_undoable(switch):
                return switch
        raise FailedPrecondition("there is no switch to undo" + (f" for {model}" if model else ""))

    def _numbered(self, number: int) -> Switch:
        for switch in self.switches.switches():
            if switch.id == number:
                return switch
        raise NotFound(f"there is no switch {number} in the log")

    # -- the steps -----------------------------------------------------------------------------------------------------

    def _switch(self, there: Model, subject: Subject, after: Any, by: Who, undoes: int | None) -> Switch | None:
        before = _value(there, subject)
        if before == after:
            return None
        if subject.kind == "label":
            there.assign(subject.name, after)
        else:
            there.choices.choose(subject.kind, subject.name, after)
        return self.switches.add(by, subject, before, after, undoes)

    def _is_configured(self, switch: Switch) -> bool:
        return self._repository.sent_configuration() == switch.after != switch.before

    def _take_configuration_back(self, switch: Switch, by: Who) -> Switch | None:
        if not self._is_configured(switch):
            raise _not_in_force(switch)
        configs = None if switch.before is None else from_json(switch.before)
        return self._repository.follow(configs, by, switch.id)

    def _take_back(self, there: Model, switch: Switch, by: Who) -> Switch | None:
        model, name, before = switch.subject.model, switch.subject.name, switch.before
        match switch.subject.kind:
            case "label":
                if before is not None and not there.answers(before):
                    raise FailedPrecondition(f"cannot undo {switch}: version {before} is not available")
                undo = self.label(model, name, before, by, undoes=switch.id)
            case "split":
                undo = self.split(model, name, Split.from_json(before), by, switch.id)
            case "load":
                undo = self._take_load_back(there, switch, by)
            case kind:
                undo = getattr(self, kind)(model, before, by, undoes=switch.id)
        return undo

    def _take_load_back(self, there: Model, switch: Switch, by: Who) -> Switch | None:
        """Without an earlier choice the policy decides again, which may mean unloading: then the same checks hold."""
        version = int(switch.subject.name)
        if not switch.before and (switch.before is False or version not in _by_policy(there)):
            _check_unused(there, version)
            self._repository.retire(there, [version] if there.answers(version) else [])
        undo = self._switch(there, switch.subject, switch.before, by, switch.id)
        self._repository.scan_soon()
        return undo

    # -- the checks ----------------------------------------------------------------------------------------------------

    def _check_expected(self, there: Model, label: str, expected: Any) -> None:
        now = there.assigned(label)
        if expected is not ANY and now != expected:
            raise Aborted(
                f"label {label} of {there.name} was expected at {shown(expected)}, but it is at {shown(now)}; look again"
            )

    def _check_removable(self, there: Model, label: str) -> None:
        if there.assigned(label) is None:
            raise NotFound(f"{there.name} has no label {label}; its labels: {_labels(there)}")
        if label in there.choices.splits:
            raise FailedPrecondition(f"label {label} of {there.name} has a split; end the split first")

    def _check_split(self, there: Model, label: str, split: Split) -> None:
        if label and there.assigned(label) is None:
            raise NotFound(f"{there.name} has no label {label} to split; its labels: {_labels(there)}")
        if not 0 < split.share <= 1:
            raise InvalidArgument(f"the share is {100 * split.share:g} percent; expected more than 0, at most 100")
        _check_available(there, split.version)


def _value(there: Model, subject: Subject) -> Any:
    if subject.kind == "label":
        return there.assigned(subject.name)
    return there.choices.value(subject.kind, subject.name)


def _check_in_force(there: Model, switch: Switch) -> None:
    """Raises Aborted unless what a switch brought about is still so, and somebody could want it otherwise.

    A default that moved by itself is in force while nobody chose one.
    """
    now = _value(there, switch.subject)
    if switch.subject.kind == "default" and now is None and switch.after is not None:
        now = there.default()
    if now != switch.after or now == switch.before:
        raise _not_in_force(switch)
    if switch.subject.kind == "default" and switch.by == WATCHER and not there.answers(switch.before):
        raise Aborted(
            f"switch {switch.id} ({switch}) cannot be undone: it came about by itself, and the version that answered "
            "before, if there was one, is not available; choose a default instead"
        )


def _not_in_force(switch: Switch) -> Aborted:
    return Aborted(f"switch {switch.id} ({switch}) is not in force any more; look at the log")


def _by_policy(there: Model) -> set[int]:
    return aspired_versions(there.config.model_version_policy, version_folders(Path(there.config.base_path)))


def _check_number(version: int) -> None:
    if not 0 <= version <= MAX_INT64:
        raise InvalidArgument(f"version is {version}; expected 0 to {MAX_INT64}")


def _check_label(there: Model, label: str) -> None:
    """TensorFlow Serving's configurations may name labels anyhow, and these can be moved; new ones fit into any path."""
    if there.assigned(label) is None and not LABEL.fullmatch(label):
        raise InvalidArgument(f"label is {label!r}; expected 1 to 64 of the characters A-Z a-z 0-9 _ . -")


def _check_staying(there: Model, version: int) -> None:
    """Nothing may be pointed to a version that is on its way out, or that somebody keeps out: it would wait in vain."""
    if there.is_leaving(version) or there.is_kept_out(version):
        state = "is being unloaded" if there.is_leaving(version) else "was unloaded by hand"
        raise FailedPrecondition(f"version {version} of {there.name} {state}; load it again first")


def _check_available(there: Model, version: int) -> None:
    _check_staying(there, version)
    if not there.answers(version):
        raise FailedPrecondition(
            f"version {version} of {there.name} is not available; available: {_numbers(there.available())}"
        )


def _check_unused(there: Model, version: int) -> None:
    """Nobody who is answered by this version today may be left without an answer."""
    uses = [f"label {label}" for label, number in {**there.labels, **there.pending_labels}.items() if number == version]
    uses += [
        str(Subject(there.name, "split", label)) for label, s in there.choices.splits.items() if s.version == version
    ]
    uses += ["the default"] if there.choices.default == version else []
    uses += ["the shadow"] if there.choices.shadow == version else []
    uses += ["the last one available"] if there.available() == [version] else []
    if uses:
        raise FailedPrecondition(f"version {version} of {there.name} is in use: {', '.join(uses)}; move that first")


def _numbers(numbers: Any) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def _labels(there: Model) -> str:
    return ", ".join(sorted({*there.labels, *there.pending_labels})) or "none"


def checked_who(name: str, address: str) -> Who:
    """Whom to put a switch down to; a name is cut to one line of at most 64 characters, and cannot pose as the server."""
    name = " ".join(name.split())[:MAX_NAME]
    return Who("someone" if name in ("", CONFIGURATION.name, WATCHER.name) else name, address)
