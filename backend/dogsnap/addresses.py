"""The addresses and URLs of the HTTP and gRPC servers."""

import re
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from socket import inet_aton
from urllib.parse import urlsplit

from dogsnap.errors import InvalidArgument
from dogsnap.settings import Settings

# What is an address without its scheme, or a wish, and would become the name of a file.
NO_FILE = re.compile(
    r"(//|.*@)?([\w.-]+|\[[\w:.]+\]):\d+(/\d*)?|rediss?:.*|\w+://.*"
    r"|(?i:localhost|redis|memory|sqlite|none|null|no|yes|on|off|true|false|disabled|enabled|\d[\d.]*|)"
)
WITH_PORT = re.compile(r"\[(?P<six>[^]]*)\](:\d+)?|(?P<four>[^:]+):\d+")
THIS_MACHINE = ("", "0.0.0.0", "::", "127.0.0.1")  # listen addresses that localhost reaches


def format_address(host: str, port: int) -> str:
    """Host and port as one text: 127.0.0.1:8500, [::1]:8500."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_url(settings: Settings) -> str:
    """The URL of a server with these settings, from this machine."""
    scheme = "https" if settings.tls_cert else "http"
    host = "localhost" if settings.host in THIS_MACHINE else settings.host
    return f"{scheme}://{format_address(host, settings.port)}"


def check_url(setting: str, url: str, schemes: Sequence[str], expected: str) -> None:
    """Raises InvalidArgument for a URL without its scheme or host, or whose password ends
    it early.

    The sentence holds nothing of it, since any part may be the password.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in schemes:
        raise InvalidArgument(f"{setting} has no scheme, or another one; {expected}")
    try:
        parts = urlsplit(url)
        is_read = bool(parts.hostname) and parts.port != 0  # one that is no number raises
        behind = parts.path + parts.query + parts.fragment
    except ValueError:
        is_read, behind = False, ""
    if not is_read or (not scheme.startswith("http") and "@" in behind):
        raise InvalidArgument(
            f"{setting} has no host and port that can be read; {expected}, with the signs "
            "/ ? # @ : of a user or password percent-encoded: %2F %3F %23 %40 %3A"
        )


def check_file_name(setting: str, name: str, expected: str) -> None:
    """Raises InvalidArgument for a name that nobody gives a file, without a word of it."""
    if NO_FILE.fullmatch(name.strip()):
        raise InvalidArgument(f"{setting} is no name of a file; {expected}")


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine: localhost, 127.0.0.2,
    127.1, [::1], 0.0.0.0.
    """
    name = host.strip("[]").rstrip(".").lower()
    try:
        address = ip_address(name if ":" in name else inet_aton(name))
    except (OSError, ValueError):
        return name == "localhost" or name.endswith(".localhost")
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def client_address(peer: str, forwarded: str, proxies: int) -> str:
    """What the outermost of our proxies saw, by X-Forwarded-For, or the peer's address;
    in one spelling, without a port.

    What stands further left may be invented, and a quote there hides nothing. Some
    proxies, such as Azure's and IIS, write the port of each connection.
    """
    seen = [part.strip() for part in forwarded.replace('"', "").split(",") if part.strip()]
    text = seen[-proxies] if 0 < proxies <= len(seen) else peer
    if match := WITH_PORT.fullmatch(text):
        text = match["six"] or match["four"]
    try:
        address = ip_address(text)
    except ValueError:
        return text
    return str((isinstance(address, IPv6Address) and address.ipv4_mapped) or address)


def proxies_of(url: str) -> dict[str, str] | None:
    """The `proxies` for `requests`: none for this machine, else None, which
    leaves them to the environment.
    """
    host = urlsplit(url).hostname or ""
    return {"http": "", "https": ""} if is_loopback(host) else None
