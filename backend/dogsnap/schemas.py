"""What does not fit a JSON schema, as a sentence."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def read_schema(file: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


@cache
def validator_type() -> Any:
    """Of JSON schemas, without the rule that 1.0 is a whole number."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER
    types = types.redefine("integer", lambda _, value: type(value) is int)
    return extend(Draft202012Validator, type_checker=types)


def find_fault(value: Any, schema: Mapping[str, Any]) -> str:
    """Where `value` does not fit the schema most of all, and why, such as
    "splits[0].percent: 101 is greater than the maximum of 100"; "" if it fits.
    """
    from jsonschema.exceptions import best_match

    error = best_match(validator_type()(schema).iter_errors(value))
    if error is None:
        return ""
    place = error.json_path.removeprefix("$").removeprefix(".")
    return f"{place}: {error.message:.200}" if place else f"{error.message:.200}"


def check_schema(value: Any, schema: Mapping[str, Any], name: str, file: Path) -> None:
    """Raises ValueError, a sentence that names the field, for what does not fit
    the schema, which is in `file`.
    """
    if fault := find_fault(value, schema):
        raise ValueError(f"{name}: {fault} ({file.name} has the format)")
