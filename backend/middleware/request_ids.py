"""The id of each request, in its answer, in the log and in the access log; and the sticky key of its client."""

import logging
from functools import partial

from flask import Flask, Response, g, request

from backend.logs import REQUEST_ID
from backend.middleware import client_identity
from backend.settings import Settings

access = logging.getLogger("dogsnap.access")


def init_app(app: Flask, settings: Settings) -> None:
    make_id = client_identity.new_number if settings.feedback else client_identity.new_id
    app.before_request(partial(_take, make_id))
    app.teardown_request(_forget)
    app.after_request(_add_header)


def init_access_log(app: Flask) -> None:
    app.after_request(_log_access)


def sticky_key() -> str:
    """The key that keeps the client of this request on one side of a split."""
    return client_identity.sticky_key(request.headers, request.remote_addr or "")


def _take(make: partial) -> None:
    g.request_id = client_identity.request_id(request.headers, make)
    REQUEST_ID.set(g.request_id)


def _forget(_: BaseException | None) -> None:
    REQUEST_ID.set("")  # the thread answers other requests after this one


def _add_header(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    return response


def _log_access(response: Response) -> Response:
    fields = {"method": request.method, "path": request.path, "status": response.status_code}
    access.info("%s %s %s %d", g.request_id, *fields.values(), extra={"request_id": g.request_id, **fields})
    return response
