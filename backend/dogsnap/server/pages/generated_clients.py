"""Generates example clients for a signature in bash, Python, JavaScript and Go,
as Simple TensorFlow Serving does.

Example values are written as "this value, in lists of these sizes", so that a
client for images stays short.
"""

import base64
import io
import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from jinja2 import Environment, FileSystemLoader
from PIL import Image

from dogsnap.errors import InvalidArgument, TooLarge
from dogsnap.serving.tensors.signatures import BYTES_SUFFIX, Signature

# A photo of one grey pixel, as base64 text: what a text input of a photo model can really decode.
ONE_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)

MOST_VALUES = 1_000_000  # of an example as JSON
# Sides of pictures and images: those that networks usually take, after the smallest.
SIDES = (1, 224, 256, 299, 128, 64, 32, 28, 96, 160, 192, 240, 384, 512, 150, 180, 100)

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "clients"),
    keep_trailing_newline=True,
    auto_reload=False,
)


@dataclass(frozen=True)
class Filled:
    """A value in nested lists of these sizes."""

    value: Any
    sizes: list[int]


Example: TypeAlias = Mapping[str, Filled]


def _write_go_literal(value: Any) -> str:
    """Go has JSON's literals, but no escapes of half a character."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


# How a language writes a text, a number or a truth value; by the names of their templates.
LITERALS: dict[str, Callable[[Any], str]] = {
    "bash": shlex.quote,
    "python": repr,
    "javascript": json.dumps,
    "golang": _write_go_literal,
}
# Read with the code: while the server runs, another release may replace the files.
CLIENTS = {name: TEMPLATES.get_template(f"{name}.jinja") for name in LITERALS}
TEMPLATES.get_template("request.jinja")  # which these import


def write_client(name: str, endpoint: str, request: dict[str, Any]) -> str:
    """The source of a client in language `name` that sends a request, whose "data" is
    an example. Raises InvalidArgument for another language.
    """
    if name not in LITERALS:
        raise InvalidArgument(f"language is {name!r}; expected one of {', '.join(LITERALS)}")
    return CLIENTS[name].render(
        endpoint=endpoint, request=request, literal=LITERALS[name], to_json=json.dumps
    )


def find_examples(signature: Signature) -> Iterator[Example]:
    """Example data for every input, the simplest first: pictures and open sizes
    of each of SIDES, as text or bytes, and in a list of one or alone where the
    signature does not say.
    """
    given: list[Example] = []
    for side, is_listed, is_base64 in product(SIDES, (True, False), (True, False)):
        example = {}
        for alias, spec in signature.inputs.items():
            value = _example_value(spec, side, is_base64)
            example[alias] = Filled(value, _example_sizes(spec, side, is_listed))
        if example not in given:
            given.append(example)
            yield example


def count_values(example: Example) -> int:
    return max((math.prod(filled.sizes) for filled in example.values()), default=0)


def to_data(example: Example) -> dict[str, Any]:
    """Example data as POST / takes it.

    Raises TooLarge for more than MOST_VALUES of an input.
    """
    if count_values(example) > MOST_VALUES:
        raise TooLarge(
            f"an input takes {count_values(example)} values; examples have at most {MOST_VALUES}; "
            "a generated client (gen_client) makes them itself"
        )
    data = {}
    for alias, filled in example.items():
        data[alias] = np.full(filled.sizes, filled.value, dtype=object).tolist()
    return data


def _example_sizes(spec: tf.TensorSpec, side: int, is_listed: bool) -> list[int]:
    """The sizes of the lists around a value: of one where the rank or the
    number of rows is open.
    """
    if spec.shape.rank is None:
        return [1] if is_listed else []
    is_picture = spec.shape.rank == 3  # without a dimension for several
    sizes = [size or side for size in spec.shape]
    if sizes and spec.shape[0] is None and not is_picture:
        sizes[0] = 1
    return sizes


def _example_value(spec: tf.TensorSpec, side: int, is_base64: bool) -> Any:
    if spec.dtype == tf.string:
        text = ONE_PIXEL if side == 1 else _grey_picture(side)
        is_text = is_base64 and not spec.name.endswith(BYTES_SUFFIX)
        return text if is_text else {"b64": text}
    if spec.dtype == tf.bool:
        return True
    return 1 if spec.dtype.is_integer else 1.0


@cache
def _grey_picture(side: int) -> str:
    """A square of this side as PNG, as base64 text."""
    file = io.BytesIO()
    Image.new("RGB", (side, side), (128, 128, 128)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
