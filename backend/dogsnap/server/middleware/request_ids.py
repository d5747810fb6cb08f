"""The id of each request, in its answer and in the logs, and the sticky key
that keeps its client on one side of a split.
"""

import logging
import re
import secrets
import time
from collections.abc import Mapping

from flask import Flask, Response, g, request

from dogsnap.logs import ANSWERED_BY, NOBODY, REQUEST_ID
from dogsnap.settings import Settings

access = logging.getLogger("dogsnap.access")

VALID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def init_app(app: Flask, settings: Settings) -> None:
    app.before_request(_begin_request)
    # The thread answers other requests after this one.
    app.teardown_request(lambda _: REQUEST_ID.set(""))
    app.after_request(_add_header)
    if settings.access_log:
        app.after_request(_log_access)


def new_id() -> str:
    """16 hexadecimal digits, which leaves room for what feedback signs behind them."""
    return secrets.token_hex(8)


def request_id(headers: Mapping[str, str]) -> str:
    """The request id that the client sent, if it is valid, or a new one."""
    received = headers.get("X-Request-Id", "")
    return received if VALID.fullmatch(received) else new_id()


def sticky_key(headers: Mapping[str, str], address: str) -> str:
    """The sticky key that a client sends (one per user or device, for example),
    or else its address.
    """
    return headers.get("X-Request-Key") or address


def own_sticky_key() -> str:
    """The key that keeps the client of this HTTP request on one side of a split."""
    return sticky_key(request.headers, request.remote_addr or "")


def _begin_request() -> None:
    g.request_id = request_id(request.headers)
    REQUEST_ID.set(g.request_id)
    ANSWERED_BY.set(NOBODY)  # the thread answered other requests before this one
    g.started = time.perf_counter()


def _add_header(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    return response


def _log_access(response: Response) -> Response:
    answered_by = ANSWERED_BY.get()
    fields = {
        "method": request.method,
        "path": request.path,
        "status": response.status_code,
        "seconds": round(time.perf_counter() - g.started, 3),
        "bytes": response.calculate_content_length() or 0,
    }
    # Not the feedback_id of the answer: a log outlives the feedback that is deleted.
    access.info(
        "%s %s %s %d %.3f s %d bytes%s",
        REQUEST_ID.get(),
        *fields.values(),
        answered_by.as_text(),
        extra={**fields, **answered_by._asdict()},
    )
    return response
