"""Authorization of administration: the admin token, and nothing else."""

import hmac

from flask import request

from dogsnap.errors import PermissionDenied, Unauthenticated
from dogsnap.server.middleware.api_keys import digest
from dogsnap.server.middleware.headers import Headers
from dogsnap.settings import Settings

TOKEN = "--admin-token (DOGSNAP_ADMIN_TOKEN)"
WHERE = (
    "the server's user has it on its machine, in the file that the server's log names: "
    "`dogsnap models` reads it there, "
    f"`dogsnap console` opens the console with it; elsewhere set {TOKEN}"
)


def check_access(settings: Settings, headers: Headers) -> None:
    """Raises Unauthenticated or PermissionDenied unless `headers` contain the
    token.

    Addresses, Host, Origin and the headers of proxies say nothing: all of them
    can be a stranger's.
    """
    if not settings.admin_token:
        raise PermissionDenied(
            f"this server has no token, so that nobody can administer it; start it with {TOKEN}"
        )
    if not bearer(headers):
        raise Unauthenticated(
            "administering this server takes its token: "
            f"expected the header Authorization: Bearer <token>; {WHERE}"
        )
    if not knows_token(settings, headers):
        raise Unauthenticated(f"the token is not this server's; {WHERE}")


def check_request(settings: Settings) -> None:
    """The same for an HTTP request; what a browser asks before that of a page of another
    origin carries no token (Fetch, section 3.3.5).
    """
    if request.method != "OPTIONS":
        check_access(settings, request.headers)


def knows_token(settings: Settings, headers: Headers) -> bool:
    """Whether `headers` contain the token; False if none is set."""
    if not settings.admin_token:
        return False
    # Digests have one length, so that the time of the comparison reveals neither the
    # length nor the content of the token.
    received = digest(bearer(headers))
    return hmac.compare_digest(received, digest(settings.admin_token))


def bearer(headers: Headers) -> str:
    """The token or API key in the header Authorization: Bearer; "" for none."""
    scheme, _, received = headers.get("Authorization", "").partition(" ")
    return received.strip() if scheme.lower() == "bearer" else ""
