"""Fields of JSON bodies, forms and queries: a check for each type, and bodies
made of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import request

from dogsnap.errors import InvalidArgument
from dogsnap.server.bodies.json_bodies import parse_json
from dogsnap.server.bodies.receiving import read_body
from dogsnap.serving.versions.version_folders import MAX_INT64

MOST_TEXTS = 1000
# Takes the name of a field and its value; returns the value or raises InvalidArgument.
Check = Callable[[str, Any], Any]


def whole_number(name: str, value: Any) -> int | None:
    """A version number or count as JSON or form fields give it: 2, "2"; None
    for nothing. Raises InvalidArgument.
    """
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


def with_query(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body, and those of the query beside it.

    Raises InvalidArgument for one that has several values.
    """
    joined = dict(fields)
    for name, values in request.args.lists():
        given = [] if fields.get(name) in (None, "") else [str(fields[name])]
        if len({*values, *given}) > 1:
            received = " and ".join(repr(value) for value in (*given, *values))
            raise InvalidArgument(f"{name} is {received}, in body and query; send it once")
        joined[name] = fields[name] if given else values[0]
    return joined


def text_list(name: str, value: Any) -> list[str]:
    """A list of strings. Raises InvalidArgument."""
    is_list = isinstance(value, list) and len(value) <= MOST_TEXTS
    if not is_list or not all(isinstance(text, str) for text in value):
        raise InvalidArgument(f"{name} is no list of at most {MOST_TEXTS} strings")
    return value


def of_type(expected: str, *types: type) -> Check:
    """A check that a value from JSON has one of the `types`; unlike in Python,
    a bool is not a number.
    """

    def check(name: str, value: Any) -> Any:
        if type(value) not in types:
            raise InvalidArgument(f"{name} is {value!r}; expected {expected}")
        return value

    return check


number_or_null = of_type("a whole number, or null for none", int, type(None))
truth = of_type("true or false", bool)
json_object = of_type("a JSON object", dict)
number = of_type("a number", int, float)
percent = of_type("a number from 0, which ends a split, to 100", int, float)


def numbers(name: str, value: Any) -> list[float]:
    """A list of numbers. Raises InvalidArgument."""
    if not isinstance(value, list) or any(type(item) not in (int, float) for item in value):
        raise InvalidArgument(f"{name} is {value!r:.100}; expected a list of numbers")
    return value


@dataclass(frozen=True)
class Body:
    """A JSON object with these fields and no others."""

    required: Mapping[str, Check] = field(default_factory=dict)
    optional: Mapping[str, Check] = field(default_factory=dict)

    def read_request(self, is_empty_allowed: bool = False) -> dict[str, Any]:
        """The fields of this request's body.

        Raises TooLarge, and InvalidArgument for a missing, unknown or wrong
        one.
        """
        body = read_body(1, "a fixed limit")
        fields = parse_json(b"{}" if is_empty_allowed and not body else body)
        checks = {**self.required, **self.optional}
        if beside := sorted(set(request.args) & set(checks)):
            raise InvalidArgument(
                f"expected {', '.join(beside)} in the JSON body, received in the query; send it there"
            )
        missing = sorted(set(self.required) - set(fields))
        unknown = sorted(set(fields) - set(checks))
        if missing or unknown:
            raise InvalidArgument(
                f"expected the fields {', '.join(sorted(checks)) or 'none'}; "
                f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
            )
        return {name: checks[name](name, value) for name, value in fields.items()}
