"""JSON text as TensorFlow Serving reads it: with NaN and Infinity, and whatever follows the document ignored.

It only reads; answers are strict JSON.
"""

import json
import re
from itertools import chain
from typing import Any

import orjson

from backend.errors import InvalidArgument
from backend.serving.tensors import show

# The parser's own words -> the words of the parser in TensorFlow Serving, on which clients may rely.
PARSER_WORDS = (
    ("Expecting ',' delimiter", "Missing a comma or } after an object member."),
    ("Expecting ':' delimiter", "Missing a colon after a name of object member."),
    ("Expecting property name", "Missing a name for object member."),
    ("Unterminated string", "Missing a closing quotation mark in string."),
    ("Invalid control character", "Invalid encoding in string."),
    ("Invalid \\", "Invalid escape character in string."),
    ("Expecting value", "Invalid value."),
)
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
SHORT_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|\bInf\b', re.DOTALL)
MAX_DEPTH = 100  # levels; a tensor has fewer, and deeper values can only stand under keys that are ignored
DEPTH_LIMIT = "{} levels (DOGSNAP_MAX_JSON_DEPTH)"


def parse_lenient_json(body: bytes, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """The JSON object at the start of `body`. Raises InvalidArgument in TensorFlow Serving's words.

    What is nested so deep that parsers give up is left out beyond `max_depth`: no value that anybody asks for lies there.
    """
    if not body.strip():
        raise InvalidArgument("JSON Parse error: The document is empty")
    value = _parse(body, max_depth)
    if not isinstance(value, dict):
        raise InvalidArgument(f"JSON Value: {show(value)} Is not object")
    return value


def _parse(body: bytes, max_depth: int) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass  # it is strict and shallow; the slower parser decides
    text = _with_long_infinities(_text(body))
    try:
        return _decode(text)
    except RecursionError:
        pass
    try:
        return _decode(without_deep_values(text, max_depth))
    except RecursionError:  # nested that deep and never closed: there is no value that could be left out
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
    """Inf is accepted for Infinity outside of strings."""
    return (
        SHORT_INFINITY.sub(lambda found: "Infinity" if found[0] == "Inf" else found[0], text) if "Inf" in text else text
    )


def _words(message: str) -> str:
    return next((words for start, words in PARSER_WORDS if message.startswith(start)), message)


def is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested in more levels than so many; without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        inner = chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inner if isinstance(each, dict | list)]
    return bool(level)


def without_deep_values(text: str, max_depth: int = MAX_DEPTH) -> str:
    """Replace lists and objects nested deeper than `max_depth` by null, without recursion."""
    depth, start, kept_from, parts = 0, 0, 0, []
    for token in TOKENS.finditer(text):
        if token[0] in "[{":
            depth += 1
            start = token.start() if depth == max_depth + 1 else start
        elif token[0] in "]}":
            depth -= 1
            if depth == max_depth:
                parts += [text[kept_from:start], "null"]
                kept_from = token.end()
            if depth == 0:
                break
    return "".join([*parts, text[kept_from:]])
