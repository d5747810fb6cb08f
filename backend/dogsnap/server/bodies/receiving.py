"""Request bodies: read within a time limit, and counted against `max_held_mb`
before they are held, inflated ones too.
"""

import io
import socket
import threading
import time
import zlib
from contextlib import suppress
from typing import Any

from flask import Flask, request
from werkzeug.wsgi import ClosingIterator

from dogsnap.errors import InvalidArgument, NoRoom, TooLarge, TooSlow, UnsupportedMediaType
from dogsnap.server.middleware.connections import (
    LINGER_SECONDS,
    PAUSE_SECONDS,
    ReadingDeadlines,
    end_reading,
)
from dogsnap.settings import MEBIBYTE, Settings

SLICE = 64 * 1024  # bytes that are inflated at a time: more would be kept twice
# Content-Encoding of bodies that are inflated, and of all that are taken (RFC 9110, section 8.4.1).
GZIP = ("gzip", "x-gzip")
ENCODINGS = ("", "identity", *GZIP)
GZIP_FORMAT = 16 + zlib.MAX_WBITS  # zlib reads also the header, which Python reads byte by byte
MOST_FILES = 100  # in a gzipped body, of which all but one are empty
RECEIVE_SECONDS = 60  # in which a request must have arrived
MOST_RATIO = 1032  # of inflated to compressed bytes, for deflate (zlib.net/zlib_tech.html)


class HeldMemory:
    """Counts the bytes of all requests and answers together; gRPC has one of
    its own. Thread-safe.
    """

    def __init__(self, max_mebibytes: int):
        self._most = max_mebibytes * MEBIBYTE
        self._held = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Raises NoRoom if there is no room for so many bytes."""
        with self._lock:
            if self._held + count > self._most:
                raise NoRoom(
                    "the server is busy with other large requests "
                    f"(limit {self._most // MEBIBYTE} MiB, DOGSNAP_MAX_HELD_MB); "
                    "try again later, or send less at once"
                )
            self._held += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._held -= count


class ReceivedBody:
    """A request's body as `wsgi.input`, and what is inflated from it, until `release`."""

    def __init__(self, environ: dict[str, Any], memory: HeldMemory, deadlines: ReadingDeadlines):
        self._connection = environ.get("gunicorn.socket")
        self._stream = environ["wsgi.input"]
        wishes = environ.get("HTTP_CONNECTION", "").lower()
        is_old = environ.get("SERVER_PROTOCOL") == "HTTP/1.0"
        self._is_last = "close" in wishes or (is_old and "keep-alive" not in wishes)
        self._memory = memory
        self._deadlines = deadlines
        self._end = time.monotonic() + RECEIVE_SECONDS
        self._held = 0
        self._held_by_answer = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes and 1 MiB, as gunicorn reads; none at the end.

        Raises NoRoom, TooSlow, InvalidArgument.
        """
        size = min(size, MEBIBYTE)
        piece = b""
        failure = None
        self._take(size)
        try:
            with self._deadlines.until(self._end, self._connection):
                piece = self._stream.read(size)
        # TimeoutError, or of gunicorn's parser, which names no common type.
        except Exception as error:
            failure = error
            self._is_last = True  # gunicorn will close the connection
        finally:
            self._give_back(size - len(piece))
        is_overdue = len(piece) < size and time.monotonic() >= self._end
        if is_overdue or isinstance(failure, TimeoutError):
            raise TooSlow(
                f"the request paused for {PAUSE_SECONDS} seconds, or did not arrive in "
                f"{RECEIVE_SECONDS} seconds; send it again, over a better connection or smaller"
            )
        if failure is not None:  # its text may hold a piece of the body, which is not repeated
            raise InvalidArgument(
                "the body ended early, or its chunks are no valid HTTP; send the request again"
            )
        return piece

    def inflate(self, body: bytes, limit: int) -> bytes:
        """A gzipped body, inflated to at most `limit` + 1 bytes; empty if it is
        damaged, as in TensorFlow Serving.
        """
        # Its end declares its size (RFC 1952, modulo 4 GiB). The buffer has that size
        # at once: if it grew, blocks of its earlier sizes would stay in the heap, 283
        # MiB for 128 that are counted.
        room = min(int.from_bytes(body[-4:], "little"), limit + 1, MOST_RATIO * len(body))
        self._take(room)
        whole = io.BytesIO(bytes(room))
        compressed = io.BytesIO(body)
        inflater = zlib.decompressobj(GZIP_FORMAT)
        given = compressed.read(SLICE)
        files = 1
        try:
            while given:
                left = room - whole.tell()
                piece = inflater.decompress(given, min(SLICE, left + 1))
                # What several in one hold is more than the last declares.
                if len(piece) > left:
                    return whole.getvalue() if room > limit else b""
                whole.write(piece)
                given = inflater.unconsumed_tail or inflater.unused_data or compressed.read(SLICE)
                if inflater.eof and given and files < MOST_FILES:
                    inflater = zlib.decompressobj(GZIP_FORMAT)
                    files += 1
                elif inflater.eof:
                    break
        except zlib.error:
            return b""
        return whole.getvalue() if inflater.eof and not given else b""

    def _take(self, count: int) -> None:
        self._memory.take(count)
        self._held += count

    def _give_back(self, count: int) -> None:
        self._held -= count
        self._memory.give_back(count)

    def hold_answer(self, count: int) -> None:
        """Count so many bytes until the answer is sent. Raises NoRoom."""
        self._memory.take(count)
        self._held_by_answer += count

    def release(self) -> None:
        """The answer is ready to be sent."""
        self._give_back(self._held)

    def finish(self) -> None:
        """The answer is sent: discard what is left, so that the connection can
        be used again, or closed without losing it.
        """
        self._memory.give_back(self._held_by_answer)
        self._held_by_answer = 0
        with (
            suppress(Exception),
            self._deadlines.until(time.monotonic() + LINGER_SECONDS, self._connection),
        ):
            while self._stream.read(MEBIBYTE):
                pass
            if not self._is_last:
                return
        end_reading(self._connection)  # also where gunicorn's parser finds no end of the body


def init_app(app: Flask, settings: Settings) -> None:
    memory = HeldMemory(settings.max_held_mb)
    deadlines = ReadingDeadlines()
    inner = app.wsgi_app

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        if connection := environ.get("gunicorn.socket"):
            # The kernel ends a connection whose client takes nothing of its answer for so long.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * PAUSE_SECONDS)
        body = environ["wsgi.input"] = ReceivedBody(environ, memory, deadlines)
        return ClosingIterator(inner(environ, start_response), body.finish)

    app.wsgi_app = answer  # type: ignore[method-assign] # as Flask documents it
    app.teardown_request(lambda _: request.environ["wsgi.input"].release())


def read_body(max_mebibytes: int, variable: str) -> bytes:
    """The body, inflated if it came gzipped; a damaged one is empty, as in
    TensorFlow Serving. Raises TooLarge, UnsupportedMediaType and others of a body that
    does not arrive.
    """
    encoding = (request.content_encoding or "").strip().lower()
    if encoding not in ENCODINGS:
        raise UnsupportedMediaType(
            f"the body is compressed as {encoding}; expected gzip or no Content-Encoding"
        )
    limit = max_mebibytes * MEBIBYTE
    length = request.content_length or 0
    if length > limit:
        raise too_large(f"{length / MEBIBYTE:.1f} MiB", max_mebibytes, variable)
    received = request.environ["wsgi.input"]
    whole = io.BytesIO()
    # Of the transfer encodings gunicorn accepts only chunks.
    most = limit + 1 if "Transfer-Encoding" in request.headers else length
    while piece := received.read(most - whole.tell()):
        whole.write(piece)
    body = whole.getvalue()
    if len(body) < length:
        raise InvalidArgument(
            f"the body ended early: expected {length} bytes (Content-Length), received {len(body)}"
        )
    if encoding in GZIP:
        body = received.inflate(body, limit)
    if len(body) > limit:
        raise too_large(f"more than {max_mebibytes} MiB", max_mebibytes, variable)
    return body


def too_large(received: str, max_mebibytes: int, variable: str) -> TooLarge:
    return TooLarge(
        f"the body is {received}; at most {max_mebibytes} MiB are taken ({variable}); "
        "send less at once"
    )
