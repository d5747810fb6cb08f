"""Parses the address of the engines:
`grpc://host:8500[,host:8500][?key=value]`, or `ray://...`.

It does not import gRPC, since the command line checks settings with it.
"""

import re
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl

from dogsnap.addresses import format_address
from dogsnap.errors import InvalidArgument, Unavailable

SCHEME, RAY_SCHEME = "grpc://", "ray://"  # the second: the gRPC proxies of Ray Serve
HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
KEY = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")  # gRPC's rule for keys of text metadata
EXPECTED = (
    "expected grpc://host:port[,host:port], optionally with ?key=value to send with every call; "
    "or ray://host:port for versions that `dogsnap deploy ray` serves"
)


@dataclass(frozen=True)
class Target:
    """`hosts`: (name or address, port); `metadata`: sent with every call, e.g.

    Ray Serve's `application`.
    """

    hosts: tuple[tuple[str, int], ...]
    metadata: tuple[tuple[str, str], ...] = ()
    is_ray: bool = False

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Raises InvalidArgument."""
        is_ray = text.startswith(RAY_SCHEME)
        scheme = RAY_SCHEME if is_ray else SCHEME
        addresses, _, query = text.removeprefix(scheme).partition("?")
        # A value behind the ?, or before an @, may be a secret.
        shown = "an address with @" if "@" in text else repr(text.partition("?")[0])
        refusal = f"--engine is {shown}; {EXPECTED}"
        if not text.startswith(scheme):
            raise InvalidArgument(refusal)
        hosts = []
        for address_text in addresses.rstrip("/").split(","):
            parts = HOST.fullmatch(address_text.strip())
            if not parts or not 0 < int(parts["port"]) < 65536:
                raise InvalidArgument(refusal)
            hosts.append((parts["name"].strip("[]"), int(parts["port"])))
        metadata = tuple(parse_qsl(query, keep_blank_values=True))
        for key, value in metadata:
            if not KEY.fullmatch(key) or not value.isprintable() or not value.isascii():
                raise InvalidArgument(
                    f"--engine sends along the key {key!r}; "
                    "expected a-z 0-9 _ . - and a value in ASCII"
                )
        return cls(tuple(hosts), metadata, is_ray)

    @property
    def has_names(self) -> bool:
        """Whether the addresses of a host may change."""
        for host, _ in self.hosts:
            try:
                ip_address(host)
            except ValueError:
                return True
        return False

    def __str__(self) -> str:
        return ", ".join(format_address(host, port) for host, port in self.hosts)


def is_ipv6(address: str) -> bool:
    return address.startswith("[")


def addresses_of(host: tuple[str, int]) -> list[str]:
    """All addresses of a host and port now, as "127.0.0.1:8500" or "[::1]:8500".

    Raises Unavailable.
    """
    name, port = host
    try:
        infos = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"the engine {name} has no address: {error}") from error
    return [format_address(str(info[4][0]), port) for info in infos]
