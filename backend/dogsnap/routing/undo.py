"""Undoes switches, and tells which can be undone."""

from dogsnap.errors import Aborted, FailedPrecondition, NotFound
from dogsnap.routing.switches import Switch, Who
from dogsnap.serving.repository.interface import ModelRepository


def undo(
    repository: ModelRepository, by: Who, number: int | None = None, model: str = ""
) -> Switch:
    """Undo the switch with this id, or the last one in force (of a model). Raises Aborted for one that cannot be undone."""
    if number is None:
        newest = (
            each for each in repository.switches.switches(model) if is_undoable(repository, each)
        )
        switch = next(newest, None)
        if switch is None:
            raise FailedPrecondition(
                "there is no switch to undo" + (f" for {model}" if model else "")
            )
    else:
        switch = repository.switches.switch(number)
        if switch is None:
            raise NotFound(f"there is no switch {number} in the log")
        if switch.part_of is not None:
            raise Aborted(
                f"switch {number} ({switch}) is a part of switch {switch.part_of}; undo that one"
            )
    return switch.subject.undo(repository, switch, by)


def is_undoable(repository: ModelRepository, switch: Switch) -> bool:
    if (
        switch.undoes is not None
        or switch.part_of is not None
        or repository.switches.is_undone(switch.id)
    ):
        return False
    return switch.subject.is_in_force(repository, switch)
