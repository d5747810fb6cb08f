"""Feedback of users on answers: issues signed request ids, stores the feedback on them, and reports on it."""

import json
import secrets
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from backend.errors import DogsnapError, InvalidArgument, NotFound, Unavailable
from backend.serving.answers.claims import BREED, VERDICTS, judge, named_by
from backend.serving.answers.labels import Classification
from backend.serving.feedback import votes
from backend.serving.feedback.report import verdict
from backend.serving.feedback.request_ids import Signer
from backend.serving.feedback.store import TIME, Store
from backend.serving.metrics import Metrics
from backend.serving.repository.interface import ModelRepository
from backend.serving.repository.model import ModelSpec
from backend.serving.tensors.signatures import ServableId

TICK_SECONDS = 2.0
MOST_WAITING = 10_000  # phones asked that wait while the store cannot be written; the oldest are left out
LONGEST_TEXT = 60  # characters of a breed's name as a user types it


class Feedback:
    """Everything about feedback on the answers of one repository. Thread-safe."""

    def __init__(self, store: Store, signer: Signer, repository: ModelRepository, metrics: Metrics, ask_every: int = 1):
        """The app is to ask about one in `ask_every` answers, chosen by chance."""
        self.store = store
        self._signer = signer
        self._repository = repository
        self._metrics = metrics
        self._ask_every = ask_every
        # Split, phone's hash and version of what is not in the store yet.
        self._asked: deque[tuple[int, str, int]] = deque(maxlen=MOST_WAITING)
        with store.transaction() as connection:
            self._splits = votes.open_splits(connection)
        self._names = lru_cache(64)(self._read_names)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="feedback", daemon=True)
        self._thread.start()

    def signed(self, number: str, result: Classification, spec: ModelSpec) -> tuple[str, bool]:
        """The id for feedback on `result`, the answer to `spec`, and whether the app is to ask about it."""
        asked = secrets.randbelow(self._ask_every) == 0
        breeds, probability = named_by(result)
        version, split, phone = result.servable.version, 0, ""
        for (model, label, *versions, _), (number_of_split, salt) in self._splits.items():
            if (model, label, None) == (spec.name, spec.label or "", spec.version) and version in versions:
                split, phone = number_of_split, votes.hashed(spec.sticky_key, salt)
        if split and asked:
            self._asked.append((split, phone, version))
        facts = {
            "model": spec.name,
            "version": version,
            "level": result.level.value,
            "breeds": breeds,
            "probability": probability and round(probability, 4),
            "asked": asked,
            "split": split,
            "phone": phone,
        }
        return self._signer.signed(number, facts), asked

    def give(self, request_id: str, said: str, breed: str, text: str = "") -> str:
        """Store a user's feedback on an answer: one of VERDICTS, or, with `said` "", the id of a breed.

        `text`: how the user calls a breed that the version does not know, with the verdict "other".

        Returns why it does not count as a vote in the split that the answer was part of, or "". Raises InvalidArgument (no such
        verdict or breed, an unfit text, no signed id), NotFound (an id that this server did not sign, or of a version that is
        gone), FailedPrecondition (too late), AlreadyExists, Unavailable.
        """
        number, facts, at = self._signer.opened(request_id)
        answered = ServableId(facts["model"], facts["version"])
        _check(said, breed, text, self._names(answered))
        is_right, holds = judge(facts["level"], facts["breeds"], said or BREED, breed)
        row = {**facts, "breeds": json.dumps(facts["breeds"], ensure_ascii=False)}
        row |= {"request_id": number, "answered_at": at.strftime(TIME), "text": _in_one_line(text) or None}
        row |= {"verdict": said or BREED, "breed": breed or None, "is_right": is_right, "holds": holds}
        with self.store.transaction() as connection:
            why_not = votes.add(connection, row)
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
        places = ", ".join("?" * len(numbers))
        return len(self.store.run(f"DELETE FROM feedback WHERE request_id IN ({places}) RETURNING number", numbers))

    def verdict(self, model: str) -> dict[str, Any]:
        """As `report.verdict` gives it, for the versions that are still there. Raises Unavailable."""
        self._follow_splits()
        self._write_asked()
        there = [each.version for each in self._repository.status(ModelSpec(model))]
        names: dict[str, str] = {}
        for version in there:
            with suppress(DogsnapError):
                names |= self._names(ServableId(model, version))
        return verdict(self.store, model, there, names)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        with suppress(Unavailable):
            self._write_asked()
        self.store.close()

    def _work(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            with suppress(Unavailable):  # it is in the log
                self._follow_splits()
                self._write_asked()
                self.store.sweep()

    def _follow_splits(self) -> None:
        """Open and close splits in the store as the repository has them; another version or share makes another split.

        An answer does not wait for it: those of the first TICK_SECONDS of a split do not count in it.
        """
        if not self._repository.has_started():  # the choices of before a restart are not all in force yet
            return
        wanted: set[votes.Arms] = set()
        for model, label, version, share in self._repository.splits():
            first = self._repository.labels(model)[0].get(label) if label else self._repository.default_version(model)
            if first not in (None, version) and share < 1:
                wanted.add((model, label, first, version, share))
        if wanted != self._splits.keys():
            with self.store.transaction() as connection:
                self._splits = votes.follow(connection, wanted)

    def _write_asked(self) -> None:
        if not self._asked:
            return
        taken: list[tuple[int, str, int]] = []
        try:
            with self.store.transaction() as connection:  # its lock lets one thread take at a time
                while self._asked:
                    taken.append(self._asked.popleft())
                    votes.ask(connection, *taken[-1])
        except Unavailable:
            self._asked.extendleft(reversed(taken))
            raise

    def _read_names(self, servable: ServableId) -> Mapping[str, str]:
        """The English name of each breed of a version, by id. Raises NotFound, Unavailable."""
        with self._repository.acquire(ModelSpec(servable.name, servable.version)) as found:
            return {label["id"]: label["name"] for label in found.description.labels}


def _check(said: str, breed: str, text: str, known: Mapping[str, str]) -> None:
    if bool(said) == bool(breed):
        raise InvalidArgument('expected either "breed" or "verdict", received ' + ("both" if said else "neither"))
    if said and said not in VERDICTS:
        raise InvalidArgument(f"verdict is {said!r}; expected one of {', '.join(VERDICTS)}")
    if breed and breed not in known:
        raise InvalidArgument(
            f"breed is {breed!r}; expected the id of a breed that the version knows, or verdict other, mix or no_dog"
        )
    if text and said != "other":
        raise InvalidArgument('expected "text" with verdict other alone: it names a breed that is not known')
    if len(text) > LONGEST_TEXT:
        raise InvalidArgument(f"text has {len(text)} characters; expected at most {LONGEST_TEXT}")


def _in_one_line(text: str) -> str:
    """`text` so that it is safe to read: no control characters for a terminal, no formula for a spreadsheet."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable()).lstrip("=+-@ ")
