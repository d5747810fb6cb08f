"""The answer to a gRPC call on its way from a replica to the router, with the message as bytes, and the call's context."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """The serialized response if `code` is OK, else the name of a gRPC status code and its message."""

    code: str = "OK"
    message: str = ""
    response: bytes = b""

    def SerializeToString(self) -> bytes:
        """Called by Ray's proxy."""
        return self.response


@dataclass
class CallContext:
    """The part of grpc.ServicerContext that PredictionService uses, for a call that arrived at another node."""

    seconds: float
    is_gone: bool = False  # the client has disconnected

    def time_remaining(self) -> float:
        return self.seconds

    def is_active(self) -> bool:
        return not self.is_gone
