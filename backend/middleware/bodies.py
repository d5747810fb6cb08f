"""Request bodies: read within a time limit, and counted against `max_held_mb` before they are held, inflated ones too."""

import io
import threading
import time
import zlib
from contextlib import closing
from typing import Any

from flask import Flask, Request, request
from werkzeug.datastructures import FileStorage
from werkzeug.exceptions import RequestEntityTooLarge

from backend.errors import InvalidArgument, TooLarge, TooSlow, Unavailable
from backend.middleware.connections import DEADLINES, PAUSE_SECONDS, end_reading
from backend.settings import MEBIBYTE, Settings

SLICE = 64 * 1024  # bytes of a body at a time, compressed and inflated: zlib copies what it has not inflated yet
MOST_RATIO = 1032  # of inflated to compressed bytes, for deflate (zlib.net/zlib_tech.html)


class HeldMemory:
    """Counts the bytes of all bodies together; gRPC's messages have one of their own. Thread-safe."""

    def __init__(self, max_mebibytes: int):
        self._most = max_mebibytes * MEBIBYTE
        self._held = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Raises Unavailable if there is no room for so many bytes."""
        with self._lock:
            if self._held + count > self._most:
                raise Unavailable(
                    f"requests that are being answered may take {self._most // MEBIBYTE} MiB together (DOGSNAP_MAX_HELD_MB), and "
                    "this is one more; try again later, or send less at once"
                )
            self._held += count

    def give_back(self, count: int) -> None:
        with self._lock:
            self._held -= count


class ReceivedBody:
    """A request's body as `wsgi.input`, and what is inflated from it, until `release`."""

    def __init__(self, environ: dict[str, Any], memory: HeldMemory, seconds: int):
        self._connection, self._stream = environ.get("gunicorn.socket"), environ["wsgi.input"]
        self._memory, self._seconds = memory, seconds
        self._end = time.monotonic() + seconds
        self._held = 0

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, all with -1. Raises Unavailable, TooSlow, and InvalidArgument for a broken body."""
        if size == 0:
            return b""
        whole = io.BytesIO()
        while size < 0 or whole.tell() < size:
            # gunicorn, too, reads this much ahead.
            step = MEBIBYTE if size < 0 else min(MEBIBYTE, size - whole.tell())
            piece = self._read_piece(step)
            whole.write(piece)
            if len(piece) < step:
                break
        return whole.getvalue()

    def _read_piece(self, step: int) -> bytes:
        self._take(step)
        piece = b""
        try:
            with DEADLINES.until(self._end, self._connection):
                piece = self._stream.read(step)
        except TimeoutError:
            self._refuse(TooSlow(_slow(f"paused for {PAUSE_SECONDS:g} seconds")))
        except Exception:  # of gunicorn's parser; its text may hold a piece of the body, which is not repeated
            self._refuse_late()
            self._refuse(
                InvalidArgument("the body ended early, or its chunks are no valid HTTP; send the request again")
            )
        finally:
            self._give_back(step - len(piece))
        if len(piece) < step:
            self._refuse_late()
        return piece

    def _refuse_late(self) -> None:
        if time.monotonic() >= self._end:
            self._refuse(TooSlow(_slow(f"did not arrive in {self._seconds} seconds (DOGSNAP_RECEIVE_SECONDS)")))

    def _refuse(self, error: Exception) -> None:
        """The rest of such a body is not waited for."""
        end_reading(self._connection)
        raise error from None

    def inflate(self, body: bytes, limit: int) -> bytes:
        """A gzipped body, inflated to at most `limit` bytes and a bit; empty if it is damaged, as in TensorFlow Serving."""
        inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        # Its end declares its size (RFC 1952, modulo 4 GiB). The buffer has that size at once: if it grew, blocks of its earlier
        # sizes would stay in the heap, 283 MiB for 128 that are counted.
        declared = int.from_bytes(body[-4:], "little")
        room = min(declared, limit, MOST_RATIO * len(body))
        self._take(room)
        whole = io.BytesIO(bytes(room))
        try:
            for at in range(0, len(body), SLICE):
                rest = body[at : at + SLICE]
                while rest and not inflater.eof and whole.tell() <= limit:
                    piece = inflater.decompress(rest, SLICE)
                    if whole.tell() + len(piece) > declared:
                        return b""
                    whole.write(piece)
                    rest = inflater.unconsumed_tail
        except zlib.error:
            return b""
        whole.truncate()
        return whole.getvalue() if inflater.eof or whole.tell() > limit else b""

    def _take(self, count: int) -> None:
        self._memory.take(count)
        self._held += count

    def _give_back(self, count: int) -> None:
        self._held -= count
        self._memory.give_back(count)

    def release(self) -> None:
        """The request is answered."""
        self._give_back(self._held)


def _slow(what: str) -> str:
    return f"the request {what}; send it again, over a better connection or smaller"


class MemoryRequest(Request):
    """Keeps uploaded files in memory: werkzeug would write those above 500 kB to a temporary file."""

    def _get_file_stream(self, total_content_length, content_type, filename=None, content_length=None):
        return io.BytesIO()


def init_app(app: Flask, settings: Settings) -> None:
    memory, inner = HeldMemory(settings.max_held_mb), app.wsgi_app

    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        environ["wsgi.input"] = ReceivedBody(environ, memory, settings.receive_seconds)
        return inner(environ, start_response)

    app.wsgi_app = answer
    app.request_class = MemoryRequest
    app.teardown_request(lambda _: request.environ["wsgi.input"].release())


def read_body(max_mebibytes: int, variable: str) -> bytes:
    """The request's body, inflated if it came gzipped. Raises TooLarge naming the limit and its setting.

    A body that does not inflate counts as empty, as in TensorFlow Serving.
    """
    limit, length = max_mebibytes * MEBIBYTE, request.content_length or 0
    if length > limit:
        raise too_large(f"{length / MEBIBYTE:.1f} MiB", max_mebibytes, variable)
    received = request.environ["wsgi.input"]
    is_chunked = "Transfer-Encoding" in request.headers  # gunicorn takes no other coding
    body = received.read(limit + 1 if is_chunked else length)
    if len(body) < length:
        raise InvalidArgument(f"the body ended early: {length} bytes were promised, {len(body)} came")
    if request.headers.get("Content-Encoding", "").lower() == "gzip":
        body = received.inflate(body, limit)
    if len(body) > limit:
        raise too_large(f"more than {max_mebibytes} MiB", max_mebibytes, variable)
    return body


def check_form_size(max_mebibytes: int, variable: str) -> None:
    """Call before request.form or request.files is used. Raises TooLarge naming the limit."""
    request.max_content_length = request.max_form_memory_size = max_mebibytes * MEBIBYTE
    try:
        request.form.to_dict()
    except RequestEntityTooLarge:
        raise too_large(f"more than {max_mebibytes} MiB", max_mebibytes, variable) from None


def contents_of(file: FileStorage) -> bytes:
    """The bytes of an uploaded file, which is closed to free its copy."""
    with closing(file):
        return file.read()


def too_large(received: str, max_mebibytes: int, variable: str) -> TooLarge:
    return TooLarge(f"the body is {received}; at most {max_mebibytes} MiB are taken ({variable}); send less at once")
