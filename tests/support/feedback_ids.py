"""Ids that take feedback, rows of feedback, and a repository as far as feedback asks it."""

import time
from contextlib import contextmanager
from types import SimpleNamespace

from dogsnap.server.middleware.request_ids import new_id
from dogsnap.serving.answers.classification import Breed, Classification
from dogsnap.serving.answers.levels import Level
from dogsnap.serving.feedback.feedback_store import COLUMNS, TIME
from dogsnap.serving.feedback.signed_ids import Signer
from dogsnap.serving.tensors.signatures import ServableId
from itsdangerous import TimestampSigner

SECRET = "0123456789abcdef0123456789abcdef"
DOGS, LABELS = "dogs", [{"id": f"n{number:08}", "name": f"breed {number}"} for number in range(120)]


def signed(age: float = 0, secret=SECRET, version=2, model="inception_v3") -> str:
    """The id of an answer `age` seconds ago that named the version's first breed, and that the app asks about.

    Each is of another phone as far as the version is concerned.
    """

    class Then(TimestampSigner):
        def get_timestamp(self) -> int:
            return int(time.time() - age)

    facts = {
        "model": model,
        "version": version,
        "level": "breed",
        "breeds": ["c1"],
        "probability": 0.9,
    }
    of_phone = {"asked": True, "voter": new_id()}
    return Signer(secret.encode(), Then).sign(new_id(), facts | of_phone)


def row(number: int, version: int, is_right: bool | None, **more) -> dict:
    """The feedback of a phone of its own, now, on an answer of `version`."""
    said = {
        "model": DOGS,
        "level": "breed",
        "breeds": '["a"]',
        "verdict": "breed",
        "breed": "b",
        "is_right": is_right,
    }
    of_phone = {
        "asked": True,
        "split": 0,
        "voter": f"{version}-{number}",
        "version": version,
        "request_id": str(number),
    }
    return {
        **dict.fromkeys(COLUMNS),
        "answered_at": time.strftime(TIME, time.gmtime()),
        **said,
        **of_phone,
        **more,
    }


class TwoVersions:
    """Versions 1 and 2 of DOGS."""

    def status(self, spec):
        return [SimpleNamespace(version=version) for version in (1, 2)]

    @contextmanager
    def acquire(self, spec):
        yield SimpleNamespace(description=SimpleNamespace(labels=LABELS))


def answer(version: int, best: int = 0) -> Classification:
    breeds = tuple(
        Breed(LABELS[(best + place) % 120]["id"], "breed", "", 0.2) for place in range(5)
    )
    return Classification(
        ServableId(DOGS, version), dog=True, confident=True, level=Level.BREED, breeds=breeds
    )
