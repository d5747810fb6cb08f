"""Authorization of administration: the admin token, or without one a request from this machine."""

import hmac
import ipaddress
import re
from collections.abc import Mapping

from dogsnap.errors import PermissionDenied, Unauthenticated
from dogsnap.server.middleware.api_keys import digest
from dogsnap.settings import Settings

TOKEN = "--admin-token (dogsnap model-server: DOGSNAP_ADMIN_TOKEN in its environment)"
# Set by proxies: the address that the server sees is then the proxy's and not the client's.
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via")


def check_access(settings: Settings, address: str, headers: Mapping[str, str]) -> None:
    """Raises Unauthenticated or PermissionDenied unless a request with `headers` from `address` may administer.

    A token alone decides, if one is set: no page of another site knows it. Without one, the server must listen on loopback, and
    the request come from this machine, through no proxy, and from no page of another site.
    """
    if settings.admin_token:
        _check_token(settings, headers)
        return
    if not is_loopback(settings.host):
        raise PermissionDenied(
            f"this server listens on {settings.host or 'every interface'} and has no token, so it cannot be administered; "
            f"start it with {TOKEN}, or with --host 127.0.0.1 (DOGSNAP_HOST)"
        )
    if not is_loopback(address):
        raise PermissionDenied(
            f"only this machine may administer this server, the request came from {address}; set {TOKEN}"
        )
    for name in FORWARDED:
        if name in headers:
            raise PermissionDenied(
                f"the request came through a proxy ({name}), so that its sender is unknown; set {TOKEN}"
            )
    _check_own_page(headers)


def check_metrics_access(settings: Settings, address: str, headers: Mapping[str, str]) -> None:
    """Raises Unauthenticated or PermissionDenied unless a program on this machine sends the request, or it has the token.

    A page in a browser on this machine does not count: with CORS enabled, any site could read the metrics through it.
    """
    if knows_token(settings, headers):
        return
    if is_loopback(address) and not any(name in headers for name in FORWARDED):
        _check_own_page(headers)
    elif settings.admin_token:
        _check_token(settings, headers)
    else:
        raise PermissionDenied(
            f"only this machine may read the metrics, the request came from {address}; set {TOKEN}"
        )


def knows_token(settings: Settings, headers: Mapping[str, str]) -> bool:
    """Whether `headers` contain the token; False if none is set."""
    # Digests have one length, so that the time of the comparison reveals neither the length nor the content of the token.
    return bool(settings.admin_token) and hmac.compare_digest(
        digest(bearer(headers)), digest(settings.admin_token)
    )


def _check_token(settings: Settings, headers: Mapping[str, str]) -> None:
    if not bearer(headers):
        raise Unauthenticated(
            "administering this server takes its token: expected the header Authorization: Bearer <token>"
        )
    if not knows_token(settings, headers):
        raise Unauthenticated(
            "the token is not this server's; expected the one it was started with by " + TOKEN
        )


def bearer(headers: Mapping[str, str]) -> str:
    """The token or API key in the header Authorization: Bearer; "" for none."""
    scheme, _, received = headers.get("Authorization", "").partition(" ")
    return received.strip() if scheme.lower() == "bearer" else ""


def _check_own_page(headers: Mapping[str, str]) -> None:
    """A browser on this machine sends requests of any site: with its Origin, or by DNS rebinding with its name as Host."""
    host = headers.get("Host", "")
    if host and not is_loopback(re.sub(r":\d*$", "", host)):
        raise PermissionDenied(
            f"the request names the host {host}; expected localhost or 127.0.0.1, or set {TOKEN}"
        )
    origin = headers.get("Origin", "")
    if origin and origin.lower().partition("://")[2] != host.lower():
        raise PermissionDenied(
            f"the request comes from a page of {origin}; expected one of this server, or none"
        )
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise PermissionDenied(
            "the request comes from a page of another site; expected one of this server, or none"
        )


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
