"""Runs requests that were answered on a shadow version, too, and counts where
both name another breed, or give other outputs.

It runs after the answer, one request at a time, and drops requests while the
server is busy.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.answers.output_agreement import compare_outputs, count_rows
from dogsnap.serving.metrics import SHADOW_PROTOCOL, Metrics
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.tensors.signatures import Arrays, ServableId
from dogsnap.serving.versions.servable import BaseServable

log = logging.getLogger("dogsnap.shadow")

Run = Callable[[BaseServable], Arrays | None]
Pairs = Counter[tuple[str, str]]
PLACES = 2  # photos that wait: enough to keep the thread busy, and little memory for them
# Pairs of classes that are counted: all of 120 breeds, and little memory for any more.
MOST_DIFFERENCES = 20_000


class Shadow:
    def __init__(self, repository: ModelRepository, metrics: Metrics, is_busy: Callable[[], bool]):
        self._repository = repository
        self._metrics = metrics
        self._is_busy = is_busy
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shadow")
        self._places = threading.Semaphore(PLACES)
        self._lock = threading.Lock()
        # By model: its shadow, when versions were last forgotten, and where both differ.
        self._differences: dict[str, tuple[tuple[int, int], Pairs]] = {}

    def offer(self, answered: BaseServable, outputs: Arrays, run: Run) -> None:
        """Queue `run`, which gives None where it cannot run, for the shadow of
        this model. Returns at once, raises nothing.
        """
        shadow = self._repository.chosen.choices(answered.id.name).shadow
        if shadow is None or shadow == answered.id.version:
            return
        first = Seen(named_classes(answered, outputs), outputs)
        if self._is_busy() or not self._places.acquire(blocking=False):
            self._metrics.count_shadow(answered.id, shadow, "dropped", first.rows)
            return
        with suppress(RuntimeError):  # the server stops
            self._thread.submit(self._compare, answered.id, shadow, first, run)

    def _compare(self, answered: ServableId, shadow: int, first: "Seen", run: Run) -> None:
        """Run the shadow, and count the rows in which it agrees with `first`."""
        self._places.release()
        count = partial(self._metrics.count_shadow, answered, shadow)
        if self._is_busy():
            return count("dropped", first.rows)
        try:
            with (
                self._metrics.request(SHADOW_PROTOCOL) as request,
                self._repository.acquire(ModelSpec(answered.name, shadow)) as servable,
            ):
                request.servable = servable.id
                outputs = run(servable)
                if outputs is None:
                    return
                theirs = Seen(named_classes(servable, outputs), outputs)
        except Exception as error:  # failures of a shadow must not affect answers
            log.warning("shadow %s version %d failed: %s", answered.name, shadow, error)
            return count("failed", first.rows)
        agreeing = first.agreeing_rows(theirs)
        count("agree", agreeing)
        count("differ", first.rows - agreeing)
        if first.classes is None or theirs.classes is None:
            return
        with self._lock:
            counted = self._count_pairs(answered.name, shadow)
            for pair in zip(first.classes, theirs.classes, strict=False):
                is_counted = pair in counted or len(counted) < MOST_DIFFERENCES
                if pair[0] != pair[1] and is_counted:
                    counted[pair] += 1

    def differences(self, model: str, shadow: int, most: int) -> list[tuple[tuple[str, str], int]]:
        """What answers and this shadow named most often where they differ: (the
        answer's class, the shadow's), and how often.
        """
        with self._lock:
            return self._count_pairs(model, shadow).most_common(most)

    def _count_pairs(self, model: str, shadow: int) -> Pairs:
        """The pairs of this shadow; those of another one before it are forgotten, and
        so are those of versions whose classes may be others now.
        """
        counted_for = shadow, self._metrics.forgotten[model]
        if model not in self._differences or self._differences[model][0] != counted_for:
            self._differences[model] = counted_for, Counter()
        return self._differences[model][1]

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Seen:
    """What a version answered. `classes`: of each row, see `named_classes`."""

    classes: list[str] | None
    outputs: Arrays

    @property
    def rows(self) -> int:
        """How many rows are counted."""
        return len(self.classes) if self.classes is not None else count_rows(self.outputs)

    def agreeing_rows(self, other: "Seen") -> int:
        """In how many rows both name the same; without names, give the same."""
        if self.classes is not None:
            pairs = zip(self.classes, other.classes or (), strict=False)
            return sum(first == second for first, second in pairs)
        found = compare_outputs(self.outputs, other.outputs)
        if not found or count_rows(other.outputs) != self.rows:
            return 0
        return int(np.all([each.agrees for each in found.values()], axis=0).sum())


def named_classes(servable: BaseServable, outputs: Arrays) -> list[str] | None:
    """The id of the most probable class of each row, of independent classes
    those of all that it shows; None unless `outputs` are the probabilities of
    named classes.
    """
    labels = servable.description.labels
    prediction = outputs.get("prediction")
    if not labels or prediction is None or prediction.shape[1:] != (len(labels),):
        return None
    ids = [label["id"] for label in labels]
    thresholds = servable.description.levels.thresholds
    if thresholds is None:
        return [ids[index] for index in np.argmax(prediction, axis=1)]
    rows = [np.flatnonzero(row) for row in prediction >= thresholds]
    return ["|".join(sorted(ids[place] for place in row)) for row in rows]
