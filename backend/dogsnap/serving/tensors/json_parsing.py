"""Parses JSON as TensorFlow Serving does: takes NaN and Infinity, ignores what
follows the document.
"""

import gc
import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import orjson

from dogsnap.errors import InvalidArgument, TooLarge, Unavailable
from dogsnap.serving.tensors.json_tensors import show

SURROGATES = (b"\\ud", b"\\uD")  # how the escapes of surrogates begin, paired or not
MOST_LEVELS = 100  # of lists and objects
MOST_VALUES = 12_000_000  # counted as `check_values` does
NO_MARKS = bytes(set(range(256)) - set(b",[{:"))
# values, counted as `check_values` does, of a document that is read alone; a photo's text is one
LARGE = 250_000
WAIT_SECONDS = 2.0
_large = threading.Lock()


def check_values(body: bytes, most: int = MOST_VALUES) -> int:
    """Estimate the number of values from the punctuation, before parsing.

    Raises TooLarge above `most`.

    A list, an object or a member name counts as four: each value takes about 40
    bytes of memory, and a fifth of a microsecond with the interpreter locked,
    however short its text is.
    """
    marks = body.translate(None, NO_MARKS)  # counting only in the punctuation is four times as fast
    count = marks.count(b",") + 4 * (len(marks) - marks.count(b","))
    if count > most:
        raise TooLarge(
            f"the JSON has {count / 1e6:.1f} million values (a list, an object or a key "
            "counts as four); at most "
            f"{most / 1e6:g} million are taken; send several requests, or tensors by gRPC"
        )
    return count


FromList = Callable[[list[Any]], dict[str, Any]]


@contextmanager
def reading(body: bytes, from_list: FromList | None = None) -> Iterator[dict[str, Any]]:
    """The JSON object at the start of `body`, with at most MOST_VALUES in at
    most MOST_LEVELS; `from_list` makes it of a list, which is refused without.

    Leave the block when it is no longer needed. Raises InvalidArgument in
    TensorFlow Serving's words, TooLarge, and Unavailable.
    """
    is_large = check_values(body) >= LARGE
    if not body.strip():
        raise InvalidArgument("JSON Parse error: The document is empty")
    with _hold_turn() if is_large else nullcontext():
        value = _parse(body)
        if from_list and isinstance(value, list):
            value = from_list(value)
        if not isinstance(value, dict):
            raise InvalidArgument(f"JSON Value: {show(value)} Is not object")
        del body  # freed while the block runs
        yield value


@contextmanager
def _hold_turn() -> Iterator[None]:
    """Allow one large document in memory at a time. Raises Unavailable.

    Garbage collection is off meanwhile: it would visit each value again and
    again, with all threads waiting.
    """
    if not _large.acquire(timeout=WAIT_SECONDS):
        raise Unavailable("the server is reading other large JSON documents; try again later")
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _large.release()


def _parse(body: bytes) -> Any:
    with suppress(orjson.JSONDecodeError):  # it takes no NaN, and nothing behind the document
        return orjson.loads(body)
    try:
        text = body.decode("utf-8-sig")
        start = len(text) - len(text.lstrip())
        value, _ = json.JSONDecoder(parse_float=_read_number).raw_decode(text, start)
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"JSON Parse error: Invalid encoding in string. at offset: {error.start}"
        ) from None
    except json.JSONDecodeError as error:
        # In TensorFlow Serving's words.
        words = error.msg.replace("Expecting value", "Invalid value.")
        raise InvalidArgument(f"JSON Parse error: {words} at offset: {error.pos}") from None
    except ValueError:  # Python refuses to read numbers of thousands of digits
        raise InvalidArgument(
            "JSON Parse error: Number too big to be stored in double. at offset: 0"
        ) from None
    except RecursionError:
        raise InvalidArgument(
            f"JSON Parse error: nested deeper than {MOST_LEVELS} levels; no tensor has as many "
            "dimensions"
        ) from None
    _refuse_lone_surrogates(body, value)
    return value


def _read_number(text: str) -> float:
    """Raises InvalidArgument for what no double holds, which Python takes for infinity."""
    number = float(text)
    if math.isinf(number):
        raise InvalidArgument(
            f"JSON Parse error: Number too big to be stored in double: {text[:40]}"
        )
    return number


def _refuse_lone_surrogates(body: bytes, value: Any) -> None:
    """Raises InvalidArgument for half a character in any string or key;
    Python's parser takes it.
    """
    if not any(escape in body for escape in SURROGATES):
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            "JSON Parse error: The surrogate pair in string is invalid. Half a character came "
            "alone (\\ud800 to \\udfff); send both halves, or the character as UTF-8"
        ) from None


def is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than `levels`; without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not level:
            return False
        inner: list[Any] = []
        for container in level:
            values = container.values() if isinstance(container, dict) else container
            inner.extend(value for value in values if isinstance(value, dict | list))
        level = inner
    return bool(level)
