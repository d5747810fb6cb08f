"""Feedback of users on answers: issues signed request ids, stores the feedback on them, and reports on it."""

import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from backend.errors import DogsnapError, InvalidArgument, NotFound, Unavailable
from backend.serving.answers.claims import BREED, VERDICTS, judge, named_by
from backend.serving.answers.labels import Classification
from backend.serving.feedback.request_ids import Facts, Signer
from backend.serving.feedback.store import Store, timestamp
from backend.serving.feedback.verdict import verdict
from backend.serving.feedback.votes import Arms
from backend.serving.metrics import Metrics
from backend.serving.repository.interface import ModelRepository
from backend.serving.repository.model import ModelSpec
from backend.serving.tensors.signatures import ServableId

TICK_SECONDS, SWEEP_SECONDS = 2.0, 3600.0
LONGEST_TEXT = 60  # characters of a breed's name as a user types it


class Feedback:
    """Everything about feedback on the answers of one repository. Thread-safe."""

    def __init__(self, store: Store, signer: Signer, repository: ModelRepository, metrics: Metrics, ask_every: int = 1):
        """The app is to ask about one in `ask_every` answers, chosen by chance."""
        self._store = store
        self._signer = signer
        self._repository = repository
        self._metrics = metrics
        self._ask_every = ask_every
        self._lock = threading.Lock()
        self._asked: dict[int, dict[str, int]] = {}  # by split: phones that are not in the store yet, with the version
        self._names = lru_cache(64)(self._read_names)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="feedback", daemon=True)
        self._thread.start()

    # -- answers -------------------------------------------------------------------------------------------------------

    def signed(self, number: str, result: Classification, spec: ModelSpec) -> tuple[str, bool]:
        """The id for feedback on `result`, the answer to `spec`, and whether the app is to ask about it."""
        asked = self._ask_every == 1 or secrets.randbelow(self._ask_every) == 0
        breeds, probability = named_by(result)
        version = result.servable.version
        split = self._store.open.get((spec.name, spec.label or "")) if spec.version is None else None
        if split is None or version not in split.arms[:2]:
            number_of_split, phone = 0, ""
        else:
            number_of_split, phone = split.id, split.phone(spec.sticky_key)
            if asked:
                with self._lock:
                    self._asked.setdefault(split.id, {}).setdefault(phone, version)
        rounded = None if probability is None else round(probability, 4)
        facts = Facts(spec.name, version, result.level.value, breeds, rounded, asked, number_of_split, phone)
        return self._signer.signed(number, facts), asked

    def _follow_splits(self) -> None:
        """Open and close splits in the store as the repository has them; another version or share makes another split.

        An answer does not wait for it: those of the first TICK_SECONDS of a split do not count in it.
        """
        if not self._repository.has_started():  # the choices of before a restart are not all in force yet
            return
        wanted: dict[tuple[str, str], Arms] = {}
        for model, label, version, share in self._repository.splits():
            first = self._repository.labels(model)[0].get(label) if label else self._repository.default_version(model)
            if first not in (None, version) and share < 1:
                wanted[model, label] = (first, version, share)
        self._store.follow(wanted)

    # -- feedback ------------------------------------------------------------------------------------------------------

    def give(self, request_id: str, said: str, breed: str, text: str = "") -> str:
        """Store a user's feedback on an answer: one of VERDICTS, or, with `said` "", the id of a breed.

        `text`: how the user calls a breed that the version does not know, with the verdict "other".

        Returns why it does not count as a vote in the split that the answer was part of, or "". Raises InvalidArgument (no such
        verdict or breed, an unfit text, no signed id), NotFound (an id that this server did not sign, or of a version that is
        gone), FailedPrecondition (too late), AlreadyExists, Unavailable.
        """
        number, facts, at = self._signer.opened(request_id)
        answered = ServableId(facts.model, facts.version)
        _check_said(said, breed, self._names(answered))
        words = _words(text, said)
        is_right, holds = judge(facts.level, facts.breeds, said or BREED, breed)
        row = {**vars(facts), "breeds": json.dumps(facts.breeds, ensure_ascii=False)}
        row |= {"request_id": number, "answered_at": timestamp(at), "verdict": said or BREED, "breed": breed or None}
        row |= {"is_right": is_right, "holds": holds, "text": words or None}
        why_not = self._store.add(row, facts.phone)
        self._metrics.feedback(answered, {True: "right", False: "wrong", None: "unclear"}[is_right])
        return why_not

    def forget(self, request_ids: Sequence[str]) -> int:
        """Delete the feedback on these answers, however old; returns how many rows were deleted.

        Ids that this server did not sign are ignored. Raises Unavailable.
        """
        numbers = []
        for each in request_ids:
            with suppress(InvalidArgument, NotFound):
                numbers.append(self._signer.opened(each, max_age=None)[0])
        return self._store.remove(numbers)

    # -- reports -------------------------------------------------------------------------------------------------------

    def verdict(self, model: str) -> dict[str, Any]:
        """As `verdict.verdict` gives it, for the versions that are still there. Raises Unavailable."""
        self._follow_splits()
        self._write_asked()
        there = [each.version for each in self._repository.status(ModelSpec(model))]
        names: dict[str, str] = {}
        for version in there:
            with suppress(DogsnapError):
                names = {**self._names(ServableId(model, version)), **names}
        return verdict(self._store, model, there, names)

    def csv(self) -> Iterator[str]:
        """The whole table, as `Store.csv` gives it."""
        return self._store.csv()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        with suppress(Unavailable):
            self._write_asked()
        self._store.close()

    def _work(self) -> None:
        swept = time.monotonic()
        while not self._closed.wait(TICK_SECONDS):
            with suppress(Unavailable):  # it is in the log
                self._follow_splits()
                self._write_asked()
                if time.monotonic() - swept > SWEEP_SECONDS:
                    swept = time.monotonic()
                    self._store.sweep()

    def _write_asked(self) -> None:
        with self._lock:
            asked, self._asked = self._asked, {}
        for split, phones in asked.items():
            self._store.asked(split, phones)

    def _read_names(self, servable: ServableId) -> Mapping[str, str]:
        """The English name of each breed of a version, by id. Raises NotFound, Unavailable."""
        with self._repository.acquire(ModelSpec(servable.name, servable.version)) as found:
            return {label["id"]: label["name"] for label in found.description.labels}


def _check_said(said: str, breed: str, known: Mapping[str, str]) -> None:
    if bool(said) == bool(breed):
        raise InvalidArgument('expected either "breed" or "verdict", received ' + ("both" if said else "neither"))
    if said and said not in VERDICTS:
        raise InvalidArgument(f"verdict is {said!r}; expected one of {', '.join(VERDICTS)}")
    if breed and breed not in known:
        raise InvalidArgument(
            f"breed is {breed!r}; expected the id of a breed that the version knows, or verdict other, mix or no_dog"
        )


def _words(text: str, said: str) -> str:
    """`text` in one line that is safe to read: no control characters for a terminal, no formula for a spreadsheet."""
    if text and said != "other":
        raise InvalidArgument('expected "text" with verdict other alone: it names a breed that is not known')
    if len(text) > LONGEST_TEXT:
        raise InvalidArgument(f"text has {len(text)} characters; expected at most {LONGEST_TEXT}")
    return "".join(each for each in " ".join(text.split()) if each.isprintable()).lstrip("=+-@ ")
