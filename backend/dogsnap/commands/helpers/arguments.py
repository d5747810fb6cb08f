"""How commands declare their options, and the options and path types that several share."""

import ast
import json
import re
import tempfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

PATH = click.Path(path_type=Path)
AT_LEAST_ONE = click.IntRange(min=1)
WORDNET_LABEL = re.compile(r"(?P<id>n\d{8})[\s:-]+(?P<name>.+)")
# A line of number and name, or a row of a table in either order.
NUMBERED_LABELS = (
    re.compile(r'"?(?P<number>\d+)"?[\s:,;]+"?(?P<name>[^\d"].*?)"?'),
    re.compile(r'"?(?P<name>[^"]*?)"?\s*[,;\t]\s*"?(?P<number>\d+)"?'),
)
SEPARATOR = re.compile(r"[,;\t]")  # of a table's columns
LABELS_EXPECTED = (
    'expected as JSON a list of names, of {"id", "name"} or of pairs, or an object from number '
    "to name or from name to number"
)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def option(flag: str, text: str, kind: Any = None, *, name: str = "", **more: Any) -> Callable:
    """An option of click whose help is `text`, with the default if there is
    one; `name`: of the argument, if not the flag's.
    """
    shown = more.get("default") not in (None, "")
    return click.option(
        flag, *filter(None, [name]), type=kind, help=text, show_default=shown, **more
    )


list_option = option(
    "--list",
    "the list in DATA that names the photos; without that file: every photo of DATA",
    name="list_name",
    default="test_list",
)


def named_list(data: Path, list_name: str) -> str | None:
    """The list of photos to read: one that is named must exist; without the
    default one, all photos of the folder are used.
    """
    source = click.get_current_context().get_parameter_source("list_name")
    is_named = source is ParameterSource.COMMANDLINE
    return list_name if is_named or (data / f"{list_name}.txt").is_file() else None


precision_option = option(
    "--precision",
    "what to compute in; auto: the fastest that this machine has",
    click.Choice(["auto", "float32", "mixed_bfloat16"]),
    default="auto",
)


def _writable(context: click.Context, option: click.Parameter, file: Path | None) -> Path | None:
    if file:
        refuse_unwritable(file.parent)
    return file


json_option = option(
    "--json", "write every figure to this file, too", PATH, name="json_file", callback=_writable
)


def class_labels(file: Path | None, of_breeds: bool = True) -> list[dict[str, str]]:
    """The classes in a file, each {"id", "name"} and what else labels.json
    says; none without a file.

    A line is a name, id:name, number and name ("0 cat", or a CSV file in either
    order, with or without a head), or an id of WordNet and a name ("n02085620
    Chihuahua", "n02085620-Chihuahua"). As JSON: see LABELS_EXPECTED, also below
    "labels", "id2label" or "label2id". What is numbered stands by its number,
    whatever the order. Raises click.ClickException for a line without a name,
    or for a duplicate id `of_breeds`: ImageNet has two cranes.
    """
    if file is None:
        return []
    text = _read_text(file)
    is_json = file.suffix == ".json" or text.lstrip().startswith(("{", "["))
    labels = _json_labels(file, text) if is_json else _text_labels(file, text)
    if not labels:
        raise click.ClickException(
            f"{file} holds no class; expected a name a line, id:name, or a list as JSON"
        )
    counts = Counter(str(label["id"]) for label in labels)
    for number, label in enumerate(labels, start=1):
        if not label["name"]:
            raise click.ClickException(
                f"{file}: class {number} has no name; expected one a line, or id:name"
            )
        times = counts[str(label["id"])]
        if of_breeds and times > 1:
            raise click.ClickException(
                f"{file}: {label['id']} is there {times} times; expected it once"
            )
    return labels


def _read_text(file: Path) -> str:
    """UTF-8, or what Windows calls Unicode."""
    content = file.read_bytes()
    is_utf16 = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.ClickException(
            f"{file} is no text in UTF-8: {error.reason} at byte {error.start}; save it as UTF-8"
        ) from None


def _text_labels(file: Path, text: str) -> list[dict[str, str]]:
    lines = [line.strip() for line in text.rstrip().splitlines()]
    of_wordnet = [WORDNET_LABEL.fullmatch(line) for line in lines]
    if all(of_wordnet):
        return [{"id": match["id"], "name": match["name"]} for match in of_wordnet]
    for pattern in NUMBERED_LABELS:
        has_head = len(lines) > 1 and SEPARATOR.search(lines[0]) and not pattern.fullmatch(lines[0])
        numbered = [pattern.fullmatch(line) for line in lines[1 if has_head else 0 :]]
        if all(numbered):
            pairs = [(int(match["number"]), match["name"]) for match in numbered]
            if _is_count(pairs):  # others are names, such as those of coins
                return _order_labels(file, pairs)
    if all(":" in line for line in lines):
        labels = []
        for line in lines:
            breed, _, name = line.partition(":")
            labels.append({"id": breed.strip(), "name": name.strip()})
        return labels
    return [{"id": line, "name": line} for line in lines]


def _json_labels(file: Path, text: str) -> list[dict[str, str]]:
    try:
        labels = json.loads(text)
    except ValueError as error:
        try:
            labels = ast.literal_eval(text)  # a dictionary as Python prints it
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise click.ClickException(f"{file}: {LABELS_EXPECTED}: {error}") from None
    for field in ("labels", "id2label", "label2id"):
        if isinstance(labels, dict) and isinstance(labels.get(field), list | dict):
            labels = labels[field]
    try:
        if isinstance(labels, dict):
            return _order_labels(file, [_read_number(*item) for item in labels.items()])
        if all(isinstance(label, list | tuple) for label in labels):
            if any(type(value) is int for label in labels for value in label):
                return _order_labels(file, [_read_number(*label) for label in labels])
            return [{"id": str(breed), "name": str(name)} for breed, name in labels]
        if all(isinstance(label, dict) and type(label.get("id")) is int for label in labels):
            return _order_labels(file, [(label["id"], label["name"]) for label in labels])
        named = [label if isinstance(label, dict) else {"name": str(label)} for label in labels]
        return [{"id": label["name"], **label} for label in named]
    except (KeyError, TypeError, ValueError) as error:
        raise click.ClickException(f"{file}: {LABELS_EXPECTED}: {error!r}") from None


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


def _is_count(numbered: list[tuple[int, Any]]) -> bool:
    """Whether the numbers are 0, 1, 2, ..., in any order."""
    return sorted(number for number, _ in numbered) == list(range(len(numbered)))


def _order_labels(file: Path, numbered: list[tuple[int, Any]]) -> list[dict[str, str]]:
    """By their numbers, which count the classes from 0.

    Raises click.ClickException where they do not.
    """
    if not _is_count(numbered):
        listed = ", ".join(str(number) for number, _ in numbered[:10])
        raise click.ClickException(
            f"{file}: expected the numbers 0 to {len(numbered) - 1}, each once, received {listed}"
        )
    labels = []
    names = Counter(name for _, name in numbered if isinstance(name, str))
    for number, name in sorted(numbered, key=itemgetter(0)):
        if not isinstance(name, str):
            labels.append({"id": str(name[0]), "name": str(name[1])})
        else:  # ImageNet has two cranes
            labels.append({"id": name if names[name] == 1 else str(number), "name": name})
    return labels


def refuse_unwritable(folder: Path) -> None:
    """For commands that work long before they write. Raises click.ClickException."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise click.ClickException(
            f"{folder} cannot be written to: {error.strerror}; nothing is done"
        ) from None
