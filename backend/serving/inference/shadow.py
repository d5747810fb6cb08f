"""Runs photos that were answered on a shadow version too, counts how often both name the same breed, and where they differ.

It runs after the answer, one photo at a time, and drops photos while the server is busy.
"""

import contextlib
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from backend.serving.metrics import SHADOW_PROTOCOL, Metrics
from backend.serving.repository.interface import ModelRepository
from backend.serving.repository.model import ModelSpec
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions.servable import BaseServable

log = logging.getLogger("dogsnap.shadow")

Outputs = dict[str, np.ndarray]
Run = Callable[[BaseServable], Outputs | None]
PLACES = 2  # length of the queue: enough to keep the thread busy, and little memory for the photos
CLOSE_SECONDS = 5.0
MOST_DIFFERENCES = 20_000  # pairs of classes that are counted: all of 120 breeds, and little memory for any more


@dataclass(frozen=True)
class Shown:
    """What the shadow is to run (it gives None if it cannot), and the first class of each row that `answered` gave."""

    answered: ServableId
    shadow: int
    first: list[str]
    run: Run


class Shadow:
    """Runs the shadows of all models in one thread."""

    def __init__(self, repository: ModelRepository, metrics: Metrics, is_busy: Callable[[], bool]):
        self._repository = repository
        self._metrics = metrics
        self._is_busy = is_busy
        self._waiting: queue.Queue[Shown | None] = queue.Queue(PLACES)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._lock = threading.Lock()
        self._differences_of: dict[str, int] = {}  # the shadow, by model
        self._differences: dict[str, Counter[tuple[str, str]]] = {}

    def offer(self, answered: BaseServable, outputs: Outputs, run: Run) -> None:
        """Queue `run` for the shadow of this model, if it has one, to compare with `outputs`. Returns at once, raises
        nothing.
        """
        shadow = self._repository.shadow_of(answered.id)
        first = first_classes(answered, outputs) if shadow is not None else None
        if shadow is None or first is None:
            return
        shown = Shown(answered.id, shadow, first, run)
        try:
            if self._is_busy():
                raise queue.Full
            self._waiting.put_nowait(shown)
            self._start()
        except queue.Full:
            self._count(shown, "dropped", len(shown.first))

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="shadow", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (shown := self._waiting.get()) is not None:
            if self._is_busy():
                self._count(shown, "dropped", len(shown.first))
            else:
                self._run(shown)

    def _run(self, shown: Shown) -> None:
        spec = ModelSpec(shown.answered.name, shown.shadow)
        try:
            with self._metrics.request(SHADOW_PROTOCOL) as request, self._repository.acquire(spec) as servable:
                request.answered_by(servable.id)
                outputs = shown.run(servable)
                theirs = None if outputs is None else first_classes(servable, outputs) or []
        except Exception as error:  # failures of a shadow must not affect answers
            log.warning("shadow %s version %d failed: %s", shown.answered.name, shown.shadow, error)
            self._count(shown, "failed", len(shown.first))
        else:
            if theirs is not None:
                differing = [pair for pair in zip_longest(shown.first, theirs) if pair[0] != pair[1]]
                self._count(shown, "agree", len(shown.first) - len(differing))
                self._count(shown, "differ", len(differing))
                self._remember(shown, [pair for pair in differing if None not in pair])

    def _remember(self, shown: Shown, pairs: Iterable[tuple[str, str]]) -> None:
        with self._lock:
            if self._differences_of.get(shown.answered.name) != shown.shadow:  # another shadow begins anew
                self._differences_of[shown.answered.name] = shown.shadow
                self._differences[shown.answered.name] = Counter()
            counted = self._differences[shown.answered.name]
            counted.update(pair for pair in pairs if pair in counted or len(counted) < MOST_DIFFERENCES)

    def differences(self, model: str, shadow: int, most: int) -> list[tuple[tuple[str, str], int]]:
        """What answers and this shadow named most often where they differ: (the answer's class, the shadow's), and how often."""
        with self._lock:
            is_known = self._differences_of.get(model) == shadow
            return self._differences[model].most_common(most) if is_known else []

    def _count(self, shown: Shown, result: str, photos: int) -> None:
        self._metrics.shadowed(shown.answered, shown.shadow, result, photos)

    def close(self) -> None:
        """Finish the running photo and discard the queued ones."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(CLOSE_SECONDS)


def first_classes(servable: BaseServable, outputs: Outputs) -> list[str] | None:
    """The id of the most probable class of each row, or None unless `outputs` are the probabilities of named classes."""
    labels, prediction = servable.description.labels, outputs.get("prediction")
    if not labels or prediction is None or prediction.ndim != 2 or prediction.shape[1] != len(labels):
        return None
    return [labels[index]["id"] for index in np.argmax(prediction, axis=1)]
