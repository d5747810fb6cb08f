"""Shared by the HTTP protocols: bodies within limits, JSON, request ids, the error body, compression, CORS."""

import gzip
import io
import logging
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from typing import Any

import orjson
from flask import Flask, Request, Response, current_app, g, request
from gunicorn.http.errors import NoMoreData, ParseException
from werkzeug.datastructures import FileStorage
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from backend.errors import DogsnapError, Internal, InvalidArgument, TooLarge, Unauthenticated
from backend.logs import REQUEST_ID
from backend.middleware import client_identity
from backend.serving.tensors.json_text import DEPTH_LIMIT, JsonLimits, check_values, is_deeper, reading
from backend.serving.tensors.signatures import ServableId
from backend.serving.versions.version_folders import MAX_INT64
from backend.settings import MEBIBYTE, Settings

log = logging.getLogger("dogsnap.http")
access = logging.getLogger("dogsnap.access")

JSON_LIMITS = "JSON_LIMITS"
FLAT_VALUES = 100_000  # of an object of a few fields, counted as JsonLimits does
GZIP_FROM_BYTES = 1024  # smaller replies fit one network packet anyway
GZIP_LEVEL = 4  # of 9: floats shrink little, so more work gains little
# Headers that pages of other origins may send, and those that they may read.
CORS_SENT = "Content-Type, X-Api-Key, Authorization, X-Request-Key, X-Request-Id"
CORS_READ = "X-Request-Id, Retry-After, X-Dogsnap-Model-Version"
# A client may take this long to read a piece of its answer that does not fit into the system's buffers.
SEND_SECONDS, SEND_BYTES = 15.0, 64 * 1024


class MemoryRequest(Request):
    """Keeps uploaded files in memory: werkzeug would write those above 500 kB to a temporary file."""

    def _get_file_stream(self, total_content_length, content_type, filename=None, content_length=None):
        return io.BytesIO()


def init_app(app: Flask, settings: Settings) -> None:
    """Give `app` request ids, the error body, gzip compression, and CORS if it is enabled."""
    app.request_class = MemoryRequest
    app.config[JSON_LIMITS] = JsonLimits(settings.max_json_depth, settings.max_json_values)
    make_id = client_identity.new_number if settings.feedback else client_identity.new_id
    app.before_request(partial(_take_request_id, make_id))
    app.teardown_request(_forget_request_id)
    app.before_request(_limit_sending)
    app.after_request(_send_in_pieces)  # what is registered first runs last
    app.after_request(_compress)
    app.after_request(_add_request_id)
    if settings.enable_cors:
        app.after_request(_add_cors_headers)
    if settings.access_log:
        app.after_request(_log_access)
    app.register_error_handler(DogsnapError, error_response)
    app.register_error_handler(HTTPException, _http_exception)
    app.register_error_handler(ParseException, _broken_body)
    app.register_error_handler(NoMoreData, _broken_body)
    app.register_error_handler(Exception, _unexpected)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Strict JSON: NaN and infinities, which JSON does not have, become null."""
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, headers, mimetype="application/json")


def version_header(servable: ServableId) -> dict[str, str]:
    """The header that names the version that answered, for APIs whose bodies have no place for it."""
    return {"X-Dogsnap-Model-Version": str(servable.version)}


def error_response(error: DogsnapError) -> Response:
    """The error body of all protocols: {"error": message, "request_id": id}."""
    if isinstance(error, TooLarge):
        _drain()
    message = error.message.encode(
        "utf-8", "replace"
    ).decode()  # an unpaired surrogate from the request cannot be encoded
    response = json_response({"error": message, "request_id": g.request_id}, error.http_status)
    if hasattr(error, "retry_after"):
        response.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, Unauthenticated):
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _http_exception(error: HTTPException) -> Response:
    if error.code is None or error.code < 400:  # a redirect
        return error.get_response()
    hint = "; GET /openapi.json lists every path with its methods" if error.code in (404, 405) else ""
    sentence = f"{error.name}: {request.method} {request.path}{hint}"
    response = json_response({"error": sentence, "request_id": g.request_id}, error.code)
    for name, value in error.get_headers():
        if name not in ("Content-Type", "Content-Length"):
            response.headers[name] = value
    return response


def _limit_sending() -> None:
    connection = request.environ.get("gunicorn.socket")
    if connection is not None:
        connection.settimeout(SEND_SECONDS)


def _send_in_pieces(response: Response) -> Response:
    """gunicorn sends each piece by a `sendall` of its own, whose timeout is for all that it is given."""
    if response.is_streamed or response.direct_passthrough:
        return response
    body = response.get_data()
    if len(body) > SEND_BYTES:
        response.response = (body[at : at + SEND_BYTES] for at in range(0, len(body), SEND_BYTES))
    return response


def _broken_body(error: Exception) -> Response:
    """The error's own text may hold a piece of the body, which is neither repeated nor logged."""
    what = "ended early" if isinstance(error, NoMoreData) else "came in chunks that are no valid HTTP"
    return error_response(InvalidArgument(f"the body {what}; send the request again"))


def _unexpected(error: Exception) -> Response:
    log.exception("request %s failed", g.request_id, exc_info=error)
    return error_response(Internal("the server failed on this request; its log has the reason under the request id"))


def read_body(max_mebibytes: int, variable: str) -> bytes:
    """The request's body, inflated if it came gzipped. Raises TooLarge naming the limit and its setting.

    A body that does not inflate counts as empty, as in TensorFlow Serving.
    """
    limit = max_mebibytes * MEBIBYTE
    if (request.content_length or 0) > limit:
        raise too_large(f"{request.content_length / MEBIBYTE:.1f} MiB", max_mebibytes, variable)
    request.max_content_length = None
    # In one read: Werkzeug reads 64 KiB at a time, for each of which gunicorn copies its buffer (10 ms for 7 MB).
    body = request.environ["wsgi.input"].read(limit + 1 if _is_chunked() else request.content_length or 0)
    if len(body) < (request.content_length or 0):
        raise InvalidArgument(f"the body ended early: {request.content_length} bytes were promised, {len(body)} came")
    if request.headers.get("Content-Encoding", "").lower() == "gzip":
        body = _inflate(body, limit)
    if len(body) > limit:
        raise too_large(f"more than {max_mebibytes} MiB", max_mebibytes, variable)
    return body


def tensor_fields(settings: Settings) -> AbstractContextManager[dict[str, Any]]:
    """The JSON object of a request with tensors, as `json_text.reading` gives it; nothing else of the body is kept."""
    return reading(read_body(settings.max_tensor_body_mb, "DOGSNAP_MAX_TENSOR_BODY_MB"), json_limits())


def check_form_size(max_mebibytes: int, variable: str) -> None:
    """Call before request.form or request.files is used. Raises TooLarge naming the limit."""
    limit = max_mebibytes * MEBIBYTE
    if (request.content_length or 0) > limit:
        raise too_large(f"{request.content_length / MEBIBYTE:.1f} MiB", max_mebibytes, variable)
    request.max_content_length = request.max_form_memory_size = limit
    try:
        request.form.to_dict()
    except RequestEntityTooLarge:  # without a length in its header, a body shows its size only when it is read
        raise too_large(f"more than {max_mebibytes} MiB", max_mebibytes, variable) from None


def contents_of(file: FileStorage) -> bytes:
    """The bytes of an uploaded file, which is closed to free its copy."""
    with closing(file):
        return file.read()


def too_large(received: str, max_mebibytes: int, variable: str) -> TooLarge:
    return TooLarge(f"the body is {received}; at most {max_mebibytes} MiB are taken ({variable}); send less at once")


def _is_chunked() -> bool:
    return "chunked" in request.headers.get("Transfer-Encoding", "").lower()


def _inflate(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        inflated = inflater.decompress(body, limit + 1)
    except zlib.error:
        return b""
    return inflated if inflater.eof or len(inflated) > limit else b""


def _drain() -> None:
    """Read the rest of the body, which is in memory already: with unread bytes the connection would be closed."""
    with suppress(OSError, ParseException):
        while request.environ["wsgi.input"].read(MEBIBYTE):
            pass


def parse_json(body: bytes) -> dict[str, Any]:
    """A body that must be one JSON object. Raises InvalidArgument and TooLarge."""
    check_values(body, FLAT_VALUES, "")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidArgument(
            f"expected a JSON object as body, received {len(body)} bytes that are no JSON: {error}"
        ) from None
    if not isinstance(value, dict):
        raise InvalidArgument(f"expected a JSON object as body, received a JSON {type(value).__name__}")
    depth = json_limits().depth
    if is_deeper(value, depth):
        raise InvalidArgument(f"the body is nested deeper than {DEPTH_LIMIT.format(depth)}; send a flat object")
    return value


def json_limits() -> JsonLimits:
    """By the settings max_json_depth and max_json_values."""
    return current_app.config[JSON_LIMITS]


def whole_number(name: str, value: Any) -> int | None:
    """A version number or count as JSON or form fields give it: 2, "2"; None for nothing. Raises InvalidArgument."""
    if value is None or value == "":
        return None
    digits = str(value).lstrip("0") or "0"
    is_number = isinstance(value, int | str) and not isinstance(value, bool) and digits.isascii() and digits.isdigit()
    if not is_number or len(digits) > 19 or int(digits) > MAX_INT64:
        raise InvalidArgument(f"{name} is {value!r}; expected a whole number from 0 to {MAX_INT64}")
    return int(digits)


def text_field(name: str, value: Any) -> str:
    """A field that must be a string; "" for nothing. Raises InvalidArgument."""
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} is {value!r}; expected a string")
    return value or ""


def sticky_key() -> str:
    """The key that keeps the client of this request on one side of a split."""
    return client_identity.sticky_key(request.headers, request.remote_addr or "")


def _take_request_id(make: Callable[[], str]) -> None:
    g.request_id = client_identity.request_id(request.headers, make)
    REQUEST_ID.set(g.request_id)


def _forget_request_id(_: BaseException | None) -> None:
    REQUEST_ID.set("")  # the thread answers other requests after this one


def _add_request_id(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    return response


def _compress(response: Response) -> Response:
    if response.is_streamed or response.direct_passthrough or "Content-Encoding" in response.headers:
        return response
    response.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] <= 0 or len(response.get_data()) < GZIP_FROM_BYTES:
        return response
    response.set_data(gzip.compress(response.get_data(), GZIP_LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, _ = response.get_etag()
    if etag is not None:
        response.set_etag(etag, weak=True)  # the same content, but not the same bytes
    return response


def _add_cors_headers(response: Response) -> Response:
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Allow-Methods"] = "POST, GET"
    # Without Access-Control-Request-Headers, answer exactly as TensorFlow Serving does.
    asks = "Access-Control-Request-Headers" in request.headers
    response.headers["Access-Control-Allow-Headers"] = CORS_SENT if asks else "Content-Type"
    response.headers["Access-Control-Expose-Headers"] = CORS_READ
    return response


def _log_access(response: Response) -> Response:
    fields = {"method": request.method, "path": request.path, "status": response.status_code}
    access.info("%s %s %s %d", g.request_id, *fields.values(), extra={"request_id": g.request_id, **fields})
    return response
