"""Reads files as `gcloud ... predict --json-instances` takes them: one JSON
value per line.
"""

import codecs
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

EXPECTED = "expected one JSON instance per line"
# How errors name an instance: by its place in the request, counted from 0.
PLACE = re.compile(r"\belement: (\d+)|\bat item (\d+)\b")
PLACES = re.compile(r"\bat these places of the batch\b.*\[([\d ]+)\]")


@dataclass(frozen=True)
class Instances:
    """The values of a file, and the number of the line on which each stands."""

    file: Path
    values: list[Any]
    lines: list[int]

    def point_to_line(self, message: str) -> str:
        """An error about a place in the request, with the file's line in front;
        another error as it is.
        """
        places = PLACE.search(message) or PLACES.search(message)
        if places is None:
            return message
        indices = map(int, places[places.lastindex or 0].split())
        lines = [self.lines[index] for index in indices if index < len(self.lines)]
        return f"{_where(self.file, *lines)}: {message}" if lines else message


def read_instances(file: Path) -> Instances:
    """Every line that is not empty, long form or shorthand.

    Raises click.ClickException naming the line.
    """
    contents = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    numbers = []
    values = []
    for number, line in enumerate(contents.splitlines(), start=1):
        if line.strip():
            numbers.append(number)
            values.append(_instance(file, number, line))
    match values:
        case []:
            raise click.ClickException(f"{file} is empty; {EXPECTED}")
        case [{"instances": _}]:
            raise click.ClickException(
                f"{file} holds a whole request; expected one instance per line, without a "
                "list around them"
            )
        case [list(instances)] if _holds_instances(instances):
            raise click.ClickException(
                f"{file} holds one list of {len(instances)} instances; {EXPECTED}, without "
                "a list around them"
            )
    return Instances(file, values, numbers)


def _holds_instances(values: list[Any]) -> bool:
    """Whether a list is of instances: an object is never part of one."""
    return any(isinstance(value, dict) and set(value) != {"b64"} for value in values)


def _instance(file: Path, number: int, line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{_where(file, number)}: {EXPECTED}: {error}") from None


def _number(text: str) -> float:
    """Raises ValueError for what no double holds, as a server refuses it."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too big for a double")
    return number


def _where(file: Path, *lines: int) -> str:
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))} of {file}"
