"""Parses JSON text as TensorFlow Serving does: accepts NaN and Infinity, and ignores what follows the document."""

import gc
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import orjson

from backend.errors import InvalidArgument, TooLarge, Unavailable
from backend.serving.tensors.tensors import show

# Messages of Python's parser -> messages of TensorFlow Serving's parser, which clients may rely on.
PARSER_WORDS = (
    ("Expecting ',' delimiter", "Missing a comma or } after an object member."),
    ("Expecting ':' delimiter", "Missing a colon after a name of object member."),
    ("Expecting property name", "Missing a name for object member."),
    ("Unterminated string", "Missing a closing quotation mark in string."),
    ("Invalid control character", "Invalid encoding in string."),
    ("Invalid \\", "Invalid escape character in string."),
    ("Expecting value", "Invalid value."),
)
ESCAPES = re.compile(rb"\\.", re.DOTALL)
# What each byte does to the depth of nesting.
STEPS = np.zeros(256, np.int8)
STEPS[[*b"[{"]], STEPS[[*b"]}"]] = 1, -1
SHORT_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|\bInf\b', re.DOTALL)
DEPTH_LIMIT = "{} levels (DOGSNAP_MAX_JSON_DEPTH)"


NO_MARKS = bytes(set(range(256)) - set(b",[{:"))
LARGE = 250_000  # values, counted as JsonLimits does, of a document that is read alone; a photo's text is one
WAIT_SECONDS = 2.0
_large = threading.Lock()


@dataclass(frozen=True)
class JsonLimits:
    """`depth`: levels of lists and objects; a tensor has fewer, and deeper values can only be under ignored keys.

    `values` of one document, in which a list, an object or a member name counts as four: each value takes about 40 bytes of
    memory, and a fifth of a microsecond with the interpreter locked, however short its text is.
    """

    depth: int = 100
    values: int = 12_000_000


def check_values(body: bytes, most: int, setting: str = " (DOGSNAP_MAX_JSON_VALUES)") -> int:
    """Estimate the number of values from the punctuation, before parsing. Raises TooLarge, naming the limit, above `most`."""
    marks = body.translate(None, NO_MARKS)  # counting only in the punctuation is four times as fast
    count = marks.count(b",") + 4 * (len(marks) - marks.count(b","))
    if count > most:
        raise TooLarge(
            f"the JSON has {count / 1e6:.1f} million values (a list, an object or a key counts as four); at most "
            f"{most / 1e6:g} million are taken{setting}; send several requests, or tensors by gRPC"
        )
    return count


@contextmanager
def reading(body: bytes, limits: JsonLimits) -> Iterator[dict[str, Any]]:
    """The JSON object at the start of `body`; leave the block when it is no longer needed.

    If it is nested too deeply for the parsers, values beyond the limit are left out: no input can be that deep.
    Raises InvalidArgument in TensorFlow Serving's words, TooLarge, and Unavailable.
    """
    is_large = check_values(body, limits.values) >= LARGE
    if not body.strip():
        raise InvalidArgument("JSON Parse error: The document is empty")
    with _one_large() if is_large else nullcontext():
        value = _parse(body, limits.depth)
        if not isinstance(value, dict):
            raise InvalidArgument(f"JSON Value: {show(value)} Is not object")
        del body  # freed while the block runs
        yield value


@contextmanager
def _one_large() -> Iterator[None]:
    """Allow one large document in memory at a time. Raises Unavailable.

    Garbage collection is off meanwhile: it would visit every list of the document repeatedly, with all threads waiting.
    """
    if not _large.acquire(timeout=WAIT_SECONDS):
        raise Unavailable("the server is reading other large JSON documents; try again later")
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _large.release()


def _parse(body: bytes, max_depth: int) -> Any:
    with suppress(orjson.JSONDecodeError):  # it is strict and shallow; the slower parser decides
        return orjson.loads(body)
    text = _with_long_infinities(_text(body))
    with suppress(RecursionError):
        return _decode(text)
    try:
        return _decode(without_deep_values(text, max_depth))
    except RecursionError:  # deeply nested and never closed: no complete value
        raise InvalidArgument(
            f"JSON Parse error: nested deeper than {DEPTH_LIMIT.format(max_depth)} and not closed. at offset: 0"
        ) from None


def _decode(text: str) -> Any:
    start = len(text) - len(text.lstrip())
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        raise InvalidArgument(f"JSON Parse error: {_words(error.msg)} at offset: {error.pos}") from None
    except ValueError:  # Python refuses to read numbers of thousands of digits
        raise InvalidArgument("JSON Parse error: Number too big to be stored in double. at offset: 0") from None


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"JSON Parse error: Invalid encoding in string. at offset: {error.start}") from None


def _with_long_infinities(text: str) -> str:
    """Replace Inf by Infinity outside of strings."""
    return (
        SHORT_INFINITY.sub(lambda found: "Infinity" if found[0] == "Inf" else found[0], text) if "Inf" in text else text
    )


def _words(message: str) -> str:
    return next((words for start, words in PARSER_WORDS if message.startswith(start)), message)


def is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than `levels`; without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not level:
            return False
        inner = chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inner if isinstance(each, dict | list)]
    return bool(level)


def without_deep_values(text: str, max_depth: int) -> str:
    """Replace lists and objects nested deeper than `max_depth` by null, without recursion."""
    data = text.encode()
    marks = np.frombuffer(ESCAPES.sub(b"__", data), np.uint8)
    places = np.flatnonzero(STEPS[marks])
    places = places[np.searchsorted(np.flatnonzero(marks == ord('"')), places) % 2 == 0]  # those outside of strings
    steps = STEPS[marks[places]]
    depths = np.cumsum(steps, dtype=np.int32)
    opening = places[(steps > 0) & (depths == max_depth + 1)].tolist()
    closing = places[(steps < 0) & (depths == max_depth)].tolist()
    kept_from, parts = 0, []
    for start, end in zip(opening, closing, strict=False):
        parts += [data[kept_from:start], b"null"]
        kept_from = end + 1
    return b"".join([*parts, data[kept_from:]]).decode()
