"""The token by which tests administer a server, as a command of the same user finds it."""

from typing import Any
from urllib.parse import urlsplit

from dogsnap.admin_token import find_token

PATHS = ("/api/admin/", "/console/models", "/console/codes", "/metrics", "/monitoring/")


def token_of(server: Any) -> str:
    """What the server was started with, or wrote into its file; "" for one that runs elsewhere."""
    return getattr(server, "own_token", "") or find_token(urlsplit(server.url).port or 0)


def console_path(server: Any) -> str:
    """What `dogsnap console` opens, below the server's address."""
    code = server.post("/console/codes", json={}).json()["code"]
    return f"/console#code={code}"


def with_token(server: Any, path: str = PATHS[0]) -> dict[str, str]:
    """The headers of a request for `path`: the token where that administers."""
    token = token_of(server) if path.startswith(PATHS) else ""
    return {"Authorization": f"Bearer {token}"} if token else {}
