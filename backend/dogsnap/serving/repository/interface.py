"""What the local repository and the gateway's have in common: the methods, and
the thread that looks for versions.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from dogsnap.errors import Aborted, FailedPrecondition, NotFound
from dogsnap.routing.changes import (
    Planner,
    Replacement,
    Versions,
    check_guard,
    replacements,
    withdraw,
)
from dogsnap.routing.choices import Change, Rollout
from dogsnap.routing.resolver import labels_in_force
from dogsnap.routing.rollout import next_step
from dogsnap.routing.router import Router, not_in_force
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switches import GUARD, ROLLOUT, Switch, Who, iso
from dogsnap.serving.repository.model import VersionStatus
from dogsnap.serving.tensors.signatures import ServableId
from dogsnap.serving.versions.differences import Differences, compare
from dogsnap.serving.versions.servable import BaseServable

# Seconds between two scans until the server is ready and while versions are loaded, for
# which two scans are needed.
LOADING_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Plan:
    """What a switch would change, and how versions differ from those that they replace.

    `planners` have found the changes, by model, for these `versions`.
    """

    planners: Mapping[str, Planner]
    versions: Mapping[str, Versions]
    changes: tuple[Change, ...]
    differences: Differences
    is_guarded: bool


class ModelRepository(Protocol):
    """Thread-safe.

    `dogsnap.serving.repository.repository.Repository` documents the methods.
    """

    router: Router
    _lock: threading.RLock
    _wake: threading.Event
    _thread: threading.Thread | None = None
    started: bool = (
        False  # the first scan is finished: every version was loaded or has failed to load
    )
    _closed: bool = False

    def __init__(self, router: Router) -> None:
        self._lock, self._wake = threading.RLock(), threading.Event()
        self.router = router

    def acquire(self, spec: ModelSpec) -> AbstractContextManager[BaseServable]: ...
    def models(self) -> list[str]: ...
    def available(self, name: str) -> list[int]: ...
    def status(self, spec: ModelSpec) -> list[VersionStatus]: ...
    def default_version(self, name: str) -> int | None: ...
    def versions(self, name: str) -> Versions: ...
    def not_ready(self) -> str: ...
    def _scan_safely(self) -> None: ...

    def try_again(self, name: str, version: int | None = None) -> None:
        """Load at once what is to be loaded and has failed, where versions are
        loaded, and `version` if it was exported again.
        """
        return

    def labels(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """A model's labels: those in force, and those that wait for their version."""
        return labels_in_force(self.router.choices(name), self.available(name).__contains__)

    def shadow_of(self, answered: ServableId) -> int | None:
        """The shadow for photos that `answered` has answered; None if there is none."""
        shadow = self.router.choices(answered.name).shadow
        return None if shadow == answered.version else shadow

    def plan(self, planners: Mapping[str, Planner], is_guarded: bool = False) -> Plan:
        """What the planner of each model, of `dogsnap.routing.changes`, finds
        for what is chosen now.

        Raises what planners raise, and InvalidArgument if a guard has nothing
        to compare with.
        """
        asked, planned = {}, []
        replaced: list[Replacement] = []
        found = Differences()
        for model, planner in planners.items():
            choices, versions = self.router.choices(model), self.versions(model)
            asked[model] = versions
            changes = planner(choices, versions)
            of_model, unknown = replacements(choices, versions, changes)
            planned += changes
            replaced += of_model
            found += Differences(noted=tuple(unknown))
            for each in of_model:
                with (
                    self.acquire(ModelSpec(model, each.before)) as before,
                    self.acquire(ModelSpec(model, each.after)) as after,
                ):
                    found += compare(before, after)
        if is_guarded:
            check_guard(planned, replaced)
        return Plan(planners, asked, tuple(planned), found, is_guarded)

    def switch(self, plan: Plan, by: Who, is_forced: bool = False) -> Switch | None:
        """Make the planned changes; None if nothing changes.

        Raises what planners and `Router.switch` raise, Aborted if something
        else is chosen by now, and, unless it `is_forced`, FailedPrecondition if
        clients would feel the differences.
        """
        felt = plan.differences.felt
        if felt and not is_forced:
            raise FailedPrecondition(
                f"clients of {', '.join(plan.planners)} would feel this switch: {'; '.join(felt)}; "
                'force it with --force, or "force": true, if nobody needs that'
            )

        def make() -> list[Change]:
            changes = []
            for model, planner in plan.planners.items():
                changes += planner(self.router.choices(model), plan.versions[model])
            if tuple(changes) != plan.changes:
                raise Aborted("somebody switched at this moment; look at it and try again")
            return changes

        return self.router.switch(make, by, forced=felt, is_guarded=plan.is_guarded)

    def withdraw(self, switch: Switch, change: Change, reason: str) -> None:
        """Send no more requests to the version that this change of `switch`
        chose, as the guard.

        Raises Aborted if it is not in force.
        """
        versions = self.versions(switch.model).without_silent_engines()

        def make() -> list[Change]:
            choices = self.router.choices(switch.model)
            if choices.get(change.kind, change.name) != change.after:
                raise not_in_force(switch)
            return withdraw(choices, versions, change)

        self.router.switch(make, GUARD, switch.id, reason=reason)

    def advance(self, model: str, label: str, rollout: Rollout) -> None:
        """Make the next step of a rollout. Raises Aborted if another server was first."""
        versions, now = self.versions(model), iso(datetime.now(UTC))

        def make() -> list[Change]:
            choices = self.router.choices(model)
            if choices.rollouts.get(label) != rollout:
                raise Aborted("the rollout is at another step")
            return next_step(choices, versions, label, rollout, now)

        self.router.switch(make, ROLLOUT, is_guarded=True)

    def undo(self, by: Who, number: int | None = None, model: str = "") -> Switch:
        """Undo the switch with this id, or the last one in force (of a model).

        Raises Aborted for one that cannot be undone, NotFound, FailedPrecondition.
        """
        switch = self.router.find(number, model, self.is_undoable)
        return self.router.undo(switch, self._answering_versions(switch), by)

    def plan_undo(self, number: int | None, model: str) -> tuple[Switch, Sequence[Change]]:
        """The switch that `undo` would undo, and how. Raises as that does."""
        switch = self.router.find(number, model, self.is_undoable)
        if not switch.model:  # of a configuration; it is described as it was
            (change, *_) = switch.changes
            return switch, [replace(change, before=change.after, after=change.before)]
        return switch, self.router.plan_undo(switch, self._answering_versions(switch))

    def _answering_versions(self, switch: Switch) -> dict[str, Versions]:
        """Of each model: to go back, it is enough that the engines that answer
        have a version.
        """
        return {model: self.versions(model).without_silent_engines() for model in switch.models}

    def is_undoable(self, switch: Switch) -> bool:
        """Whether `undo` without a number may choose it."""
        try:
            default, available = self.default_version(switch.model), self.available(switch.model)
            return self.router.is_undoable(switch, default, available)
        except NotFound:
            return False

    def _is_loading(self) -> bool:
        return False

    def start(self, poll_seconds: float, on_ready: Callable[[], None] = lambda: None) -> None:
        """Scan every `poll_seconds` in a thread; 0: until all is loaded, then
        only on `scan_soon`. `on_ready` is called once.
        """
        self.router.start()
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
        self.router.close()
