"""The access log of HTTP: a line for each answer."""

import logging

from flask import Flask, Response, g, request

from backend.settings import Settings

access = logging.getLogger("dogsnap.access")


def init_app(app: Flask, settings: Settings) -> None:
    if settings.access_log:
        app.after_request(_log_access)


def _log_access(response: Response) -> Response:
    fields = {"method": request.method, "path": request.path, "status": response.status_code}
    access.info("%s %s %s %d", g.request_id, *fields.values(), extra={"request_id": g.request_id, **fields})
    return response
