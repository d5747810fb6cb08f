"""A client of the administration API of a running server; failures become
one-sentence errors.
"""

import functools
import getpass
from collections.abc import Callable
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from dogsnap.addresses import is_loopback, local_url
from dogsnap.admin_token import find_token
from dogsnap.commands.helpers.arguments import option
from dogsnap.commands.helpers.http_client import ask, json_object
from dogsnap.settings import Settings, options

TIMEOUT_SECONDS = 30.0


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a command the running server as its first argument, from --url and
    --admin-token, and its model if it has one.
    """

    @functools.wraps(command)
    def with_server(url: str, admin_token: str | None, model: str = "", **arguments: Any) -> Any:
        settings = Settings.from_environment(admin_token=admin_token)
        token = settings.admin_token or find_token(port_here(url, settings))
        return command(Remote(url or local_url(settings), token, model), **arguments)

    url = option(
        "--url", "URL of the server, if not the one on this machine at DOGSNAP_PORT", default=""
    )
    return url(options("admin_token")(with_server))


def port_here(url: str, settings: Settings) -> int:
    """The port of a server on this machine; 0 for one elsewhere, which is not
    to see the token of this one.
    """
    if not url:
        return settings.port
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
    except ValueError:  # what is wrong with it is said when it is asked
        return 0
    return port if is_loopback(parts.hostname or "") else 0


class Remote:
    """A client of a server's /api/admin.

    Failures raise NoAnswer, a click.ClickException.
    """

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
        """Flags, which are true or false, are sent if they are true."""
        sent = {name: value for name, value in fields.items() if value is not False}
        return json_object(self._ask("POST", parts, json={**sent, "by": user()}))

    def console_link(self) -> str:
        """The address of the console with a code that logs its page in, once."""
        console = f"{self._url}/console"
        response = ask("POST", f"{console}/codes", TIMEOUT_SECONDS, headers=self._headers, json={})
        return f"{console}#code={json_object(response)['code']}"

    @cached_property
    def model(self) -> str:
        """The model's name."""
        return self.named or self.get("models")["default_model"]

    def describe_model(self) -> dict[str, Any]:
        """The model with its versions, labels and what else is known of it."""
        return self.get("models", self.model)["model"]

    def switch(self, *parts: str | int, **fields: Any) -> dict[str, Any]:
        """Change the model."""
        return self.post("models", self.model, *parts, **fields)

    def _ask(self, method: str, parts: tuple[str | int, ...], **sent: Any) -> requests.Response:
        path = "/".join(quote(str(part), safe="") for part in parts)
        url = f"{self._url}/api/admin/{path}"
        return ask(method, url, TIMEOUT_SECONDS, headers=self._headers, **sent)


def user() -> str:
    """Who switches, for the log; in a container there may be no name for the user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
