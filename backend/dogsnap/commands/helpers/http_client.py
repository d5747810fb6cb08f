"""A client for JSON over HTTP whose errors are sentences for the user of a command."""

import re
from typing import Any
from urllib.parse import urlsplit

import click
import requests

from dogsnap.addresses import proxies_of
from dogsnap.logs import escape_unprintable
from dogsnap.model_urls import without_secrets

TIMEOUT_SECONDS = 60.0
# OpenSSL's reason where the first answer is no TLS record, but HTTP for example
NOT_TLS = "WRONG_VERSION_NUMBER"


class _Session(requests.Session):
    """Reads no ~/.netrc, whose password would take the place of a token."""

    def rebuild_auth(self, prepared_request: Any, response: Any) -> None:
        if self.should_strip_auth(response.request.url, prepared_request.url):
            for name in ("Authorization", "X-Api-Key"):
                prepared_request.headers.pop(name, None)


class NoAnswer(click.ClickException):
    """The message, with which a command ends, says what went wrong and what to
    do, or is the server's own.
    """

    def format_message(self) -> str:
        return "\n".join(map(escape_unprintable, self.message.split("\n")))


def ask(method: str, url: str, timeout: float = TIMEOUT_SECONDS, **sent: Any) -> requests.Response:
    """Any answer of the server; `sent` as for `requests.request`.

    Raises NoAnswer if there is none.
    """
    if not url.startswith(("http://", "https://")):
        host = _host_of(url.rpartition("://")[2])
        raise NoAnswer(
            "the URL has no scheme, or another one; expected http:// or https:// before the "
            f"host, such as http://{host}"
        )
    server = _server_of(url)
    try:
        with _Session() as session:
            auth = requests.utils.get_auth_from_url(url)
            session.auth = auth if any(auth) else lambda request: request
            return session.request(method, url, timeout=timeout, proxies=proxies_of(url), **sent)
    except requests.Timeout:
        raise NoAnswer(f"{server} gave no answer within {timeout:g} seconds{_proxy(url)}") from None
    except requests.exceptions.SSLError as error:
        if NOT_TLS in str(error):
            raise NoAnswer(
                f"{server} does not speak TLS; if it is a server without HTTPS, ask it "
                f"at http{server.removeprefix('https')}"
            ) from None
        raise NoAnswer(
            f"{server} shows a certificate that is not trusted here: {error}; name its "
            "file by REQUESTS_CA_BUNDLE"
        ) from None
    except requests.exceptions.ProxyError:
        raise NoAnswer(f"{server} cannot be reached{_proxy(url)}") from None
    except requests.ConnectionError:
        raise NoAnswer(
            f"no server answers at {server}; start one with `dogsnap serve`, or name "
            f"another with --url{_proxy(url)}"
        ) from None
    except (requests.RequestException, ValueError) as error:
        raise NoAnswer(f"{server} cannot be asked: {without_secrets(str(error))}") from None


def _server_of(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{_host_of(rest)}"


def _host_of(address: str) -> str:
    """Without what may be a password, in which a slash may stand, and without path and query."""
    return re.split("[/?#]", address.rpartition("@")[2])[0]


def _proxy(url: str) -> str:
    """What to say of the proxy that the environment names for this URL; "" without one."""
    if proxies_of(url):
        return ""
    proxy = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    if not proxy:
        return ""
    address = proxy.rpartition("@")[2]  # without its password
    host = urlsplit(url).hostname
    return (
        f"; asked through the proxy {address} (http_proxy, https_proxy): add {host} to "
        "no_proxy to ask it directly"
    )


def json_object(response: requests.Response) -> dict[str, Any]:
    """The answer of a dogsnap server.

    Raises NoAnswer, with the server's message for an error status.
    """
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or (not response.ok and "error" not in body):
        answered = urlsplit(response.url)  # perhaps another server, which this one named
        server = f"{answered.scheme}://{answered.netloc.rpartition('@')[2]}"
        raise NoAnswer(
            f"{server} answers, but not as a dogsnap server does (status {response.status_code}); "
            f"expected a JSON object{_proxy(response.url)}"
        )
    if not response.ok:
        raise NoAnswer(str(body["error"]))
    return body
