"""Makes the steps of rollouts, on time and while their guard is content; of
several servers one does.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from dogsnap.errors import DogsnapError
from dogsnap.routing.choices import Rollout
from dogsnap.routing.switches import describe_value, iso
from dogsnap.serving.inference.guarding import Guard, Setting
from dogsnap.serving.repository.interface import ModelRepository

log = logging.getLogger("dogsnap.rollout")

LOOK_SECONDS = 1.0


class Rollouts:
    """Looks after guarded switches and rollouts whenever the router has
    followed its store.
    """

    def __init__(
        self,
        repository: ModelRepository,
        guard: Guard,
        clock: Callable[[], float] = time.time,
    ):
        """`clock`: seconds since 1970."""
        self._repository, self._guard, self._clock = repository, guard, clock
        self._looked = 0.0
        self._texts: dict[Setting, str] = {}  # what each waits for
        repository.router.on_follow = self.follow

    def shown(self, model: str) -> list[dict[str, object]]:
        """The rollouts of a model, each with a sentence."""
        shown: list[dict[str, object]] = []
        for of_model, label, rollout in self._repository.router.rollouts():
            if of_model == model:
                text = describe_value("rollout", rollout.to_value())
                if waits := self._texts.get((model, label), ""):
                    text = f"{text}; {waits}"
                shown.append({"label": label, **rollout.to_value(), "text": text})
        return shown

    def follow(self) -> None:
        self._guard.watch_guarded()
        if time.monotonic() >= self._looked + LOOK_SECONDS:
            self._looked = time.monotonic()
            self.look()

    def look(self) -> None:
        self._guard.look()
        texts = {}
        for model, label, rollout in self._repository.router.rollouts():
            try:
                texts[model, label] = self._advance(model, label, rollout)
            except DogsnapError as error:  # another server was first, or the version is not there
                texts[model, label] = f"waits: {error.message}"
                log.debug("rollout of %s %s %s", model, label, texts[model, label])
        self._texts = texts

    def _advance(self, model: str, label: str, rollout: Rollout) -> str:
        """Make the next step if it is its time; otherwise say what it waits for."""
        if rollout.is_paused:
            return ""
        due = datetime.fromisoformat(rollout.since).timestamp()
        if rollout.step >= 0:
            due += rollout.every
        if self._clock() < due:
            percent = rollout.steps[rollout.step + 1]
            return f"{percent:g} % from {iso(datetime.fromtimestamp(due, UTC))[:19]}Z"
        if rollout.step >= 0:
            finding, requests = self._guard.finding_of_split((model, label))
            if not finding.is_content:
                return f"waits: {finding.text}"
            if requests < rollout.requests:
                return f"waits: {requests} requests in this step, {rollout.requests} are asked for"
        self._repository.advance(model, label, rollout)
        return ""
