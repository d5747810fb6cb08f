"""Feedback of users on answers: issues signed request ids, stores the feedback
on them, and reports on it.
"""

import hashlib
import json
import secrets
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dogsnap.errors import DogsnapError, InvalidArgument, NotFound, Unavailable
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.answers.claims import BREED, check_said, claim_of, judge
from dogsnap.serving.answers.classification import Classification
from dogsnap.serving.feedback.report import verdict
from dogsnap.serving.feedback.signed_ids import Signer
from dogsnap.serving.feedback.store import TIME, Arms, Store
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.tensors.signatures import ServableId

TICK_SECONDS = 2.0
MOST_WAITING = 10_000  # phones asked that wait while the store cannot be written; more are left out


class Feedback:
    """Everything about feedback on the answers of one repository. Thread-safe."""

    def __init__(
        self,
        store: Store,
        signer: Signer,
        repository: ModelRepository,
        metrics: Metrics,
        ask_every: int = 1,
        owner: str = "",
    ):
        """The app is to ask about one in `ask_every` answers, chosen by chance;
        splits are of `owner`, a log of switches.
        """
        self.store = store
        self._signer = signer
        self._repository = repository
        self._metrics = metrics
        self._ask_every = ask_every
        self._owner = owner
        self._following = threading.Lock()  # from reading what is chosen until it is in the store
        self._splits: Mapping[tuple[str, str], sqlite3.Row] = {}
        # Split, phone's hash and version of what may not be in the store yet. Each use
        # of the set is one atomic operation.
        self._asked: set[tuple[int, str, int]] = set()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="feedback", daemon=True)
        self._thread.start()

    def sign_answer(
        self, number: str, result: Classification, spec: ModelSpec, may_ask: bool = True
    ) -> tuple[str, bool]:
        """The id for feedback on `result`, the answer to `spec`, and whether
        the app is to ask about it.
        """
        asked = may_ask and secrets.randbelow(self._ask_every) == 0
        version = result.servable.version
        facts = {
            "model": spec.name,
            "version": version,
            "asked": asked,
            "split": 0,
            "voter": self._signer.voter(spec.name, version, spec.sticky_key) if asked else None,
            **claim_of(result),
        }
        split = self._splits.get((spec.name, spec.label or ""))
        if split and spec.version is None and version in (split["first"], split["second"]):
            # By this a phone is known within one split alone; without the salt nothing
            # leads from one to the other.
            key = spec.sticky_key.encode(errors="replace")
            phone = hashlib.blake2b(key, key=split["salt"], digest_size=8).hexdigest()
            facts |= {"split": split["id"], "phone": phone}
            if asked and len(self._asked) < MOST_WAITING:
                self._asked.add((split["id"], phone, version))
        return self._signer.sign(number, facts), asked

    def give(self, request_id: str, said: str, breed: str, text: str = "") -> str:
        """Store a user's feedback on an answer: what `check_said` takes.

        Returns why it does not count as a vote in the split that the answer was
        part of, or "". Raises InvalidArgument, NotFound (no id of this server,
        or its version is gone), FailedPrecondition (too late), AlreadyExists,
        Unavailable.
        """
        number, facts, at = self._signer.verify(request_id)
        answered = ServableId(facts["model"], facts["version"])
        names = self._names(answered)
        check_said(said, breed, text, names)
        is_right, holds = judge(facts["level"], facts["breeds"], said or BREED, breed)
        row = {
            **facts,
            "breeds": json.dumps(facts["breeds"], ensure_ascii=False),
            "request_id": number,
            "answered_at": at.strftime(TIME),
            "text": _in_one_line(text) or None,
            "verdict": said or BREED,
            "breed": breed or None,
            "is_right": is_right,
            "holds": holds,
            "voter": self._voter(facts, names),
        }
        why_not = self.store.add(row)
        outcome = {True: "right", False: "wrong", None: "unclear"}[is_right]
        self._metrics.feedback.labels(answered.name, answered.version, outcome).inc()
        return why_not

    def forget(self, request_ids: Sequence[str]) -> int:
        """Delete the feedback and the votes on these answers, however old;
        returns how many. Unknown ids are ignored.

        Raises Unavailable.
        """
        numbers = []
        for request_id in request_ids:
            with suppress(InvalidArgument, NotFound):
                numbers.append(self._signer.verify(request_id, max_age=None)[0])
        return self.store.forget(numbers)

    def verdict(self, model: str) -> dict[str, Any]:
        """As `report.verdict` gives it, for the versions that are still there.

        Raises Unavailable.
        """
        with suppress(Unavailable):  # on a full disk the report is of the splits as they were
            self._follow_splits()
        self._write_asked()
        there = [status.version for status in self._repository.status(ModelSpec(model))]
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
        """Open and close splits in the store as they are chosen; another
        version makes another split.

        An answer does not wait for it: those of the first TICK_SECONDS of a
        split do not count in it.
        """
        router = self._repository.router
        if not self._repository.started or not router.is_known:
            return
        with self._following:
            revision = router.revision
            self._splits = self.store.follow(self._chosen_splits(), self._owner, revision)

    def _chosen_splits(self) -> set[Arms]:
        """What is chosen, whether or not it can answer at the moment."""
        router = self._repository.router
        chosen: set[Arms] = set()
        for model, label, second, _ in router.splits():
            first = router.choices(model).labels.get(label) if label else self._default(model)
            if first not in (None, second):
                chosen.add((model, label, first, second))
        return chosen

    def _default(self, model: str) -> int | None:
        """The version that answers by default: the chosen one, or the one that
        goes on answering while none is chosen.
        """
        router = self._repository.router
        for version in (router.choices(model).default, router.answering(model)):
            if version is not None:
                return version
        try:
            return self._repository.default_version(model)
        except NotFound:  # the model is gone
            return None

    def _write_asked(self) -> None:
        if waiting := self._asked.copy():
            self.store.ask(waiting)
            self._asked.difference_update(waiting)

    def _voter(self, facts: Mapping[str, Any], names: Mapping[str, str]) -> str | None:
        """The phone's hash for the version with these breeds: another version
        under the same number has votes of its own.

        None if the app was not to ask, and for an id from before an update,
        which has none.
        """
        voter = facts.get("voter")
        return voter and self._signer.voter(voter, *names)

    def _names(self, servable: ServableId) -> Mapping[str, str]:
        """The English name of each breed of a version, by id, as it is now.

        Raises NotFound, Unavailable.
        """
        with self._repository.acquire(ModelSpec(servable.name, servable.version)) as found:
            return {label["id"]: label["name"] for label in found.description.labels}


def _in_one_line(text: str) -> str:
    """`text` so that it is safe to read: no control characters for a terminal,
    no formula for a spreadsheet.
    """
    line = " ".join(text.split())
    return "".join(filter(str.isprintable, line)).lstrip("=+-@ ")
