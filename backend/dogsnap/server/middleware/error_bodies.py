"""The error body of all HTTP protocols: {"error": message, "request_id": id}."""

import logging

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as ResponseBase

from dogsnap.errors import DogsnapError, Internal, Unauthenticated
from dogsnap.logs import REQUEST_ID
from dogsnap.server.bodies.json_bodies import json_response

MAX_CHARACTERS = 4096  # of a message, which may repeat a name or value of the request

log = logging.getLogger("dogsnap.http")


def init_app(app: Flask) -> None:
    app.register_error_handler(DogsnapError, error_response)
    app.register_error_handler(HTTPException, _answer_http_exception)
    app.register_error_handler(Exception, _log_and_hide)


def error_response(error: DogsnapError) -> Response:
    g.error = error
    # An unpaired surrogate from the request cannot be encoded.
    message = error.message[:MAX_CHARACTERS].encode("utf-8", "replace").decode()
    if len(error.message) > MAX_CHARACTERS:
        message += "..."
    response = json_response({"error": message, "request_id": g.request_id}, error.http_status)
    if hasattr(error, "retry_after"):
        response.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, Unauthenticated):
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _answer_http_exception(error: HTTPException) -> ResponseBase:
    response = error.get_response()
    if response.status_code < 400:  # a redirect
        return response
    sentence = f"{error.name}: {request.method} {request.path}"
    if error.code in (404, 405):
        sentence += "; GET /openapi.json lists every path with its methods"
    response.data = json_response({"error": sentence, "request_id": g.request_id}).data
    response.mimetype = "application/json"
    return response


def _log_and_hide(error: Exception) -> Response:
    """The reason of an error that is no DogsnapError goes to the log alone."""
    log.exception("request %s failed", REQUEST_ID.get(), exc_info=error)
    return error_response(
        Internal("the server failed on this request; its log has the reason under the request id")
    )
