"""Client identity: the sticky key that assigns a client to a side of a split, and the request id. Shared by HTTP and gRPC."""

import re
import secrets
import uuid
from collections.abc import Callable, Mapping

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
STICKY_HEADER = "X-Request-Key"


def sticky_key(headers: Mapping[str, str], address: str) -> str:
    """The sticky key that a client sends (one per user or device, for example), or else `address`, its `client_address`."""
    return headers.get(STICKY_HEADER) or address


def client_address(headers: Mapping[str, str], address: str, trusted_proxies: int) -> str:
    """The address that the outermost of so many proxies saw, for a call that came in from `address`.

    Whatever stands further left in X-Forwarded-For was sent by the client, and may say anything.
    """
    forwarded = [each.strip() for each in headers.get("X-Forwarded-For", "").split(",") if each.strip()]
    return forwarded[-trusted_proxies] if 0 < trusted_proxies <= len(forwarded) else address


def new_id() -> str:
    return uuid.uuid4().hex


def new_number() -> str:
    """A shorter request id, of 16 hexadecimal digits: it leaves room for what feedback signs behind it."""
    return secrets.token_hex(8)


def request_id(headers: Mapping[str, str], make: Callable[[], str] = new_id) -> str:
    """The request id that the client sent, if it is valid, or a new one."""
    received = headers.get("X-Request-Id", "")
    return received if REQUEST_ID.fullmatch(received) else make()
