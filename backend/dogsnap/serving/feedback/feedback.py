"""Feedback of users on answers: issues signed request ids, stores the feedback
on them, and reports on it.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dogsnap.errors import DogsnapError, InvalidArgument, NotFound, Unavailable
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.answers.claims import BREED, check_said, claim_of, judge
from dogsnap.serving.answers.classification import Classification
from dogsnap.serving.feedback.feedback_store import TIME, Store
from dogsnap.serving.feedback.report import verdict
from dogsnap.serving.feedback.signed_ids import Signer
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.serving.tensors.signatures import ServableId

TICK_SECONDS = 2.0
NO_VOTE = "each phone has one vote on a version; the feedback is kept, and counts in no figure"


class Feedback:
    """Everything about feedback on the answers of one repository. Thread-safe."""

    def __init__(
        self,
        store: Store,
        signer: Signer,
        repository: ModelRepository,
        metrics: Metrics,
    ):
        self.store = store
        self._signer = signer
        self._repository = repository
        self._metrics = metrics
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="feedback", daemon=True)
        self._thread.start()

    def sign_answer(
        self, number: str, result: Classification, spec: ModelSpec, asked: bool = True
    ) -> str:
        """The id for feedback on `result`, the answer to `spec`; `asked`: the
        app asks about it, so that it may be a vote.
        """
        version = result.servable.version
        facts = {
            "model": spec.name,
            "version": version,
            "asked": asked,
            "voter": self._signer.voter(spec.name, version, spec.sticky_key) if asked else None,
            **claim_of(result),
        }
        return self._signer.sign(number, facts)

    def give(self, request_id: str, said: str, breed: str, text: str = "") -> str:
        """Store a user's feedback on an answer: what `check_said` takes.

        Returns why it is no vote though the app asked, or "". Raises InvalidArgument, NotFound (no id of this server,
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
            "split": 0,
            "answered_at": at.strftime(TIME),
            "text": _in_one_line(text) or None,
            "verdict": said or BREED,
            "breed": breed or None,
            "is_right": is_right,
            "holds": holds,
            # Another version under the same number has votes of its own.
            "voter": facts.get("voter") and self._signer.voter(facts["voter"], *names),
        }
        is_vote = self.store.add(row)
        outcome = {True: "right", False: "wrong", None: "unclear"}[is_right]
        self._metrics.feedback.labels(*answered, outcome).inc()
        return NO_VOTE if row["voter"] and not is_vote else ""

    def forget(self, request_ids: Sequence[str]) -> int:
        """Delete the feedback on these answers, however old;
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
        names_of: dict[int, Mapping[str, str] | None] = {}
        for status in self._repository.status(ModelSpec(model)):
            names_of[status.version] = None
            with suppress(DogsnapError):
                names_of[status.version] = self._names(ServableId(model, status.version))
        return verdict(self.store, model, names_of)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self.store.close()

    def _work(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            with suppress(Unavailable):  # it is in the log
                self.store.sweep()

    def _names(self, servable: ServableId) -> Mapping[str, str]:
        """The English name of each breed of a version, by id, as it is now.

        Raises NotFound, Unavailable.
        """
        with self._repository.acquire(ModelSpec(*servable)) as found:
            return found.description.names


def _in_one_line(text: str) -> str:
    """`text` so that it is safe to read: no control characters for a terminal,
    no formula for a spreadsheet.
    """
    line = " ".join(text.split())
    return "".join(filter(str.isprintable, line)).lstrip("=+-@ ")
