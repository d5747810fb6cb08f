"""What the local repository and the gateway's have in common: the methods, and
the thread that looks for versions.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from dogsnap.errors import DogsnapError, FailedPrecondition
from dogsnap.routing.choices import Change, Choices
from dogsnap.routing.chosen_versions import ChosenVersions, was_second
from dogsnap.routing.planners import (
    Planner,
    Versions,
    change_unload,
    check_guard,
    check_in_force,
    find_changes,
    replacements,
    undo,
)
from dogsnap.routing.resolver import labels_in_force
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switch_log import Switch, Who
from dogsnap.serving.repository.model import VersionStatus
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.differences import Differences, compare
from dogsnap.serving.versions.model_configs import ModelConfig
from dogsnap.serving.versions.servable import BaseServable

CONFIGURED = Versions("", ())  # for the configuration of a server, which is no model's
# Seconds between two scans until the server is ready and while versions are loaded, for
# which two scans are needed.
LOADING_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Plan:
    """What a switch would change, and how versions differ from those that they replace.

    `models`: those that it may change. `find_changes` finds the changes again,
    for what is chosen then. `undoes`: the switch that it takes back.
    """

    models: frozenset[str]
    find_changes: Callable[[], Sequence[Change]]
    changes: Sequence[Change]
    differences: Differences
    is_guarded: bool
    undoes: Switch | None


class ModelRepository(Protocol):
    """Thread-safe.

    `dogsnap.serving.repository.local_repository.LocalRepository` documents the methods.
    """

    chosen: ChosenVersions
    _lock: threading.RLock
    _wake: threading.Event
    _thread: threading.Thread | None = None
    started: bool = (
        False  # the first scan is finished: every version was loaded or has failed to load
    )
    _closed: bool = False

    def __init__(self, chosen: ChosenVersions) -> None:
        self._lock, self._wake = threading.RLock(), threading.Event()
        self.chosen = chosen

    def acquire(self, spec: ModelSpec) -> AbstractContextManager[BaseServable]: ...
    def models(self) -> list[str]: ...
    def available(self, name: str) -> list[int]: ...
    def status(self, spec: ModelSpec) -> list[VersionStatus]: ...
    def default_version(self, name: str) -> int | None: ...
    def versions(self, name: str) -> Versions: ...
    def not_ready(self) -> str: ...
    def _scan_safely(self) -> None: ...
    def reconfigure(self, configs: Sequence[ModelConfig], by: Who) -> Switch | None:
        """Serve exactly these models until a restart. Raises Unimplemented where
        others configure the models.
        """

    def wait_until_served(
        self,
        configs: Sequence[ModelConfig],
        timeout: float,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> None:
        """Wait until these models are available as configured, at most `timeout` seconds,
        as long as somebody awaits it; at once where others load them.
        """
        return

    def try_again(self, name: str, version: int | None = None) -> None:
        """Load at once what is to be loaded and has failed, where versions are
        loaded, and `version` if it was exported again.
        """
        return

    def load_model(
        self, name: str, by: Who, timeout: float, is_awaited: Callable[[], bool]
    ) -> None:
        """Serve a model as its folder is now, if it was unloaded, too; return when that is done.

        Raises NotFound for a model that is not there, FailedPrecondition with what
        does not load, DeadlineExceeded after `timeout` seconds, Cancelled once
        `is_awaited` returns False; Unimplemented where others load models.
        """

    def unload_model(self, name: str, by: Who) -> None:
        """Serve no version of a model until it is loaded again. Raises as `plan`."""
        self.switch(self.plan({name: partial(change_unload, is_unloaded=True)}), by)

    def labels(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """A model's labels: those in force, and those that wait for their version."""
        return labels_in_force(self.chosen.choices(name), self.available(name).__contains__)

    def shadow_of(self, answered: ServableId) -> int | None:
        """The shadow for photos that `answered` has answered; None if there is none."""
        shadow = self.chosen.choices(answered.name).shadow
        return None if shadow == answered.version else shadow

    def choices(self, model: str) -> Choices:
        """What is chosen for a model."""
        return self.chosen.choices(model)

    def plan(
        self,
        planners: Mapping[str, Planner],
        is_guarded: bool = False,
        is_compared: bool = True,
        undoes: Switch | None = None,
    ) -> Plan:
        """What the planner of each model, of `dogsnap.routing.planners`, makes of
        what is chosen now.

        To undo, it is enough that the engines that answer have a version.
        Raises what planners raise, and InvalidArgument if a guard has nothing
        to compare with.
        """
        versions = {}
        for model in planners:
            versions[model] = self.versions(model) if model else CONFIGURED
            if undoes:
                versions[model] = versions[model].without_silent_engines()

        def find() -> list[Change]:
            changes = []
            for model, planner in planners.items():
                choices = self.choices(model)
                changes += find_changes(planner, choices, versions[model], is_guarded)
            return changes

        changes, differences = find(), Differences()
        if is_compared:
            for model in planners:
                of_model = [change for change in changes if change.model == model]
                differences += self._compare(versions[model], of_model, is_guarded)
        return Plan(frozenset(planners), find, changes, differences, is_guarded, undoes)

    def _compare(
        self, versions: Versions, changes: Sequence[Change], is_guarded: bool
    ) -> Differences:
        """How versions of a model differ from those that they replace."""
        choices = self.choices(versions.model)
        replaced, unknown = replacements(choices, versions, changes)
        if is_guarded:
            check_guard(changes, replaced)
        found = Differences(noted=tuple(unknown))
        for numbers in replaced:
            before, after = [ModelSpec(versions.model, number) for number in numbers]
            with self.acquire(before) as servable_before, self.acquire(after) as servable_after:
                found += compare(servable_before, servable_after)
        return found

    def plan_undo(self, number: int | None = None, model: str = "") -> Plan:
        """Of the switch with this id, or of the last one in force (of a model).

        Raises Aborted for one that cannot be undone, NotFound, FailedPrecondition.
        """
        switch = self.chosen.find(number, model, self.is_undoable)
        planners = dict.fromkeys(switch.models, partial(undo, switch=switch))
        return self.plan(planners, is_compared=False, undoes=switch)

    def switch(
        self, plan: Plan, by: Who, is_forced: bool = False, reason: str = ""
    ) -> Switch | None:
        """Make the planned changes; None if there are none.

        Raises what planners and `ChosenVersions.switch` raise, Aborted if something
        else is chosen by now, and, unless it `is_forced`, FailedPrecondition if
        clients would feel the differences.
        """
        felt, undoes = plan.differences.felt, plan.undoes.id if plan.undoes else None
        if felt and not is_forced:
            models = ", ".join(dict.fromkeys(change.model for change in plan.changes))
            raise FailedPrecondition(
                f"clients of {models} would feel this switch: {'; '.join(felt)}; force it with "
                '--force, or "force": true, if nobody needs that'
            )

        def make() -> Sequence[Change]:
            if plan.find_changes() != plan.changes:
                raise was_second(self.chosen.newest_switch(plan.models))
            return plan.changes

        marks = {"is_guarded": plan.is_guarded, "undoes": undoes, "reason": reason}
        return self.chosen.switch(make, by, forced=felt, **marks)

    def is_undoable(self, switch: Switch) -> bool:
        """Whether an undo without a number may choose it."""
        if switch.undoes is not None or self.chosen.undone_by(switch.id) is not None:
            return False
        try:
            for model in switch.models:
                versions = CONFIGURED
                if model:  # without a look at folders or engines
                    default, available = self.default_version(model), self.available(model)
                    versions = Versions(model, tuple(available), default)
                check_in_force(self.choices(model), versions, switch)
        except DogsnapError:
            return False
        return True

    def _is_loading(self) -> bool:
        return False

    def start(self, poll_seconds: float, on_ready: Callable[[], None] = lambda: None) -> None:
        """Scan every `poll_seconds` in a thread; 0: until all is loaded, then
        only on `scan_soon`. `on_ready` is called once.
        """
        self.chosen.start()
        self._thread = threading.Thread(
            target=self._watch, args=(poll_seconds, on_ready), name="watch", daemon=True
        )
        self._thread.start()

    def _watch(self, poll_seconds: float, on_ready: Callable[[], None]) -> None:
        announced = False
        while not self._closed:
            self._scan_safely()
            if not announced and not self.not_ready():
                announced = True
                on_ready()
            if announced and (poll_seconds or not self._is_loading()):
                self._wake.wait(poll_seconds or None)
            else:
                self._wake.wait(min(poll_seconds or LOADING_POLL_SECONDS, LOADING_POLL_SECONDS))
            self._wake.clear()

    def scan_soon(self) -> None:
        """Start a scan now, after a change of configuration or choices."""
        self._wake.set()

    def close(self) -> None:
        """Stop scanning, and wait up to 5 seconds for the end of the last scan.

        Loaded versions are kept.
        """
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.chosen.close()
