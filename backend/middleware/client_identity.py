"""Client identity: the sticky key that assigns a client to a side of a split, and the request id. Shared by HTTP and gRPC."""

import re
import uuid
from collections.abc import Mapping

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
STICKY_HEADER = "X-Request-Key"


def sticky_key(headers: Mapping[str, str], address: str) -> str:
    """The sticky key that a client sends (one per user or device, for example), or else its address.

    Behind a proxy that is the address the proxy saw: otherwise all users of one proxy would be on one side.
    """
    forwarded = headers.get("X-Forwarded-For", "").partition(",")[0].strip()
    return headers.get(STICKY_HEADER) or forwarded or address


def request_id(headers: Mapping[str, str]) -> str:
    """The request id that the client sent, if it is valid, or a new one."""
    received = headers.get("X-Request-Id", "")
    return received if REQUEST_ID.fullmatch(received) else uuid.uuid4().hex
