"""Carries out switches (labels, default, splits, shadows, loading, unloading, configuration) and undoes them."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from backend.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound
from backend.serving.repository.choices import Split
from backend.serving.repository.interface import ModelRepository
from backend.serving.repository.switch_log import MAX_NAME, SwitchLog
from backend.serving.repository.switches import (
    CONFIGURATION,
    WATCHER,
    Default,
    Label,
    Load,
    Shadow,
    SplitOf,
    Switch,
    Who,
)
from backend.serving.versions.model_configs import ModelConfig, check_configs, check_versions

LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
ANY = object()  # for `expected`: any value


class Switchboard:
    """Each method is a switch: it is checked, applied to all later requests at once, and logged.

    The methods return the `Switch`, or None if nothing changes, and raise the types of `backend.errors`.
    """

    def __init__(self, repository: ModelRepository):
        self._repository = repository

    @property
    def switches(self) -> SwitchLog:
        """The log; a gateway has none, and raises Unimplemented."""
        return self._repository.switches

    def label(self, model: str, label: str, version: int | None, by: Who, expected: Any = ANY) -> Switch | None:
        """Point a label to a version; it waits for one that is not available yet. None removes the label.

        `expected`: the version it must point to before (None: no such label), else Aborted is raised.
        """
        subject = Label(model, label)
        with self._repository.changing():
            with self._repository.switching(model) as held:
                now = subject.read(held)
            # A configuration may name labels in any way, and these can be moved.
            if now is None and not LABEL.fullmatch(label):
                raise InvalidArgument(f"label is {label!r}; expected 1 to 64 of the characters A-Z a-z 0-9 _ . -")
            if expected is not ANY and now != expected:
                was, found = subject.describe_value(expected), subject.describe_value(now)
                raise Aborted(f"{subject.describe()} was expected at {was}, but it is at {found}; read it again")
            return subject.switch(self._repository, version, by)

    def default(self, model: str, version: int | None, by: Who) -> Switch | None:
        """Choose the default version; None: the largest that is available now, or always with the version policy `latest`."""
        with self._repository.changing():
            with self._repository.switching(model) as held:
                if version is None and not held.follows_latest():
                    version = next(iter(held.available()), None)
            return Default(model).switch(self._repository, version, by)

    def split(self, model: str, label: str, split: Split | None, by: Who) -> Switch | None:
        """Send a share of the requests for a label ("" for the default) to another version; None ends it."""
        return SplitOf(model, label).switch(self._repository, split and asdict(split), by)

    def shadow(self, model: str, version: int | None, by: Who) -> Switch | None:
        """Send a version copies of the photos that other versions answer; None ends it."""
        return Shadow(model).switch(self._repository, version, by)

    def load(self, model: str, version: int, wanted: bool, by: Who) -> Switch | None:
        """Load a version, whatever the version policy (one that failed is tried again now), or unload it and keep it
        unloaded.
        """
        return Load(model, str(version)).switch(self._repository, wanted, by)

    def configure(self, configs: Sequence[ModelConfig], by: Who) -> Switch | None:
        """Serve exactly these models until a restart. A wrong list changes nothing."""
        check_configs(configs)
        for config in configs:
            check_versions(config)
        return self._repository.follow(configs, by)

    def undo(self, by: Who, number: int | None = None, model: str = "") -> Switch:
        """Undo the switch with this id, or the last one in force (of a model, if it is named).

        Raises Aborted for one that was superseded or cannot be undone.
        """
        if number is None:
            switch = next(filter(self.is_undoable, self.switches.switches(model)), None)
            if switch is None:
                raise FailedPrecondition("there is no switch to undo" + (f" for {model}" if model else ""))
        else:
            switch = self._numbered(number)
        undo = switch.subject.undo(self._repository, switch, by)
        if undo is None:
            raise Aborted(f"switch {switch.id} ({switch}) was taken back meanwhile; see the log of switches")
        return undo

    def is_undoable(self, switch: Switch) -> bool:
        """Whether a switch is neither an undo nor a part of another switch, is in force and was not undone."""
        if switch.undoes is not None or switch.part_of is not None or self.switches.is_undone(switch.id):
            return False
        return switch.subject.is_in_force(self._repository, switch)

    def _numbered(self, number: int) -> Switch:
        switch = self.switches.switch(number)
        if switch is None:
            raise NotFound(f"there is no switch {number} in the log")
        if switch.part_of is not None:
            raise Aborted(f"switch {number} ({switch}) is a part of switch {switch.part_of}; undo that one")
        return switch


def checked_who(name: str, address: str) -> Who:
    """The author of a switch; the name is cut to one line of at most 64 characters, and cannot be one of the server's."""
    name = " ".join(name.split())[:MAX_NAME]
    return Who("someone" if name in ("", CONFIGURATION.name, WATCHER.name) else name, address)
