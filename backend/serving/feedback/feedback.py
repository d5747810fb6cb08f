"""Feedback of users on answers: issues signed request ids, stores the feedback on them, and reports on it.

The request id contains the claim of the version that answered. A shadow version answers after the response is sent, so its
claim is kept in memory until the feedback arrives: at most MAX_SHADOW_CLAIMS, and not beyond a restart. Without it, the
feedback counts only for the version that answered.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from backend.errors import DogsnapError, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from backend.serving.feedback.claims import BREED, VERDICTS, Claim, claim_of, is_right
from backend.serving.feedback.request_ids import Facts, Signer, model_digest
from backend.serving.feedback.store import Row, Store, timestamp
from backend.serving.feedback.verdict import verdict
from backend.serving.metrics import Metrics
from backend.serving.repository.interface import ModelRepository
from backend.serving.repository.model import ModelSpec
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions.labels import Classification

log = logging.getLogger("dogsnap.feedback")

# Feedback is accepted for a day after the answer: later, users do not remember which dog it was. Clocks may differ a little.
MAX_AGE_SECONDS, CLOCK_SKEW_SECONDS = 24 * 3600, 60
MAX_SHADOW_CLAIMS = 10_000  # about 4 MB
SWEEP_SECONDS = 3600.0


class Feedback:
    """Everything about feedback on the answers of one repository. Thread-safe."""

    def __init__(self, store: Store, signer: Signer, repository: ModelRepository, metrics: Metrics):
        self._store = store
        self._signer = signer
        self._repository = repository
        self._metrics = metrics
        self._lock = threading.Lock()
        self._shadows: OrderedDict[str, Claim] = OrderedDict()
        self._classes = lru_cache(64)(self._read_classes)
        self._verdicts: dict[str, tuple[int, dict[str, Any]]] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._sweep, name="feedback", daemon=True).start()

    # -- answers -------------------------------------------------------------------------------------------------------

    def signed(self, number: str, result: Classification, spec: ModelSpec) -> str | None:
        """The request id for feedback on `result`, the answer to `spec`; None if no feedback is possible."""
        claim = claim_of(result)
        try:
            indices = self._classes(result.servable)
            facts = Facts(
                time=int(time.time()),
                model=model_digest(result.servable.name),
                version=claim.version,
                split=self._repository.is_split(spec),
                level=claim.level,
                probability=claim.probability or 0.0,
                classes=tuple(indices[breed] for breed in claim.breeds),
            )
        except (DogsnapError, KeyError):  # the version has just gone, or its labels have changed under it
            self._classes.cache_clear()
            return None
        return self._signer.signed(number, facts)

    def on_shadow(self, number: str) -> Callable[[Classification], None]:
        """A callback that stores the shadow version's answer to this request."""

        def store(result: Classification) -> None:
            with self._lock:
                self._shadows[number] = claim_of(result)
                if len(self._shadows) > MAX_SHADOW_CLAIMS:
                    self._shadows.popitem(last=False)

        return store

    # -- feedback ------------------------------------------------------------------------------------------------------

    def give(self, request_id: str, said: str, breed: str) -> None:
        """Store a user's feedback on an answer: one of VERDICTS, or, with `said` "", the id of a breed.

        Raises InvalidArgument (no such verdict or breed, no signed id), NotFound (an id that this server did not sign, or
        of a version that is gone), FailedPrecondition (too late), AlreadyExists, Unavailable.
        """
        number, facts = self._signer.opened(request_id)
        _check_time(facts.time)
        answered, classes = self._answered(facts)
        _check_said(said, breed, classes)
        breeds = list(classes)
        claim = Claim(
            facts.version,
            facts.level,
            tuple(breeds[index] for index in facts.classes),
            None if facts.level == "no_dog" else facts.probability,
        )
        with self._lock:
            shadow = self._shadows.get(number)
        row = _row(number, facts, answered.name, claim, shadow, said or BREED, breed)
        self._store.add(row)
        with self._lock:
            self._shadows.pop(number, None)
        self._metrics.feedback(answered, {1: "right", 0: "wrong", None: "unclear"}[row.is_right])

    def forget(self, request_ids: Sequence[str]) -> int:
        """Delete the feedback on these answers, however old; returns how many rows were deleted.

        Ids that this server did not sign are ignored. Raises Unavailable.
        """
        numbers = []
        for each in request_ids:
            with suppress(InvalidArgument, NotFound):
                numbers.append(self._signer.opened(each)[0])
        return self._store.remove(numbers)

    # -- reports -------------------------------------------------------------------------------------------------------

    def verdict(self, model: str) -> dict[str, Any]:
        """As `verdict.verdict` gives it. Raises Unavailable."""
        changes, known = self._store.changes, self._verdicts.get(model)
        if known is None or known[0] != changes:
            known = self._verdicts[model] = changes, verdict(self._store.rows(model), self._names(model))
        return known[1]

    def csv(self) -> Iterator[str]:
        """The whole table, as `Store.csv` gives it."""
        return self._store.csv()

    def close(self) -> None:
        self._closed.set()
        self._store.close()

    def _sweep(self) -> None:
        while not self._closed.wait(SWEEP_SECONDS):
            with suppress(Unavailable):  # it is in the log
                self._store.sweep()

    def _answered(self, facts: Facts) -> tuple[ServableId, Mapping[str, int]]:
        name = next((each for each in self._repository.models() if model_digest(each) == facts.model), None)
        if name is None:
            raise NotFound("the model that gave this answer is not served here any more")
        answered = ServableId(name, facts.version)
        classes = self._classes(answered)
        if any(index >= len(classes) for index in facts.classes):
            raise NotFound(f"{answered} names other breeds than the version that gave this answer")
        return answered, classes

    def _read_classes(self, servable: ServableId) -> Mapping[str, int]:
        """The index of each breed among a version's labels, in their order. Raises NotFound, Unavailable."""
        with self._repository.acquire(ModelSpec(servable.name, servable.version)) as found:
            return {label["id"]: index for index, label in enumerate(found.description.labels)}

    def _names(self, model: str) -> dict[str, str]:
        """English names of breeds by id, of all available versions."""
        names: dict[str, str] = {}
        for number in reversed(self._repository.available(model)):
            with suppress(DogsnapError), self._repository.acquire(ModelSpec(model, number)) as found:
                names.update({label["id"]: label["name"] for label in found.description.labels})
        return names


def _check_time(answered_at: int) -> None:
    age = time.time() - answered_at
    if not -CLOCK_SKEW_SECONDS <= age <= MAX_AGE_SECONDS:
        raise FailedPrecondition(
            f"this answer was given {age / 3600:.0f} hours ago; feedback is taken within {MAX_AGE_SECONDS // 3600}"
        )


def _check_said(said: str, breed: str, classes: Mapping[str, int]) -> None:
    if bool(said) == bool(breed):
        raise InvalidArgument('expected either "breed" or "verdict", received ' + ("both" if said else "neither"))
    if said and said not in VERDICTS:
        raise InvalidArgument(f"verdict is {said!r}; expected one of {', '.join(VERDICTS)}")
    if breed and breed not in classes:
        raise InvalidArgument(
            f"breed is {breed!r}; expected the id of a breed that the version knows, or verdict other, mix or no_dog"
        )


def _row(number: str, facts: Facts, model: str, claim: Claim, shadow: Claim | None, said: str, breed: str) -> Row:
    right = is_right(claim, claim, said, breed)
    shadow_right = is_right(shadow, claim, said, breed) if shadow else None
    return Row(
        request_id=number,
        answered_at=timestamp(datetime.fromtimestamp(facts.time, UTC)),
        model=model,
        split=int(facts.split),
        version=claim.version,
        level=claim.level,
        breeds=" ".join(claim.breeds),
        probability=claim.probability,
        shadow_version=shadow.version if shadow else None,
        shadow_level=shadow.level if shadow else None,
        shadow_breeds=" ".join(shadow.breeds) if shadow else None,
        shadow_probability=shadow.probability if shadow else None,
        verdict=said,
        breed=breed or None,
        is_right=None if right is None else int(right),
        shadow_is_right=None if shadow_right is None else int(shadow_right),
    )
