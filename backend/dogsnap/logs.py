"""Logging: one line or one JSON object per event on standard error, with the
request id.

Photos, keys and addresses are never logged. What a client sends reaches the log
as printable text.
"""

import json
import logging
import os
import sys
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dogsnap.flag_names import in_flags_of_command

TEXT = "%(asctime)s %(name)s: %(message)s"
# Fields of an event beside its message, set by `extra=` of a logging call.
FIELDS = ("method", "path", "status", "seconds", "bytes", "model", "version", "label")
# Of the HTTP request or gRPC call that this thread answers.
REQUEST_ID = ContextVar("request_id", default="")


# Characters of what one client can make a line of: a name or path, a message, a traceback.
MOST_OF_NAME, MOST_OF_MESSAGE, MOST_OF_TRACEBACK = 200, 2000, 20_000


class AnsweredBy(NamedTuple):
    """Model and version that answered a request, and the label that it named;
    empty where none did.
    """

    model: str = ""
    version: str = ""
    label: str = ""

    def as_text(self) -> str:
        """ " inception_v3/3 stable" for the end of a line."""
        text = ""
        if self.model:
            text += f" {self.model}/{self.version}"
        if self.label:
            text += f" {self.label}"
        return text


NOBODY = AnsweredBy()
ANSWERED_BY = ContextVar("answered_by", default=NOBODY)


class LossyStream:
    """A standard stream that drops lines instead of raising when the disk is
    full or the reader is gone.
    """

    encoding = "utf-8"

    def __init__(self, number: int):
        self._number = number

    def write(self, text: str) -> int:
        with suppress(OSError):
            os.write(self._number, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Does nothing: the stream is unbuffered."""

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)


def shorten(text: str, most: int) -> str:
    """The text, or beginning and end of a longer one, with its length."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}... ({len(text)} characters) ...{text[-most // 2 :]}"


def escape_unprintable(text: str) -> str:
    r"""The text as one line: line breaks, escape codes and what else is not printable as \n, \x1b."""
    if text.isprintable():
        return text
    characters = []
    for character in text:
        is_printable = character.isprintable()
        escape = character.encode("unicode_escape").decode()
        characters.append(character if is_printable else escape)
    return "".join(characters)


class TextFormatter(logging.Formatter):
    """One line for each event; a traceback follows in indented lines, which
    begin like no event.
    """

    def __init__(self) -> None:
        super().__init__(TEXT, "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = in_flags_of_command(super().formatMessage(record))
        return escape_unprintable(shorten(line, MOST_OF_MESSAGE))

    def formatException(self, ei: Any) -> str:
        lines = shorten(super().formatException(ei), MOST_OF_TRACEBACK).split("\n")
        return "\n".join(f"    {escape_unprintable(line)}" for line in lines)


class JsonFormatter(logging.Formatter):
    """{"time", "level", "logger", "message"}, and if present request_id,
    exception and FIELDS.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": shorten(in_flags_of_command(record.getMessage()), MOST_OF_MESSAGE),
        }
        for name in FIELDS:
            if hasattr(record, name):
                event[name] = getattr(record, name)
        request_id = getattr(record, "request_id", "") or REQUEST_ID.get()
        if request_id:
            event["request_id"] = request_id
        if record.exc_info:
            text = self.formatException(record.exc_info)
            event["exception"] = shorten(text, MOST_OF_TRACEBACK)
        line = json.dumps(event, ensure_ascii=False)
        # JSON itself escapes neither the terminal's codes above 127 nor what changes the direction.
        return line if line.isprintable() else json.dumps(event)


def survive_full_disk() -> None:
    """Drop output that cannot be written to standard output and error."""
    sys.stdout, sys.stderr = LossyStream(1), LossyStream(2)


def prepare_logging(log_format: str = "text", level: int = logging.INFO) -> None:
    """Log events from `level` up to standard error in this format, text or
    json; TensorFlow's only from warnings up.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
