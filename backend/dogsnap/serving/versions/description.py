"""A version's description of itself: assets.extra/dogsnap.json, validated by
description.schema.json.
"""

import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dogsnap.schemas import check_schema, read_schema
from dogsnap.serving.answers.levels import Decision, Levels

DESCRIPTION_FILE = Path("assets.extra") / "dogsnap.json"
SCHEMA_FILE = Path(__file__).with_name("description.schema.json")
# Read with the code: while the server runs, another release may replace the file.
SCHEMA = read_schema(SCHEMA_FILE)


@dataclass(frozen=True)
class Description:
    """The fields that serving uses; empty for a SavedModel without that file.

    `labels`: one {"id", "name", "name_zh"} per class, in class order.
    `input_size`: (height, width) of the network. `levels`: what its answers
    claim. `raw`: the whole file.
    """

    labels: tuple[Mapping[str, str], ...] = ()
    input_size: tuple[int, int] | None = None
    levels: Levels = field(default_factory=lambda: Levels(Decision()), compare=False)
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The English name of each class by its id, in class order."""
        return {label["id"]: label["name"] for label in self.labels}

    def tells_dogs(self, breeds: Collection[str]) -> bool:
        """Whether its classes are breeds of dogs: as `subject` says, else if it
        sees dogs or one of them is among `breeds`.
        """
        stated = self.raw.get("subject")
        if stated is not None:
            return bool(stated == "dogs")
        sees_dogs = self.levels.decision.dog is not None
        return sees_dogs or not self.names.keys().isdisjoint(breeds)

    @property
    def is_turned(self) -> bool:
        """Whether a picture shows the same class whichever way is up: as
        `orientation` says, else where the classes are breeds by `subject` or by
        a threshold for dogs.
        """
        is_of_dogs = self.levels.decision.dog is not None
        subject = self.raw.get("subject", "dogs" if is_of_dogs else "other")
        return self.raw.get("orientation", "any" if subject == "dogs" else "upright") == "any"

    def read_taught_breeds(self) -> tuple[Mapping[str, Any], ...]:
        """The breeds that `dogsnap teach` added: {"id", "name", "name_zh"} and
        the facts that came with them.
        """
        labels = {label["id"]: label for label in self.labels}
        return tuple(
            {**breed["facts"], **labels[breed["id"]]} for breed in self.raw.get("taught", ())
        )

    @classmethod
    def read(cls, path: Path) -> "Description":
        """The description of the version in folder `path`.

        Raises ValueError naming the field that is missing or wrong.
        """
        file = path / DESCRIPTION_FILE
        if not file.exists():
            return cls()
        try:
            raw = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{file} is no JSON: {error}") from error
        levels = check(raw, str(file))
        size = tuple(raw["input_size"]) if "input_size" in raw else None
        return cls(tuple(raw.get("labels", ())), size, levels, raw)


def check_fields(raw: Any, name: str) -> None:
    """Raises ValueError for a field that no description has, which would be
    ignored: {"decison": ...}.
    """
    schema = copy.deepcopy(SCHEMA)
    schema["additionalProperties"] = False
    schema["properties"]["decision"]["additionalProperties"] = False
    check_schema(raw, schema, name, SCHEMA_FILE)


def check(raw: Any, name: str) -> Levels:
    """What answers claim. Raises ValueError for what does not fit the schema:
    better no version than one that fails on every photo.
    """
    check_schema(raw, SCHEMA, name, SCHEMA_FILE)
    try:
        return Levels.read(raw)
    except KeyError as error:
        raise ValueError(f"{name}: levels of an answer need {error.args[0]} as well") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
