"""gunicorn's threaded worker, which gives a request to a thread only when it has arrived completely: slow clients hold no
thread.
"""

import errno
import logging
import random
import re
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from gunicorn import sock, util
from gunicorn.http import get_parser
from gunicorn.http.unreader import Unreader
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from backend.middleware.security_headers import HEADERS
from backend.settings import MEBIBYTE

log = logging.getLogger("dogsnap.http")

RECEIVE_BYTES = 256 * 1024  # read from one connection before the next one is served
MAX_HEAD = 128 * 1024  # bytes; enough for several headers of gunicorn's maximum of 8190
MAX_CHUNKS = 65_536  # of a chunked body; more would mean tiny chunks, sent to cost processor time
CHUNK_FRAMES = MEBIBYTE  # allowance for the sizes between the chunks of a body that is just within the limit
PAUSE_SECONDS = 15.0  # longest pause within a request
LINGER_SECONDS = (
    20.0  # for a client that still sends a refused request: after an immediate close it would not see the answer
)
MAX_LINGERING = 256
SEND_BUFFER = MEBIBYTE  # an answer of up to this size frees its thread at once, however slowly the client reads it
CHECK_SECONDS = 0.25  # interval of the check for overdue clients

HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
CODING = re.compile(rb"\r\ntransfer-encoding[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
EXPECT = re.compile(rb"\r\nexpect[ \t]*:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)
OLD = re.compile(rb"[^\r\n]* HTTP/1\.0\r\n")
LAST = re.compile(rb"\r\nconnection[ \t]*:[^\r\n]*\bclose\b", re.IGNORECASE)
SECURITY = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def json_error(status: int, sentence: str, connection: str = "close") -> bytes:
    """A whole HTTP response with the error body, for requests that never reach the application."""
    request_id = f"{random.getrandbits(128):032x}"  # not secret; uuid4 would need a system call
    body = orjson.dumps({"error": sentence, "request_id": request_id})
    retry = "Retry-After: 1\r\n" if status == 503 else ""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: {connection}\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: {request_id}\r\n{SECURITY}{retry}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1", "replace") + body


class IncomingRequest:
    """A request that is being received; finds out where it ends.

    `data`: what has been received. `is_done`: nothing more is needed to answer it. `is_cut`: it is answered before it is
    complete, so that nothing after it on the connection can be parsed. `most`: the largest body in bytes.
    """

    def __init__(self, most: int):
        self.data = bytearray()
        self.is_done = self.is_cut = self.expects_continue = False
        self.begun = self.last = time.monotonic()
        self._most = most
        self._at = self._end = self._chunks = 0
        # A function, not a bound method: the reference cycle would keep the data until the next garbage collection.
        self._step: Callable[[IncomingRequest], bool] = IncomingRequest._find_head

    def take(self, piece: bytes | memoryview) -> None:
        self.last = time.monotonic()
        self.data += piece
        while not self.is_done and self._step(self):
            pass

    def cut(self) -> None:
        self.is_done = self.is_cut = True

    def request(self) -> bytearray:
        """The data for the parser: without Expect: 100-continue, and with Connection: close if it was cut."""
        end = self.data.find(HEAD_END) + 2  # 1 without a complete head, which is then left as it is
        if end > 1:
            head = EXPECT.sub(b"", bytes(self.data[:end]))
            self.data[:end] = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) if self.is_cut else head
        return self.data

    def _find_head(self) -> bool:
        end = self.data.find(HEAD_END, max(0, self._at - len(HEAD_END)))
        self._at = len(self.data) if end < 0 else end + len(HEAD_END)
        if end >= 0:
            self._read_head(bytes(self.data[: end + 2]))
        return end >= 0

    def has_length(self) -> bool:
        """Whether the head is complete and gives the length of the body."""
        return self._step is IncomingRequest._find_end

    def may_be_followed(self) -> bool:
        """Whether the connection can be kept: the body is complete, nothing follows it, and the client allows it."""
        head = bytes(self.data[: self._at])
        return len(self.data) == self._end and not OLD.match(head) and not LAST.search(head)

    def has_endless_head(self) -> bool:
        return self._step is IncomingRequest._find_head and len(self.data) > MAX_HEAD

    def _read_head(self, head: bytes) -> None:
        """Find out where the body ends. Contradictory heads are left to the parser, which refuses them."""
        lengths, codings = set(LENGTH.findall(head)), CODING.findall(head)
        length = lengths.pop().strip() if len(lengths) == 1 else b""
        self.expects_continue = EXPECT.search(head) is not None and not OLD.match(head)
        if codings:
            self._step = IncomingRequest._find_chunk
            self.is_done = b"chunked" not in codings[-1].lower()
        elif not length.isdigit():
            self.is_done = True
        elif len(length) > 18 or int(length) > self._most:
            self.cut()
        else:
            self._end, self._step = self._at + int(length), IncomingRequest._find_end

    def _find_end(self) -> bool:
        self.is_done = len(self.data) >= self._end
        return False

    def _find_chunk(self) -> bool:
        """Skip one chunk; False if the next one's size has not been received yet."""
        line_end = self.data.find(b"\r\n", self._at, self._at + 8192)
        size = bytes(self.data[self._at : line_end]).partition(b";")[0].strip()
        if len(self.data) > self._most + CHUNK_FRAMES or self._chunks > MAX_CHUNKS:
            self.cut()
        elif line_end < 0:
            self.is_done = self.is_cut = len(self.data) - self._at > 8192
            return False
        elif not re.fullmatch(rb"[0-9a-fA-F]{1,16}", size):
            self.cut()
        elif int(size, 16) == 0:
            self._at, self._step = line_end, IncomingRequest._find_trailer_end
        else:
            self._at, self._chunks = line_end + 2 + int(size, 16) + 2, self._chunks + 1
        return self._at < len(self.data)

    def _find_trailer_end(self) -> bool:
        self.is_done = self.data.find(HEAD_END, self._at) >= 0
        if not self.is_done and len(self.data) - self._at > MAX_HEAD:
            self.cut()
        return False


class ReceivedData(Unreader):
    """Gives gunicorn's parser the received data and nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self._view = memoryview(b"")

    def fill(self, data: bytes | bytearray) -> None:
        self._view = memoryview(data)

    def chunk(self, size_hint: int | None = None) -> bytes:
        piece = bytes(self._view[: min(max(8192, size_hint or 0), MEBIBYTE)])
        self._view = self._view[len(piece) :] if len(piece) < len(self._view) else memoryview(b"")
        return piece

    def keep_rest(self) -> None:
        """Keep unparsed data for the next request on the connection."""
        self.buf.write(self._view)
        self._view = memoryview(b"")


class Connection(TConn):
    """A client's connection; `held` bytes of its request are in memory."""

    def __init__(self, cfg: Any, client: socket.socket, address: Any, server: Any, linger: Callable[[TConn], None]):
        super().__init__(cfg, client, address, server)
        self.held = 0
        self._linger = linger

    def prepare(self) -> None:
        """Set the connection up without blocking; a TLS handshake continues while data is received."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if self.cfg.is_ssl:
            self.sock = sock.ssl_wrap_socket(self.sock, self.cfg)
        self.parser = get_parser(self.cfg, self.sock, self.client)
        self.parser.unreader = ReceivedData()
        self.initialized = True

    def close(self, graceful: bool = False) -> None:
        if graceful:
            self._linger(self)
        else:
            util.close(self.sock)


class WholeRequestWorker(ThreadWorker):
    """Receives requests in gunicorn's event loop; needs `self.app.settings`.

    A request may take `receive_seconds` to arrive and a pause in it PAUSE_SECONDS, and all requests together use at most
    `max_held_mb`. If all connections are in use, one that waits for no answer is closed for the next.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        settings = self.app.settings
        self.receive_seconds = settings.receive_seconds
        self.most_bytes = max(settings.max_body_mb, settings.max_tensor_body_mb) * MEBIBYTE
        self.most_held = settings.max_held_mb * MEBIBYTE
        self.held = 0
        # One receive buffer for all connections: separate ones would fragment the memory.
        self._piece = memoryview(bytearray(RECEIVE_BYTES))
        self.arriving: dict[Connection, IncomingRequest] = {}  # oldest first
        self.lingering: dict[Connection, float] = {}
        self._next_check = 0.0
        self._lacks_files = False

    def accept(self, listener: socket.socket) -> bool:
        """Accept one connection; False if there was none."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._lacks_files = True
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return False
        self.nr_conns += 1
        self.enqueue_req(Connection(self.cfg, client, address, listener.getsockname(), self._linger))
        return True

    def enqueue_req(self, conn: Connection) -> None:
        """Start to receive a request; gunicorn calls this for every connection that may send one."""
        self.arriving[conn] = IncomingRequest(self.most_bytes)
        try:
            conn.sock.setblocking(False)
            if not conn.initialized:
                conn.prepare()
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._receive, conn))
        except (OSError, ValueError):  # disconnected, or not TLS
            self._drop(conn)
            return
        rest = conn.parser.unreader.take_buffered()
        if rest:
            self._take(conn, rest)
        else:
            self._receive(conn, conn.sock)  # the request has often arrived by now

    def finish_request(self, conn: Connection, fs: Any) -> None:
        self.held -= conn.held
        conn.held = 0
        conn.parser.unreader.keep_rest()
        super().finish_request(conn, fs)

    def murder_pending(self) -> None:
        """Close slow connections; gunicorn calls this after each turn of its event loop, at least once a second.

        Connections are closed for others only here, where no event of theirs is left to be handled in the same turn.
        """
        if self._lacks_files and self.lingering:
            self._end_linger(next(iter(self.lingering)))
        elif self._lacks_files or (self.alive and self.nr_conns >= self.worker_connections):
            self._close_oldest()
        self._lacks_files = False
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_SECONDS
        for conn, incoming in list(self.arriving.items()):
            self._close_if_overdue(conn, incoming, now)
        for conn, end in list(self.lingering.items()):
            if now > end:
                self._end_linger(conn)

    def _close_if_overdue(self, conn: Connection, incoming: IncomingRequest, now: float) -> None:
        pause = PAUSE_SECONDS if self.alive or incoming.data else STOP_KEEPALIVE_LINGER
        if now - incoming.begun > self.receive_seconds and incoming.data:
            limit = f"did not arrive in {self.receive_seconds} seconds (DOGSNAP_RECEIVE_SECONDS)"
            self._refuse(conn, 408, _slow(limit))
        elif now - incoming.last > pause:
            self._receive(conn, conn.sock)  # this process may have been suspended, not the client
            if self.arriving.get(conn) is incoming and incoming.last <= now:
                self._close_idle(conn, incoming)

    def _close_idle(self, conn: Connection, incoming: IncomingRequest) -> None:
        if incoming.data:
            self._refuse(conn, 408, _slow(f"paused for {PAUSE_SECONDS:g} seconds"))
        else:
            self._drop(conn)

    def _close_oldest(self) -> None:
        """Close the connection that has been idle longest after its answer, or else the one that has been sending longest."""
        oldest = next(iter(self.arriving), None)
        if self.keepalived_conns:
            conn = self.keepalived_conns.popleft()
            self._unregister(conn)
            self._forget(conn)
            conn.close(graceful=True)
        elif oldest is not None:
            sentence = "the server has no connection left and this one has been sending longest; try again later"
            self._refuse(oldest, 503, sentence)

    def _receive(self, conn: Connection, _socket: Any) -> None:
        try:
            piece = self._piece[: conn.sock.recv_into(self._piece)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self._drop(conn)
            return
        if piece:
            self._take(conn, piece)
        elif self.arriving[conn].data:
            self.arriving[conn].cut()  # the client may still read the error
            self._hand_over(conn)
        else:
            self._drop(conn)

    def _take(self, conn: Connection, piece: bytes | memoryview) -> None:
        incoming = self.arriving[conn]
        is_new = not incoming.has_length()
        incoming.take(piece)
        self.held += len(piece)
        conn.held += len(piece)
        if is_new and incoming.has_length() and (full := self._refusal_if_full(incoming)):
            self._refuse_full(conn, full)
        elif incoming.is_done:
            self._hand_over(conn)
        elif incoming.has_endless_head():
            sentence = f"the request's head is longer than {MAX_HEAD} bytes; send a shorter path and fewer headers"
            self._refuse(conn, 431, sentence)
        elif self.held > self.most_held:
            most = f"{self.most_held // MEBIBYTE} MiB (DOGSNAP_MAX_HELD_MB)"
            self._refuse(conn, 503, f"the server holds {most} of requests already; try again later")
        elif incoming.expects_continue:
            incoming.expects_continue = False
            _send(conn, CONTINUE)

    def _refusal_if_full(self, incoming: IncomingRequest) -> str | None:
        """Refusals need no thread: at eight times the capacity, threads for them would take a core from accepted requests."""
        method, _, rest = bytes(incoming.data[: incoming.data.find(b"\r\n")]).decode("latin-1").partition(" ")
        return self.app.refusal_if_full(method, rest.partition(" ")[0].partition("?")[0])

    def _refuse_full(self, conn: Connection, sentence: str) -> None:
        """Refuse without a thread; keep the connection if the request is complete."""
        if not self.arriving[conn].may_be_followed():
            self._refuse(conn, 503, sentence)
            return
        del self.arriving[conn]
        self.arriving[conn] = IncomingRequest(self.most_bytes)  # now the newest of all
        self.held -= conn.held
        conn.held = 0
        _send(conn, json_error(503, sentence, "keep-alive"))

    def _hand_over(self, conn: Connection) -> None:
        incoming = self._stop_receiving(conn)
        conn.parser.unreader.fill(incoming.request())
        super().enqueue_req(conn)

    def _refuse(self, conn: Connection, status: int, sentence: str) -> None:
        self._stop_receiving(conn)
        self._forget(conn)
        _send(conn, json_error(status, sentence))
        conn.close(graceful=True)

    def _drop(self, conn: Connection) -> None:
        self._stop_receiving(conn)
        self._forget(conn)
        conn.close()

    def _stop_receiving(self, conn: Connection) -> IncomingRequest:
        self._unregister(conn)
        return self.arriving.pop(conn)

    def _forget(self, conn: Connection) -> None:
        self.nr_conns -= 1
        self.held -= conn.held
        conn.held = 0

    def _unregister(self, conn: Connection) -> None:
        with suppress(OSError, KeyError, ValueError):  # not registered, or closed
            self.poller.unregister(conn.sock)

    def _linger(self, conn: Connection) -> None:
        """Shut down sending, and discard what the client still sends (RFC 9112, section 9.6)."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._discard, conn))
        except (OSError, ValueError, KeyError):
            conn.close()
            return
        self.lingering[conn] = time.monotonic() + LINGER_SECONDS
        if len(self.lingering) > MAX_LINGERING:
            self._end_linger(next(iter(self.lingering)))

    def _discard(self, conn: Connection, _socket: Any) -> None:
        try:
            if not conn.sock.recv(RECEIVE_BYTES):
                self._end_linger(conn)
        except BlockingIOError:
            return
        except OSError:
            self._end_linger(conn)

    def _end_linger(self, conn: Connection) -> None:
        self._unregister(conn)
        self.lingering.pop(conn, None)
        conn.close()


def _slow(what: str) -> str:
    return f"the request {what}; send it again, over a better connection or smaller"


def _send(conn: Connection, data: bytes) -> None:
    try:
        conn.sock.send(data)
    except OSError:
        log.debug("a client disconnected before it was answered")
