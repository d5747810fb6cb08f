"""Logging: one line or one JSON object per event on standard error, with the request id.

Photos, keys and addresses are never logged.
"""

import json
import logging
import os
import sys
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime

TEXT = "%(asctime)s %(name)s: %(message)s"
# Fields of an event beside its message, set by `extra=` of a logging call.
FIELDS = ("method", "path", "status", "seconds")
REQUEST_ID = ContextVar(
    "request_id", default=""
)  # of the HTTP request or gRPC call that this thread answers


class LossyStream:
    """A standard stream that drops lines in place of raising when the disk is full or the reader is gone."""

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


class JsonFormatter(logging.Formatter):
    """{"time", "level", "logger", "message"}, and if present request_id, exception and FIELDS."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        request_id = getattr(record, "request_id", "") or REQUEST_ID.get()
        if request_id:
            event["request_id"] = request_id
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False)


def survive_full_disk() -> None:
    """Drop output that cannot be written to standard output and error."""
    sys.stdout, sys.stderr = LossyStream(1), LossyStream(2)


def prepare_logging(log_format: str = "text", level: int = logging.INFO) -> None:
    """Log events from `level` up to standard error in this format, text or json; TensorFlow's only from warnings up."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if log_format == "json" else logging.Formatter(TEXT, "%H:%M:%S")
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
