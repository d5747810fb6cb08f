"""gzip for answers to clients that accept it."""

import gzip

from flask import Response, request

GZIP_FROM_BYTES = 1024  # smaller replies fit one network packet anyway
GZIP_LEVEL = 4  # of 9: floats shrink little, so more work gains little


def compress(response: Response) -> Response:
    if (
        response.is_streamed
        or response.direct_passthrough
        or "Content-Encoding" in response.headers
        or len(response.get_data()) < GZIP_FROM_BYTES  # first: a refusal is small, and quick
    ):
        return response
    response.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] <= 0:
        return response
    response.set_data(gzip.compress(response.get_data(), GZIP_LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    tag, _ = response.get_etag()
    if tag is not None:
        response.set_etag(tag, weak=True)  # the same content, but not the same bytes
    return response
