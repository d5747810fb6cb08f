"""Tells callers apart, so that each stays on one side of a split; HTTP and gRPC ask alike.

It does not know who anybody is: any text that stays the same will do.
"""

from collections.abc import Mapping

KEY_HEADER = "X-Request-Key"


def request_key(headers: Mapping[str, str], address: str) -> str:
    """The key that a caller sends (for each user or device of its own, say), or else the address it comes from.

    Behind a proxy that is the address the proxy saw: all users of one proxy would be on one side otherwise.
    """
    forwarded = headers.get("X-Forwarded-For", "").partition(",")[0].strip()
    return headers.get(KEY_HEADER) or forwarded or address
