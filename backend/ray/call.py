"""A gRPC call on its way from the router to a replica, with messages as bytes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A call: method name, serialized request, the client's metadata and address, and the timeout in seconds."""

    method: str
    request: bytes
    metadata: tuple[tuple[str, str | bytes], ...] = ()
    peer: str = ""
    seconds: float = 30.0


@dataclass(frozen=True)
class Answer:
    """The serialized response if `code` is OK, else the name of a gRPC status code and its message."""

    code: str = "OK"
    message: str = ""
    response: bytes = b""

    def SerializeToString(self) -> bytes:
        """Called by Ray's proxy."""
        return self.response


class CallContext:
    """The part of grpc.ServicerContext that the servicers use, for a call that arrived at another node."""

    def __init__(self, call: Call):
        self._call = call
        self._gone = False

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self._call.metadata

    def peer(self) -> str:
        return self._call.peer

    def time_remaining(self) -> float:
        return self._call.seconds

    def is_active(self) -> bool:
        return not self._gone

    def leave(self) -> None:
        """The client has disconnected."""
        self._gone = True
