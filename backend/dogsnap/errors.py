"""The errors of all protocols: small types with a canonical status code, which
maps to HTTP and gRPC.

The whole hierarchy, with the code of gRPC and the status of HTTP:

DogsnapError                UNKNOWN              500
  x InvalidArgument         INVALID_ARGUMENT     400
    · TooLarge              INVALID_ARGUMENT     413
    · TooSlow               INVALID_ARGUMENT     408
    · UnsupportedPhoto      INVALID_ARGUMENT     415
    · PhotoRefused          INVALID_ARGUMENT     422
    · UnsupportedMediaType  INVALID_ARGUMENT     415
  x FailedPrecondition      FAILED_PRECONDITION  400
  x NotFound                NOT_FOUND            404
  x Aborted                 ABORTED              409
  x AlreadyExists           ALREADY_EXISTS       409
  x Unauthenticated         UNAUTHENTICATED      401
  x PermissionDenied        PERMISSION_DENIED    403
  x Unimplemented           UNIMPLEMENTED        501
  x Cancelled               CANCELLED            499
  x DeadlineExceeded        DEADLINE_EXCEEDED    504
  x Unavailable             UNAVAILABLE          503, with Retry-After
    · NoRoom                RESOURCE_EXHAUSTED   503
    · Full                  UNAVAILABLE          503
    · TooManyRequests       RESOURCE_EXHAUSTED   429
  x Internal                INTERNAL             500
    · EngineFailed          INTERNAL             502
"""


class DogsnapError(Exception):
    """An error whose message is for the client: what was expected, what was
    received, what to do.

    `code` is the canonical status code of gRPC and TensorFlow Serving;
    `http_status` is that of TensorFlow Serving's HTTP server for this code,
    unless HTTP has a more specific one (413, 415). A subclass names those that
    differ from its base's.
    """

    code = "UNKNOWN"
    http_status = 500

    def __init_subclass__(cls, code: str = "", http_status: int = 0) -> None:
        cls.code = code or cls.code
        cls.http_status = http_status or cls.http_status

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message


class InvalidArgument(DogsnapError, code="INVALID_ARGUMENT", http_status=400):
    """The request is wrong, whatever the state of the server."""


class FailedPrecondition(DogsnapError, code="FAILED_PRECONDITION", http_status=400):
    """The request is valid, but cannot be carried out in the server's current state."""


class TooLarge(InvalidArgument, http_status=413):
    """The request exceeds a limit; the message names the limit and its setting."""


class TooSlow(InvalidArgument, http_status=408):
    """The request did not arrive in time."""


class UnsupportedPhoto(InvalidArgument, http_status=415):
    """The bytes are not a readable photo."""


class PhotoRefused(InvalidArgument, http_status=422):
    """The photo did not pass the content check."""


class UnsupportedMediaType(InvalidArgument, http_status=415):
    """The body has a media type that this route does not accept."""


class NotFound(DogsnapError, code="NOT_FOUND", http_status=404):
    """The named model, version, label or path does not exist."""


class Aborted(DogsnapError, code="ABORTED", http_status=409):
    """A concurrent change conflicts with the request."""


class AlreadyExists(DogsnapError, code="ALREADY_EXISTS", http_status=409):
    """What the request would make is there already."""


class Unauthenticated(DogsnapError, code="UNAUTHENTICATED", http_status=401):
    """The request needs valid credentials."""


class PermissionDenied(DogsnapError, code="PERMISSION_DENIED", http_status=403):
    """The client may not make this request."""


class Unimplemented(DogsnapError, code="UNIMPLEMENTED", http_status=501):
    """The server does not support what is requested, e.g. a number type that
    JSON cannot represent.

    The only 5xx that a request can cause by itself, for compatibility with
    TensorFlow Serving's clients.
    """


class Cancelled(DogsnapError, code="CANCELLED", http_status=499):
    """The client disconnected before the answer was ready."""


class DeadlineExceeded(DogsnapError, code="DEADLINE_EXCEEDED", http_status=504):
    """The answer was not ready in time."""


class Unavailable(DogsnapError, code="UNAVAILABLE", http_status=503):
    """The server cannot answer now, but the same request may succeed after
    `retry_after` seconds.
    """

    def __init__(self, message: str, retry_after: int = 1):
        super().__init__(message)
        self.retry_after = retry_after


class NoRoom(Unavailable, code="RESOURCE_EXHAUSTED"):
    """The memory for requests and answers is in use."""


class Full(Unavailable):
    """The server is full: the request was refused before any work was done."""


class TooManyRequests(Unavailable, code="RESOURCE_EXHAUSTED", http_status=429):
    """The client exceeded a rate limit."""


class Internal(DogsnapError, code="INTERNAL", http_status=500):
    """A fault of the server; the details are only in its log."""


class EngineFailed(Internal, http_status=502):
    """A fault of the engine behind the gateway; the details are only in the
    gateway's log.
    """
