"""Reads the files that name a model's classes, in the forms that other tools write."""

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
import yaml

from dogsnap.files import read_text

# An id of WordNet or of Google's knowledge graph (Open Images), and a name.
IDENTIFIED_LABEL = re.compile(r"(?P<id>n\d{8}|/[gm]/\w+)[\s:,-]+(?P<name>.+)")
# A line of number and name, or a row of a table, in either order.
NUMBERED_LABELS = (
    re.compile(r"\W?(?P<number>\d+)[\"']?(?:[\s,:;)\]=>|-]|\.(?!\d))+(?P<name>.+)"),
    re.compile(r"(?P<name>.+?)(?:[\s,:;=|]|[=-]>)+\W?(?P<number>\d+)\W?"),
)
SEPARATOR = re.compile(r"[,;\t]")  # of a table's columns
# In the head of a table, the columns of names and of numbers.
NAMES = ("name", "display_name", "class_name", "class", "label", "category", "breed")
NUMBERS = ("index", "number", "class_index", "class_id", "label_id", "id", "class", "label")
QUOTES = "\"'“”"
MOST_DETECTED = 100_000  # classes
FIELDS = (  # of JSON or YAML with more
    *("labels", "id2label", "label2id", "names", "categories"),
    *("classes", "class_names", "class_to_idx", "idx_to_class"),
)
LABELS_EXPECTED = (
    'expected as JSON a list of names, of {"id", "name"} or of pairs, or an object from number '
    "to name or from name to number"
)
YAML = (".yaml", ".yml")
LABEL_MAP_MESSAGES = Path(__file__).with_name("label_map.binpb")
LABEL_MAP = re.compile(r"\s*(?:#.*\s+)*item\s*[:{<]")
Labels = list[tuple[int, dict[str, str]]]  # with their numbers


def class_labels(file: Path | None, of_breeds: bool = True) -> list[dict[str, str]]:
    """The classes in a file, in the order of a network's output; none without a
    file. See `numbered_labels`; numbers have to count the classes from 0 or 1.

    Raises click.ClickException for numbers that do not, or for a duplicate id
    `of_breeds`: ImageNet has two cranes.
    """
    if file is None:
        return []
    numbered = numbered_labels(file)
    numbers, labels = [number for number, _ in numbered], [label for _, label in numbered]
    first = numbers[0]
    if first > 1 or numbers != list(range(first, first + len(numbers))):
        listed = ", ".join(map(str, numbers[:10]))
        raise click.ClickException(
            f"{file}: expected the numbers 0 to {len(numbers) - 1}, each once, received {listed}"
        )
    if first:
        name = labels[0]["name"]
        click.echo(f"{file} counts from 1: {name} is taken for the network's first class")
    for breed, times in Counter(label["id"] for label in labels).items():
        if of_breeds and times > 1:
            raise click.ClickException(f"{file}: {breed} is there {times} times; expected it once")
    return labels


def detected_names(file: Path) -> tuple[list[dict[str, str]], int | None]:
    """The classes of a detector from the first number on, with the name "" for
    numbers that the file leaves out; and the first number, None where it has none.
    """
    labels = dict(numbered_labels(file))
    first = min(labels)
    last = max(labels)
    if last - first > MOST_DETECTED:
        raise click.ClickException(
            f"{file}: expected numbers of at most {MOST_DETECTED} classes, received {first} to {last}"
        )
    nameless = {"id": "", "name": ""}
    return [labels.get(number, nameless) for number in range(first, last + 1)], first or None


def numbered_labels(file: Path) -> Labels:
    """The classes in a file, each {"id", "name"} and what else labels.json
    says, by their numbers, which rise; from 0 where it has none.

    A line is a name, perhaps in quotes, id:name, number and name ("0 cat", "1.
    cat", "cat 0", or a CSV file, with or without a head), or an id of WordNet
    or Open Images and a name ("n02085620-Chihuahua"). As JSON or YAML: see
    LABELS_EXPECTED, also below one of FIELDS. Or a label map of TensorFlow's
    Object Detection API ("item { id: 1 name: 'cat' }"). Raises
    click.ClickException for what is none of these, or a line without a name.
    """
    try:
        text = read_text(file)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    is_json = file.suffix == ".json" or text.lstrip().startswith(("{", "["))
    if is_json or file.suffix in YAML:
        labels = _json_labels(file, text)
    elif file.suffix == ".pbtxt" or LABEL_MAP.match(text):
        labels = _label_map(file, text)
    else:
        labels = _text_labels(text)
    if not labels:
        raise click.ClickException(
            f"{file} holds no class; expected a name a line, id:name, or a list as JSON"
        )
    for place, (_, label) in enumerate(labels, start=1):
        if not label["name"]:
            raise click.ClickException(
                f"{file}: class {place} has no name; expected one a line, or id:name"
            )
    return sorted(labels, key=itemgetter(0))


def _text_labels(text: str) -> Labels:
    lines = [line.strip() for line in text.rstrip().splitlines()]
    has_more = bool(lines) and len(SEPARATOR.split(lines[0])) > 2
    if has_more and (table := _table_labels(lines)):
        return table
    identified = [IDENTIFIED_LABEL.fullmatch(line) for line in lines]
    if lines and all(identified):
        return list(enumerate(match.groupdict() for match in identified if match))
    for pattern in NUMBERED_LABELS:
        has_head = len(lines) > 1 and SEPARATOR.search(lines[0]) and not pattern.fullmatch(lines[0])
        numbered = [pattern.fullmatch(line) for line in lines[1 if has_head else 0 :]]
        if numbered and all(numbered):
            pairs = [
                (int(match["number"]), _unquoted(match["name"])) for match in numbered if match
            ]
            if _is_numbering(pairs, is_first=pattern is NUMBERED_LABELS[0]):
                return _named(pairs)
    if table := _table_labels(lines):
        return table
    if all(":" in line for line in lines):
        split = [line.partition(":") for line in lines]
        return list(enumerate({"id": id_.strip(), "name": name.strip()} for id_, _, name in split))
    names = map(_unquoted, lines)
    return list(enumerate({"id": name, "name": name} for name in names))


def _table_labels(lines: list[str]) -> Labels:
    """The classes of a table whose head names their column; none of what is no such table."""
    separator = SEPARATOR.search(lines[0]) if len(lines) > 1 else None
    if not separator:
        return []
    rows = list(csv.DictReader(lines, delimiter=separator[0], skipinitialspace=True))
    head = {str(column).strip().lower(): column for column in rows[0]}
    column = next((head[name] for name in NAMES if name in head), None)
    if column is None:
        return []
    names = [(row[column] or "").strip() for row in rows]
    others = [head[name] for name in NUMBERS if name in head and head[name] != column]
    for other in others:
        if all((row[other] or "").strip().isdecimal() for row in rows):
            return _named([(int(row[other]), name) for row, name in zip(rows, names, strict=True)])
    ids = [(row[others[0]] or "").strip() for row in rows] if others else names
    pairs = zip(ids, names, strict=True)
    return list(enumerate({"id": breed, "name": name} for breed, name in pairs))


def _label_map(file: Path, text: str) -> Labels:
    """The items of the Object Detection API's StringIntLabelMap."""
    from google.protobuf import message_factory, text_format
    from google.protobuf.descriptor_pool import DescriptorPool

    from dogsnap.message_files import add_messages

    pool = add_messages(LABEL_MAP_MESSAGES, DescriptorPool())
    described = pool.FindMessageTypeByName("object_detection.protos.StringIntLabelMap")
    label_map = message_factory.GetMessageClass(described)()
    try:
        items = text_format.Parse(text, label_map, allow_unknown_field=True).item
    except text_format.ParseError as error:
        raise click.ClickException(
            f"{file}: expected a label map, item {{ id: 1 name: 'cat' }}: {error}"
        ) from None
    labels = []
    for item in items:
        name = item.name or item.display_name
        labels.append((item.id, {"id": name, "name": item.display_name or name}))
    return labels


def _parse(file: Path, text: str) -> Any:
    """JSON, a dictionary as Python prints it, or YAML. Raises click.ClickException."""
    readers: list[Callable[[str], Any]] = [json.loads, ast.literal_eval]
    if file.suffix in YAML:
        readers = [partial(yaml.load, Loader=yaml.BaseLoader)]  # "no" is a name, too
    for reader in readers:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError, yaml.YAMLError):
            return reader(text)
    raise click.ClickException(f"{file}: {LABELS_EXPECTED}; received what is none of these")


def _json_labels(file: Path, text: str) -> Labels:
    labels = _parse(file, text)
    for field in FIELDS:
        if isinstance(labels, dict) and isinstance(labels.get(field), list | dict):
            labels = labels[field]
    try:
        return _read_json(labels)
    except ValueError as error:
        raise click.ClickException(f"{file}: {LABELS_EXPECTED}; received {error}") from None


def _read_json(labels: Any) -> Labels:
    """The classes in a list or an object of JSON. Raises ValueError with what is neither."""
    if isinstance(labels, dict):
        return _named([_read_number(*item) for item in labels.items()])
    if not isinstance(labels, list | tuple):
        raise ValueError(f"{labels!r:.100}")
    for place, label in enumerate(labels, start=1):
        _check_class(place, label)
    if all(isinstance(label, list | tuple) for label in labels):
        if any(type(value) is int for label in labels for value in label):
            return _named([_read_number(*label) for label in labels])
        labels = [{"id": str(breed), "name": str(name)} for breed, name in labels]
    if all(isinstance(label, dict) and type(label.get("id")) is int for label in labels):
        return _named([(label["id"], label["name"]) for label in labels])
    named = [label if isinstance(label, dict) else {"name": str(label)} for label in labels]
    return list(enumerate({"id": label["name"], **label} for label in named))


def _check_class(place: int, label: Any) -> None:
    if isinstance(label, list | tuple):
        is_whole = len(label) == 2
    elif isinstance(label, dict):
        has_id = isinstance(label.get("id", ""), str | int)
        is_whole = has_id and isinstance(label.get("name"), str)
    else:
        is_whole = True
    if not is_whole:
        raise ValueError(f"class {place} as {label!r:.100}")


def _read_number(key: Any, value: Any) -> tuple[int, Any]:
    """Number and name of an entry: {"cat": 0} of Keras, {"0": "cat"} and {"cat": "0"} of
    Transformers, {"0": ["n02123045", "cat"]} of ImageNet.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value, key
    is_name = isinstance(value, str) or (isinstance(value, list | tuple) and len(value) == 2)
    if is_name and str(key).isdecimal():
        return int(key), value
    if isinstance(value, str) and value.isdecimal():
        return int(value), key
    raise ValueError(f"{key!r}: {value!r}")


def _is_numbering(numbered: list[tuple[int, str]], is_first: bool) -> bool:
    """Whether the numbers are no part of the names, as those of coins ("1
    Euro", "2 Euro") and planes ("Airbus 320") are.
    """
    numbers, names = (set(values) for values in zip(*numbered, strict=True))
    are_of_classes = 2 * len(names) > len(numbered) == len(numbers)
    return are_of_classes and (is_first or max(numbers) - min(numbers) < len(numbered))


def _named(numbered: list[tuple[int, Any]]) -> Labels:
    names = Counter(name for _, name in numbered if isinstance(name, str))
    labels = []
    for number, name in numbered:
        if not isinstance(name, str):
            labels.append((number, {"id": str(name[0]), "name": str(name[1])}))
        elif identified := IDENTIFIED_LABEL.fullmatch(name):
            labels.append((number, identified.groupdict()))
        else:  # ImageNet has two cranes
            breed = name if names[name] == 1 else str(number)
            labels.append((number, {"id": breed, "name": name}))
    return labels


def _unquoted(name: str) -> str:
    return name.strip().strip(",").strip(QUOTES)
