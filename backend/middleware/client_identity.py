"""Client identity: the sticky key that assigns a client to a side of a split, and the request id. Shared by HTTP and gRPC."""

import re
import uuid
from collections.abc import Mapping

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
KEY_HEADER = "X-Request-Key"


def request_key(headers: Mapping[str, str], address: str) -> str:
    """The key that a caller sends (for each user or device of its own, say), or else the address it comes from.

    Behind a proxy that is the address the proxy saw: all users of one proxy would be on one side otherwise.
    """
    forwarded = headers.get("X-Forwarded-For", "").partition(",")[0].strip()
    return headers.get(KEY_HEADER) or forwarded or address


def request_id(headers: Mapping[str, str]) -> str:
    """The id that the caller gave its request, if it is one, or a new one."""
    received = headers.get("X-Request-Id", "")
    return received if REQUEST_ID.fullmatch(received) else uuid.uuid4().hex
