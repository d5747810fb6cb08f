"""Types of JSON and query fields: each checks a value and describes itself to OpenAPI."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.errors import InvalidArgument
from backend.middleware.http_messages import parse_json, read_body, text_field, whole_number
from backend.serving.versions.version_folders import MAX_INT64

MOST_TEXTS = 1000


@dataclass(frozen=True)
class Kind:
    """`check` takes a field's name and value, and returns the value or raises InvalidArgument; `schema` is JSON Schema."""

    check: Callable[[str, Any], Any]
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Body:
    """A JSON object with these fields and no others."""

    required: Mapping[str, Kind] = field(default_factory=dict)
    optional: Mapping[str, Kind] = field(default_factory=dict)

    def checked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the received fields. Raises InvalidArgument for a missing, unknown or wrong one."""
        kinds = {**self.required, **self.optional}
        missing, unknown = sorted(set(self.required) - set(fields)), sorted(set(fields) - set(kinds))
        if missing or unknown:
            raise InvalidArgument(
                f"expected the fields {', '.join(sorted(kinds)) or 'none'}; "
                f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
            )
        return {name: kinds[name].check(name, value) for name, value in fields.items()}

    def received(self) -> dict[str, Any]:
        """The checked fields of this request's body. Raises InvalidArgument, TooLarge."""
        return self.checked(parse_json(read_body(1, "a fixed limit")))

    def schema(self) -> dict[str, Any]:
        properties = {name: dict(kind.schema) for name, kind in {**self.required, **self.optional}.items()}
        required = {"required": sorted(self.required)} if self.required else {}
        return {"type": "object", "properties": properties, "additionalProperties": False, **required}


def version_or_null(name: str, value: Any) -> int | None:
    """A version, or the id of a switch, from JSON; None for null. Raises InvalidArgument."""
    if isinstance(value, bool) or not isinstance(value, int | None):
        raise InvalidArgument(f"{name} is {value!r}; expected a whole number, or null for none")
    return value


def percent(name: str, value: Any) -> float:
    """A share of all requests. Raises InvalidArgument."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{name} is {value!r}; expected a number from 0, which ends a split, to 100")
    return value


def texts(name: str, value: Any) -> list[str]:
    """A list of strings. Raises InvalidArgument."""
    if not isinstance(value, list) or len(value) > MOST_TEXTS or not all(isinstance(each, str) for each in value):
        raise InvalidArgument(f"{name} is no list of at most {MOST_TEXTS} strings")
    return value


TEXT = Kind(text_field, {"type": ["string", "null"]})
WHOLE = Kind(
    whole_number,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": MAX_INT64},
            {"type": "string", "pattern": "^[0-9]{0,18}$"},
            {"type": "null"},
        ]
    },
)
TEXTS = Kind(texts, {"type": "array", "items": {"type": "string"}, "maxItems": MOST_TEXTS})
VERSION = Kind(version_or_null, {"type": ["integer", "null"]})
PERCENT = Kind(percent, {"type": "number", "minimum": 0, "maximum": 100})
