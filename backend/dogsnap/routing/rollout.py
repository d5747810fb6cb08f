"""A rollout: a split that grows by steps, each of which is a switch, until its
version has all requests.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dogsnap.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound
from dogsnap.routing.choices import Choices, Rollout
from dogsnap.routing.planners import Versions, change_split
from dogsnap.routing.switch_log import describe_label, describe_value, iso

MOST_STEPS = 100
MOST_SECONDS = 1e9  # until one begins


def plan_rollout(
    version: int, steps: Sequence[float], every: float, requests: int, at: str
) -> Rollout:
    """The value of a rollout that begins `at` a time in ISO 8601 with its zone;
    "": now.

    The last step is always 100 percent. Raises InvalidArgument.
    """
    rising = list(steps)
    if not rising or rising[-1] < 100:
        rising.append(100.0)
    pairs = zip([0.0, *rising], rising, strict=False)
    if len(rising) > MOST_STEPS or any(later <= earlier or later > 100 for earlier, later in pairs):
        shown = ", ".join(f"{step:g}" for step in steps)
        raise InvalidArgument(
            f"the steps are {shown:.100} percent; expected at most {MOST_STEPS}, each above the "
            "one before, from more than 0 to 100"
        )
    return Rollout(version, rising, every, requests, _begin(at))


def _begin(at: str) -> str:
    now = datetime.now(UTC)
    try:
        begin = datetime.fromisoformat(at) if at else now
        is_later = begin >= now
        if begin - now > timedelta(seconds=MOST_SECONDS):
            raise ValueError("no clock shows the end of its first step")
    except (ValueError, TypeError):
        raise InvalidArgument(
            f"at is {at!r}; expected a time in ISO 8601 with its zone, such as {iso(now)}"
        ) from None
    if not is_later:
        raise InvalidArgument(f"at is {at}, which is over; it is {iso(now)} now")
    return iso(begin.astimezone(UTC)) if at else ""


def start_rollout(
    choices: Choices, versions: Versions, label: str, rollout: Rollout, now: str
) -> Choices:
    """Begin with the first step now, or only plan it if the rollout says a time."""
    if label in choices.rollouts:
        shown = describe_value("rollout", choices.rollouts[label].to_value())
        raise FailedPrecondition(
            f"a rollout of {describe_label(label)} of {versions.model} runs already: {shown}; end it first"
        )
    before = choices.labels.get(label) if label else versions.default
    if before == rollout.version:
        raise FailedPrecondition(
            f"{describe_label(label)} of {versions.model} is at version {before} already; expected another"
        )
    if rollout.since:
        return choices.with_value("rollout", label, rollout.to_value())
    return _make_step(choices, label, rollout, now)


def advance_rollout(
    choices: Choices, versions: Versions, label: str, rollout: Rollout, now: str
) -> Choices:
    """The step after that of `rollout`.

    Raises Aborted if that is not in force: another server was first.
    """
    if choices.rollouts.get(label) != rollout:
        raise Aborted("the rollout is at another step")
    return _make_step(choices, label, rollout, now)


def _make_step(choices: Choices, label: str, rollout: Rollout, now: str) -> Choices:
    """The next share as a split; or, the last step, the version as label or default."""
    rollout = replace(rollout, step=rollout.step + 1, since=now)
    percent = rollout.steps[rollout.step]
    if percent == 100:
        return choices.with_value("label" if label else "default", label, rollout.version)
    split = {"version": rollout.version, "share": percent / 100}
    choices = choices.with_value("split", label, split)
    return choices.with_value("rollout", label, rollout.to_value())


def pause_rollout(choices: Choices, versions: Versions, label: str) -> Choices:
    """It stays at its step; its guard goes on."""
    rollout = replace(_running(choices, versions, label), is_paused=True)
    return choices.with_value("rollout", label, rollout.to_value())


def resume_rollout(choices: Choices, versions: Versions, label: str, now: str) -> Choices:
    """Its step begins afresh, and so does what its guard counts."""
    rollout = replace(_running(choices, versions, label), is_paused=False)
    if rollout.step >= 0:
        rollout = replace(rollout, since=now)
    choices = choices.with_value("split", label, choices.get("split", label))
    return choices.with_value("rollout", label, rollout.to_value())


def stop_rollout(choices: Choices, versions: Versions, label: str) -> Choices:
    """All requests go to the version that answered before it."""
    _running(choices, versions, label)
    return change_split(choices, versions, label, None, 0)


def _running(choices: Choices, versions: Versions, label: str) -> Rollout:
    if label not in choices.rollouts:
        raise NotFound(f"{describe_label(label)} of {versions.model} has no rollout")
    return choices.rollouts[label]
