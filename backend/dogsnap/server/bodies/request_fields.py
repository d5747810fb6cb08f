"""Fields of photos' JSON bodies, forms and queries: a check for each type."""

import re
from collections.abc import Mapping
from typing import Any

from flask import request

from dogsnap.errors import InvalidArgument
from dogsnap.routing.spec import MAX_INT64

DIGITS = re.compile("0*([0-9]{1,19})")  # Python refuses to read thousands of them


def whole_number(name: str, value: Any) -> int | None:
    """A version number or count as JSON or form fields give it: 2, "2"; None
    for nothing. Raises InvalidArgument.
    """
    if value is None or value == "":
        return None
    digits = DIGITS.fullmatch(str(value))
    if digits is None or int(digits[1]) > MAX_INT64:
        raise InvalidArgument(f"{name} is {value!r}; expected a whole number from 0 to {MAX_INT64}")
    return int(digits[1])


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


def refuse_choice_in_query() -> None:
    """For protocols that choose a version otherwise. Raises InvalidArgument."""
    if beside := sorted({"model", "version", "label"} & set(request.args)):
        raise InvalidArgument(
            f"{', '.join(beside)} stands in the query, which this protocol does not read; "
            "name it as this protocol does, see docs/protocols.md"
        )
