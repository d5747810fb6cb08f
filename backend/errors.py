"""The errors of all protocols: small types with a canonical status code, which maps to HTTP and gRPC."""


class DogsnapError(Exception):
    """An error whose message is for the client: what was expected, what was received, what to do.

    `code` is the canonical status code of gRPC and TensorFlow Serving; `http_status` is that of TensorFlow Serving's HTTP
    server for this code, unless HTTP has a more specific one (413, 415).
    """

    code = "UNKNOWN"
    http_status = 500

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message


class InvalidArgument(DogsnapError):
    """The request is wrong, whatever the state of the server."""

    code = "INVALID_ARGUMENT"
    http_status = 400


class FailedPrecondition(DogsnapError):
    """The request is valid, but cannot be carried out in the server's current state."""

    code = "FAILED_PRECONDITION"
    http_status = 400


class TooLarge(InvalidArgument):
    """The request exceeds a limit; the message names the limit and its setting."""

    http_status = 413


class TooSlow(InvalidArgument):
    """The request did not arrive in time."""

    http_status = 408


class UnsupportedPhoto(InvalidArgument):
    """The bytes are not a readable photo."""

    http_status = 415


class PhotoRefused(InvalidArgument):
    """The photo did not pass the content check."""

    http_status = 422


class UnsupportedMediaType(InvalidArgument):
    """The body has a media type that this route does not accept."""

    http_status = 415


class NotFound(DogsnapError):
    """The named model, version, label or path does not exist."""

    code = "NOT_FOUND"
    http_status = 404


class Aborted(DogsnapError):
    """A concurrent change conflicts with the request."""

    code = "ABORTED"
    http_status = 409


class AlreadyExists(DogsnapError):
    """What the request would make is there already."""

    code = "ALREADY_EXISTS"
    http_status = 409


class Unauthenticated(DogsnapError):
    """The request needs valid credentials."""

    code = "UNAUTHENTICATED"
    http_status = 401


class PermissionDenied(DogsnapError):
    """The client may not make this request."""

    code = "PERMISSION_DENIED"
    http_status = 403


class Unimplemented(DogsnapError):
    """The server does not support what is requested, e.g. a number type that JSON cannot represent.

    The only 5xx that a request can cause by itself, for compatibility with TensorFlow Serving's clients.
    """

    code = "UNIMPLEMENTED"
    http_status = 501


class Cancelled(DogsnapError):
    """The client disconnected before the answer was ready."""

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
    """The server is full: the request was refused before any work was done."""


class TooManyRequests(Unavailable):
    """The client exceeded a rate limit."""

    code = "RESOURCE_EXHAUSTED"
    http_status = 429


class Internal(DogsnapError):
    """A fault of the server; the details are only in its log."""

    code = "INTERNAL"
    http_status = 500


class EngineFailed(Internal):
    """A fault of the engine behind the gateway; the details are only in the gateway's log."""

    http_status = 502
