"""Plans switches, compares versions with those that they replace, and makes them."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

from dogsnap.errors import Aborted, DogsnapError, FailedPrecondition
from dogsnap.routing.choices import Change, Choices
from dogsnap.routing.chosen_versions import was_second
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
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.switch_log import Switch, Who
from dogsnap.serving.repository.interface import CONFIGURED, IsAwaited, ModelRepository
from dogsnap.serving.versions.differences import Differences, compare, never_copied
from dogsnap.serving.versions.model_configs import from_json


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


class Switcher:
    """Thread-safe."""

    def __init__(self, repository: ModelRepository):
        self._repository, self._chosen = repository, repository.chosen

    def plan(
        self,
        planners: Mapping[str, Planner],
        is_guarded: bool = False,
        is_compared: bool = True,
        undoes: Switch | None = None,
        seen: int | None = None,
    ) -> Plan:
        """What the planner of each model, of `dogsnap.routing.planners`, makes of
        what is chosen now.

        To undo, it is enough that the engines that answer have a version.
        Raises what planners raise, InvalidArgument if a guard has nothing to
        compare with, and Aborted if one of the models was switched after the
        switch `seen`, the last one that the client knows.
        """
        versions = {}
        for model in planners:
            is_configuration = undoes is not None and not model
            versions[model] = CONFIGURED if is_configuration else self._repository.versions(model)
            if undoes:
                versions[model] = versions[model].without_silent_engines()

        def find() -> list[Change]:
            changes = []
            for model, planner in planners.items():
                choices = self._choices(model)
                changes += find_changes(planner, choices, versions[model], is_guarded)
            return changes

        try:
            changes, differences = find(), Differences()
        except DogsnapError:
            # Who was first says more than what became impossible by it.
            self._refuse_unseen(planners.keys(), seen)
            raise
        self._refuse_unseen(planners.keys(), seen)
        if is_compared:
            for model in planners:
                of_model = [change for change in changes if change.model == model]
                differences += self._compare(versions[model], of_model, is_guarded)
        return Plan(frozenset(planners), find, changes, differences, is_guarded, undoes)

    def _refuse_unseen(self, models: Set[str], seen: int | None) -> None:
        """Raises Aborted if one of the models was switched after the switch `seen`."""
        newest = self._chosen.newest_switch(models)
        if seen is not None and newest and newest.id > seen:
            raise was_second(newest)

    def plan_undo(
        self, number: int | None = None, model: str = "", seen: int | None = None
    ) -> Plan:
        """Of the switch with this id, or of the last one in force (of a model).

        Raises Aborted for one that cannot be undone, NotFound, FailedPrecondition.
        """
        switch = self._chosen.find(number, model, self.is_undoable)
        planners = dict.fromkeys(switch.models, partial(undo, switch=switch))
        return self.plan(planners, is_compared=False, undoes=switch, seen=seen)

    def apply(
        self, plan: Plan, by: Who, is_forced: bool = False, reason: str = ""
    ) -> Switch | None:
        """Make the planned changes; None if there are none.

        Raises what planners and `ChosenVersions.switch` raise, Aborted if something
        else is chosen by now, and, unless it `is_forced`, FailedPrecondition if
        clients would feel the differences.
        """
        felt, undoes = plan.differences.felt, plan.undoes
        if felt and not is_forced:
            models = ", ".join(dict.fromkeys(change.model for change in plan.changes))
            raise FailedPrecondition(
                f"clients of {models} would feel this switch: {'; '.join(felt)}; force it with "
                '--force, or "force": true, if nobody needs that'
            )
        if undoes and not undoes.model:
            (change,) = plan.changes
            configs = None if change.after is None else from_json(change.after)
            return self._repository.reconfigure(configs, by, undoes)

        def make() -> Sequence[Change]:
            if plan.find_changes() != plan.changes:
                raise was_second(self._chosen.newest_switch(plan.models))
            return plan.changes

        return self._chosen.switch(
            make,
            by,
            undoes=undoes.id if undoes else None,
            forced=felt,
            is_guarded=plan.is_guarded,
            reason=reason,
        )

    def load_model(self, name: str, by: Who, timeout: float, is_awaited: IsAwaited) -> None:
        """Serve a model as its folder is now, if it was unloaded, too; return when that is
        done. Raises as the repository's method.
        """
        planners = {name: partial(change_unload, is_unloaded=False)}

        def choose() -> None:
            try:
                self.apply(self.plan(planners), by)
            except Aborted:  # another client was first, perhaps with the same
                self.apply(self.plan(planners), by)

        self._repository.load_model(name, choose, timeout, is_awaited)

    def unload_model(self, name: str, by: Who) -> None:
        """Serve no version of a model until it is loaded again. Raises as `plan`."""
        self.apply(self.plan({name: partial(change_unload, is_unloaded=True)}), by)

    def is_undoable(self, switch: Switch) -> bool:
        """Whether an undo without a number may choose it."""
        if switch.undoes is not None or self._chosen.undone_by(switch.id) is not None:
            return False
        repository = self._repository
        try:
            for model in switch.models:
                versions = CONFIGURED
                if model:  # without a look at folders or engines
                    available = tuple(repository.available(model))
                    versions = Versions(model, available, repository.default_version(model))
                check_in_force(self._choices(model), versions, switch)
        except DogsnapError:
            return False
        return True

    def _choices(self, model: str) -> Choices:
        """What is chosen for a model; of "" the configuration of the server."""
        return self._chosen.choices(model) if model else self._repository.configuration()

    def _compare(
        self, versions: Versions, changes: Sequence[Change], is_guarded: bool
    ) -> Differences:
        """How versions of a model differ from those that they replace, and whether a
        shadow gets copies.
        """
        choices = self._choices(versions.model)
        replaced, unknown = replacements(choices, versions, changes)
        if is_guarded:
            check_guard(changes, replaced)
        pairs = [(compare, before, after) for before, after in replaced]
        default = versions.default
        for change in changes:
            if change.kind == "shadow" and default is not None:
                pairs.append((never_copied, default, change.after))
        found = Differences(noted=tuple(unknown))
        for judge, before, after in pairs:
            if all(map(versions.is_available, (before, after))):
                with (
                    self._repository.acquire(ModelSpec(versions.model, before)) as answering,
                    self._repository.acquire(ModelSpec(versions.model, after)) as other,
                ):
                    found += judge(answering, other)
        return found
