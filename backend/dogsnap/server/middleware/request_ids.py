"""What HTTP and gRPC have of each request: its id, in the answer and in the logs, its
line in the access log, and the sticky key that keeps its client on one side of a split.
"""

import logging
import re
import secrets
import time
from contextvars import ContextVar

from flask import Flask, Response, g, request

from dogsnap.logs import ANSWERED_BY, MOST_OF_NAME, NOBODY, REQUEST_ID, shorten
from dogsnap.server.middleware.headers import Headers
from dogsnap.serving.metrics import COUNTED
from dogsnap.settings import Settings

access = logging.getLogger("dogsnap.access")

VALID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Of the client of the request that this thread answers.
STICKY_KEY = ContextVar("sticky_key", default="")


def init_app(app: Flask, settings: Settings) -> None:
    app.before_request(_begin_http_request)
    # The thread answers other requests after this one.
    app.teardown_request(_end_http_request)
    app.after_request(_add_header)
    if settings.access_log:
        app.after_request(_log_http_access)


def new_id() -> str:
    """16 hexadecimal digits, which leaves room for what feedback signs behind them."""
    return secrets.token_hex(8)


def begin_request(headers: Headers, address: str) -> None:
    """Set what is known of a request in the thread that answers it, which answered
    others before: its client's id, if it is valid, or a new one; nobody that has
    answered; and the sticky key that its client sends, one per user or device for
    example, or else its address.
    """
    received = headers.get("X-Request-Id", "")
    REQUEST_ID.set(received if VALID.fullmatch(received) else new_id())
    ANSWERED_BY.set(NOBODY)
    COUNTED.set(False)
    STICKY_KEY.set(headers.get("X-Request-Key", "") or address)


def log_access(what: dict[str, str], status: int | str, started: float, size: int) -> None:
    """A line of the access log; `what`: names a request, by the log's fields; `started`:
    by time.perf_counter(); `size`: of the answer in bytes.
    """
    seconds = round(time.perf_counter() - started, 3)
    what = {name: shorten(value, MOST_OF_NAME) for name, value in what.items()}
    fields = {**what, "status": status, "seconds": seconds, "bytes": size}
    answered_by = ANSWERED_BY.get()
    # Not the feedback_id of the answer: a log outlives the feedback that is deleted.
    access.info(
        "%s %s %s %.3f s %d bytes%s",
        REQUEST_ID.get(),
        " ".join(what.values()),
        status,
        seconds,
        size,
        answered_by.as_text(),
        extra={**fields, **answered_by._asdict()},
    )


def _begin_http_request() -> None:
    g.started = time.perf_counter()
    begin_request(request.headers, request.remote_addr or "")
    g.request_id = REQUEST_ID.get()


def _end_http_request(_error: BaseException | None) -> None:
    REQUEST_ID.set("")


def _add_header(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    return response


def _log_http_access(response: Response) -> Response:
    size = response.calculate_content_length() or 0
    what = {"method": request.method, "path": request.path}
    log_access(what, response.status_code, g.started, size)
    return response
