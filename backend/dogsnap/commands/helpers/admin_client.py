"""A client of the administration API of a running server; failures become one-sentence errors."""

import getpass
from functools import cached_property
from typing import Any
from urllib.parse import quote

import requests

from dogsnap.commands.helpers.http_client import ask, json_object

TIMEOUT_SECONDS = 30.0


class Remote:
    """A client of a server's /api/admin. Failures raise NoAnswer, a click.ClickException."""

    def __init__(self, url: str, token: str, named: str):
        """`named`: the model; "" for the server's default model."""
        self.named = named
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, *parts: str, **query: str) -> dict[str, Any]:
        return json_object(self._ask("GET", parts, params=query))

    def text(self, *parts: str) -> str:
        """An answer that is no JSON."""
        response = self._ask("GET", parts)
        return response.text if response.ok else str(json_object(response))

    def post(self, *parts: str | int, **fields: Any) -> dict[str, Any]:
        return json_object(self._ask("POST", parts, json={**fields, "by": user()}))

    @cached_property
    def model(self) -> str:
        """The model's name."""
        return self.named or self.get("models")["default_model"]

    def described(self) -> dict[str, Any]:
        """The model with its versions, labels and what else is known of it."""
        return self.get("models", self.model)["model"]

    def switch(self, *parts: str | int, **fields: Any) -> dict[str, Any]:
        """Change the model."""
        return self.post("models", self.model, *parts, **fields)

    def _ask(self, method: str, parts: tuple[str | int, ...], **sent: Any) -> requests.Response:
        path = "/".join(quote(str(part), safe="") for part in ("api", "admin", *parts))
        return ask(method, f"{self._url}/{path}", TIMEOUT_SECONDS, headers=self._headers, **sent)


def user() -> str:
    """Who switches, for the log; in a container there may be no name for the user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
