"""The errors of all protocols: small types with a canonical status code, which maps to HTTP and gRPC."""


class DogsnapError(Exception):
    """An error whose sentence is meant for the caller: what was expected, what was received, what to do.

    `code` is the canonical status name gRPC and TensorFlow Serving share; `http_status` is what TensorFlow Serving's
    HTTP server answers for that code, unless HTTP has a more exact number (413, 415).
    """

    code = "UNKNOWN"
    http_status = 500

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message


class InvalidArgument(DogsnapError):
    """The request itself is wrong and will stay wrong."""

    code = "INVALID_ARGUMENT"
    http_status = 400


class FailedPrecondition(DogsnapError):
    """The request is well formed, but what it asks of the server does not fit the server's state."""

    code = "FAILED_PRECONDITION"
    http_status = 400


class TooLarge(InvalidArgument):
    """The request passes a limit; the sentence names the limit and its setting."""

    http_status = 413


class UnsupportedPhoto(InvalidArgument):
    """The bytes are no photo that can be read."""

    http_status = 415


class UnsupportedMediaType(InvalidArgument):
    """The body is of a kind that this path does not take."""

    http_status = 415


class NotFound(DogsnapError):
    """The named model, version, label or path does not exist."""

    code = "NOT_FOUND"
    http_status = 404


class Aborted(DogsnapError):
    """What the request builds on was changed by somebody else meanwhile; look again before trying again."""

    code = "ABORTED"
    http_status = 409


class Unauthenticated(DogsnapError):
    """The request does not show who sends it, and has to."""

    code = "UNAUTHENTICATED"
    http_status = 401


class PermissionDenied(DogsnapError):
    """Whoever sends this request, from where it comes, may not."""

    code = "PERMISSION_DENIED"
    http_status = 403


class Unimplemented(DogsnapError):
    """The request asks for what no server of this kind does, like numbers of a type that JSON has no form for.

    The one 5xx that a request can bring about by itself: TensorFlow Serving's clients know it so.
    """

    code = "UNIMPLEMENTED"
    http_status = 501


class Cancelled(DogsnapError):
    """The client is gone before the answer was there."""

    code = "CANCELLED"
    http_status = 499


class DeadlineExceeded(DogsnapError):
    """The answer was not ready in time."""

    code = "DEADLINE_EXCEEDED"
    http_status = 504


class Unavailable(DogsnapError):
    """The server cannot answer now, but the same request may succeed after `retry_after` seconds."""

    code = "UNAVAILABLE"
    http_status = 503

    def __init__(self, message: str, retry_after: int = 1):
        super().__init__(message)
        self.retry_after = retry_after


class Full(Unavailable):
    """Every place is taken: this request was turned away before anything was done for it."""


class TooManyRequests(Unavailable):
    """This client has asked more often than it may; others are not concerned."""

    code = "RESOURCE_EXHAUSTED"
    http_status = 429


class Internal(DogsnapError):
    """A fault of the server; the details are in its log, never in the answer."""

    code = "INTERNAL"
    http_status = 500


class EngineFailed(Internal):
    """A fault of the engine that this server forwards to; the details are in this server's log, never in the answer."""

    http_status = 502
