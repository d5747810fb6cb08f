"""Types of JSON and query fields: each checks a value and describes itself to OpenAPI."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dogsnap.errors import InvalidArgument
from dogsnap.server.middleware.bodies import read_body
from dogsnap.server.middleware.json_bodies import parse_json
from dogsnap.serving.versions.version_folders import MAX_INT64

MOST_TEXTS = 1000


def whole_number(name: str, value: Any) -> int | None:
    """A version number or count as JSON or form fields give it: 2, "2"; None for nothing. Raises InvalidArgument."""
    if value is None or value == "":
        return None
    digits = str(value).lstrip("0") or "0"
    is_number = (
        isinstance(value, int | str)
        and not isinstance(value, bool)
        and digits.isascii()
        and digits.isdigit()
    )
    if not is_number or len(digits) > 19 or int(digits) > MAX_INT64:
        raise InvalidArgument(f"{name} is {value!r}; expected a whole number from 0 to {MAX_INT64}")
    return int(digits)


def text_field(name: str, value: Any) -> str:
    """A field that must be a string; "" for nothing. Raises InvalidArgument."""
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} is {value!r}; expected a string")
    return value or ""


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

    def received(self) -> dict[str, Any]:
        """The fields of this request's body. Raises TooLarge, and InvalidArgument for a missing, unknown or wrong one."""
        fields = parse_json(read_body(1, "a fixed limit"))
        kinds = {**self.required, **self.optional}
        missing, unknown = (
            sorted(set(self.required) - set(fields)),
            sorted(set(fields) - set(kinds)),
        )
        if missing or unknown:
            raise InvalidArgument(
                f"expected the fields {', '.join(sorted(kinds)) or 'none'}; "
                f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
            )
        return {name: kinds[name].check(name, value) for name, value in fields.items()}

    def schema(self) -> dict[str, Any]:
        properties = {
            name: dict(kind.schema) for name, kind in {**self.required, **self.optional}.items()
        }
        required = {"required": sorted(self.required)} if self.required else {}
        return {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            **required,
        }


def of_type(expected: str, *types: type) -> Callable[[str, Any], Any]:
    """A check that a value from JSON has one of the `types`; unlike in Python, a bool is not a number."""

    def check(name: str, value: Any) -> Any:
        if type(value) not in types:
            raise InvalidArgument(f"{name} is {value!r}; expected {expected}")
        return value

    return check


def texts(name: str, value: Any) -> list[str]:
    """A list of strings. Raises InvalidArgument."""
    if (
        not isinstance(value, list)
        or len(value) > MOST_TEXTS
        or not all(isinstance(each, str) for each in value)
    ):
        raise InvalidArgument(f"{name} is no list of at most {MOST_TEXTS} strings")
    return value


TEXT = Kind(text_field, {"type": ["string", "null"]})
INTEGER = {"type": "integer", "minimum": 0, "maximum": MAX_INT64}
DIGITS = {"type": "string", "pattern": "^[0-9]{0,18}$"}
WHOLE = Kind(whole_number, {"anyOf": [INTEGER, DIGITS, {"type": "null"}]})
TEXTS = Kind(texts, {"type": "array", "items": {"type": "string"}, "maxItems": MOST_TEXTS})
# A version, or the id of a switch.
VERSION = Kind(
    of_type("a whole number, or null for none", int, type(None)), {"type": ["integer", "null"]}
)
TRUTH = Kind(of_type("true or false", bool), {"type": "boolean"})
PERCENTAGE = of_type("a number from 0, which ends a split, to 100", int, float)
PERCENT = Kind(PERCENTAGE, {"type": "number", "minimum": 0, "maximum": 100})
