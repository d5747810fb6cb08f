"""A client for JSON over HTTP whose errors are sentences for the user of a command."""

from typing import Any

import click
import requests

TIMEOUT_SECONDS = 60.0
NOT_TLS = "WRONG_VERSION_NUMBER"  # OpenSSL's reason where the first answer is no TLS record, but HTTP for example


class NoAnswer(click.ClickException):
    """The message, with which a command ends, says what went wrong and what to do, or is the server's own."""


def ask(method: str, url: str, timeout: float = TIMEOUT_SECONDS, **sent: Any) -> requests.Response:
    """Any answer of the server; `sent` as for `requests.request`. Raises NoAnswer if there is none."""
    if not url.startswith(("http://", "https://")):
        host = url.partition("/")[0]
        raise NoAnswer(
            f"the URL starts with {host!r}; expected http:// or https:// before it, such as http://{host}"
        )
    server = "/".join(url.split("/")[:3])
    try:
        return requests.request(method, url, timeout=timeout, **sent)
    except requests.Timeout:
        raise NoAnswer(f"{server} gave no answer within {timeout:g} seconds") from None
    except requests.exceptions.SSLError as error:
        if NOT_TLS in str(error):
            raise NoAnswer(
                f"{server} does not speak TLS; if it is a server without HTTPS, ask it at http{server.removeprefix('https')}"
            ) from None
        raise NoAnswer(
            f"{server} shows a certificate that is not trusted here: {error}; name its file by REQUESTS_CA_BUNDLE"
        ) from None
    except requests.ConnectionError:
        raise NoAnswer(
            f"no server answers at {server}; start one with `dogsnap serve`, or name another with --url"
        ) from None
    except requests.RequestException as error:
        raise NoAnswer(f"{server} cannot be asked: {error}") from None


def json_object(response: requests.Response) -> dict[str, Any]:
    """The answer of a dogsnap server. Raises NoAnswer, with the server's message for an error status."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or (not response.ok and "error" not in body):
        server = "/".join(response.url.split("/")[:3])
        raise NoAnswer(
            f"{server} answers, but not as a dogsnap server does (status {response.status_code}); expected a JSON object"
        )
    if not response.ok:
        raise NoAnswer(str(body["error"]))
    return body
