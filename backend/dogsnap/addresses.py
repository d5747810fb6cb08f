"""The addresses and URLs of the HTTP and gRPC servers."""

from ipaddress import IPv6Address, ip_address
from socket import inet_aton
from urllib.parse import urlsplit

from dogsnap.settings import Settings

THIS_MACHINE = ("", "0.0.0.0", "::", "127.0.0.1")  # listen addresses that localhost reaches


def format_address(host: str, port: int) -> str:
    """Host and port as one text: 127.0.0.1:8500, [::1]:8500."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_url(settings: Settings) -> str:
    """The URL of a server with these settings, from this machine."""
    scheme = "https" if settings.tls_cert else "http"
    host = "localhost" if settings.host in THIS_MACHINE else settings.host
    return f"{scheme}://{format_address(host, settings.port)}"


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


def proxies_of(url: str) -> dict[str, str] | None:
    """The `proxies` for `requests`: none for this machine, else None, which
    leaves them to the environment.
    """
    host = urlsplit(url).hostname or ""
    return {"http": "", "https": ""} if is_loopback(host) else None
