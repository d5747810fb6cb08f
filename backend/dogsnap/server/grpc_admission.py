"""Admission of gRPC calls: bounds concurrent calls and the memory of their
messages, and cancels idle calls.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health

from dogsnap.errors import NoRoom
from dogsnap.server.bodies.receiving import RECEIVE_SECONDS, HeldMemory
from dogsnap.serving.metrics import COUNTED, Metrics

# Ask whether the server lives and is ready: as by HTTP they need no key, are in no rate,
# and are answered by a full server, too.
PROBES = (
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
)

PROTOCOL = "grpc"  # in the metrics
EXTRA_THREADS = 16  # threads in addition to the admitted calls: for calls being refused or evicted
# A message that is sent with its call has arrived by then, even on a busy machine.
GRACE_SECONDS = 1.0

Context: TypeAlias = grpc.ServicerContext


class AdmissionInterceptor(grpc.ServerInterceptor):
    """Admits at most `places` calls at a time and receives their messages; the
    server needs `threads` threads.

    grpcio waits for a call's message in one of its threads, without a time
    limit. So each method is registered as taking a stream of messages, which is
    the same on the wire and leaves the waiting to this class: if all places are
    taken, the call that has waited longest for its message is evicted, and no
    call waits longer than RECEIVE_SECONDS. An evicted call ends as CANCELLED,
    the only status that grpcio can set from another thread.
    """

    def __init__(self, places: int, memory: HeldMemory, metrics: Metrics):
        self.threads = places + EXTRA_THREADS
        self._places = places
        self._memory, self._metrics = memory, metrics
        self._active: set[Context] = set()
        self._waiting: dict[Context, float] = {}  # since when, oldest first
        self._lock = threading.Lock()
        self._handlers: dict[str, grpc.RpcMethodHandler] = {}

    def cancel_overdue(self) -> None:
        with self._lock:
            end = time.monotonic() - RECEIVE_SECONDS
            overdue = [call for call, since in self._waiting.items() if since < end]
            for context in overdue:
                self._evict(context)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        if details.method not in self._handlers:
            handler = continuation(details)
            if handler is None:  # unknown methods are not cached
                return None
            self._handlers[details.method] = self._receiving(handler, details.method)
        return self._handlers[details.method]

    def _receiving(self, handler: grpc.RpcMethodHandler, method: str) -> grpc.RpcMethodHandler:
        if handler.request_streaming:
            return self._stream(handler)
        is_probe = method.startswith(f"/{health.SERVICE_NAME}/") or method in PROBES
        behaviour = handler.unary_stream or handler.unary_unary

        def answer(
            messages: Iterator[bytes], context: Context, *send: Callable[[Any], None]
        ) -> Any:
            with (
                self._hold_place(context, is_probe),
                self._message(messages, context, handler) as request,
            ):
                return behaviour(request, context, *send)

        if not handler.response_streaming:
            return grpc.stream_unary_rpc_method_handler(answer, None, handler.response_serializer)
        # Health's Watch, which holds no thread between its responses: grpcio marks such
        # handlers by this.
        answer.experimental_non_blocking = True  # type: ignore[attr-defined]
        return grpc.stream_stream_rpc_method_handler(answer, None, handler.response_serializer)

    def _stream(self, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        """Reflection, which counts as waiting for its client for the whole call."""

        def answer(messages: Iterator[Any], context: Context) -> Iterator[Any]:
            with self._hold_place(context):
                requests = (self._read(data, handler, context) for data in messages)
                yield from handler.stream_stream(requests, context)

        return grpc.stream_stream_rpc_method_handler(answer, None, handler.response_serializer)

    @contextmanager
    def _hold_place(self, context: Context, is_probe: bool = False) -> Iterator[None]:
        if not self._admit(context, is_probe):
            sentence = (
                f"the server is busy: {self._places} calls are running, its limit; try again later"
            )
            self._metrics.refused.labels(PROTOCOL, "full").inc()
            self._refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, sentence)
        try:
            yield
        finally:
            with self._lock:
                self._active.discard(context)
                self._waiting.pop(context, None)

    def _admit(self, context: Context, is_probe: bool) -> bool:
        """A health probe is admitted even if no call can be evicted: it is
        answered at once.
        """
        with self._lock:
            is_free = len(self._active) < self._places or self._evict_oldest(
                0.0 if is_probe else GRACE_SECONDS
            )
            if is_free or is_probe:
                self._active.add(context)
                self._waiting[context] = time.monotonic()
            return is_free or is_probe

    def _evict_oldest(self, grace: float) -> bool:
        oldest = next(iter(self._waiting), None)
        if oldest is None or time.monotonic() - self._waiting[oldest] < grace:
            return False
        self._evict(oldest)
        return True

    def _evict(self, context: Context) -> None:
        self._active.discard(context)
        del self._waiting[context]
        context.cancel()  # wakes its thread

    @contextmanager
    def _message(
        self, messages: Iterator[bytes], context: Context, handler: grpc.RpcMethodHandler
    ) -> Iterator[Any]:
        """The call's request; its size counts against `max_held_mb` until the
        call is answered.
        """
        data = next(messages, None)
        with self._lock:
            is_here = self._waiting.pop(context, None) is not None
        if data is None or not is_here:
            sentence = "expected one message, received the end of the call"
            self._refuse(context, grpc.StatusCode.INVALID_ARGUMENT, sentence)
        size = len(data)
        try:
            self._memory.take(size)
        except NoRoom as error:
            self._refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, error.message)
        try:
            request = self._read(data, handler, context)
            del data
            yield request
        finally:
            self._memory.give_back(size)

    def _read(self, data: bytes, handler: grpc.RpcMethodHandler, context: Context) -> Any:
        try:
            return handler.request_deserializer(data)
        except DecodeError:
            sentence = (
                f"expected the request of this method, received {len(data)} bytes of "
                "something else; see its .proto"
            )
            self._refuse(context, grpc.StatusCode.INVALID_ARGUMENT, sentence)

    def _refuse(self, context: Context, code: grpc.StatusCode, sentence: str) -> NoReturn:
        COUNTED.set(False)  # this thread may have answered another call
        self._metrics.count_unread(PROTOCOL, code.name)
        context.abort(code, sentence)
        raise AssertionError("`abort` raises")
