"""Parses the address of the engines: `grpc://host:8500[,host:8500][?key=value]`, or `ray://...`.

It does not import gRPC, since the command line checks settings with it.
"""

import re
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl

from dogsnap.addresses import address
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
    """`hosts`: (name or address, port); `metadata`: sent with every call, e.g. Ray Serve's `application`."""

    hosts: tuple[tuple[str, int], ...]
    metadata: tuple[tuple[str, str], ...] = ()
    is_ray: bool = False

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Raises InvalidArgument."""
        is_ray = text.startswith(RAY_SCHEME)
        scheme = RAY_SCHEME if is_ray else SCHEME
        places, _, query = text.removeprefix(scheme).partition("?")
        found = [HOST.fullmatch(place.strip()) for place in places.rstrip("/").split(",")]
        hosts = [host for host in found if host and 0 < int(host["port"]) < 65536]
        if not text.startswith(scheme) or len(hosts) < len(found):
            raise InvalidArgument(
                f"--engine is {text.partition('?')[0]!r}; {EXPECTED}"
            )  # a value may be a secret
        metadata = tuple(parse_qsl(query, keep_blank_values=True))
        for key, value in metadata:
            if not KEY.fullmatch(key) or not value.isprintable() or not value.isascii():
                raise InvalidArgument(
                    f"--engine sends along the key {key!r}; expected a-z 0-9 _ . - and a value in ASCII"
                )
        pairs = [(host["name"].strip("[]"), int(host["port"])) for host in hosts]
        return cls(tuple(pairs), metadata, is_ray)

    def address(self) -> str:
        """The target in gRPC's form. Raises Unavailable for a name without an address.

        gRPC resolves a single name repeatedly, to all of its addresses; a list may only have addresses, found here, once.
        """
        if len(self.hosts) == 1:
            try:
                ip_address(self.hosts[0][0])
            except ValueError:
                return f"dns:///{address(*self.hosts[0])}"
        places = []
        for found in self.addresses():
            places += found
        family = 6 if any(place.startswith("[") for place in places) else 4
        if family == 6:
            places = [
                place if place.startswith("[") else f"[::ffff:{place.replace(':', ']:')}"
                for place in places
            ]
        return f"ipv{family}:{','.join(dict.fromkeys(places))}"

    def addresses(self) -> list[list[str]]:
        """All addresses of each host now, as "127.0.0.1:8500" or "[::1]:8500". Raises Unavailable."""
        addresses = []
        for host, port in self.hosts:
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                raise Unavailable(f"the engine {host} has no address: {error}") from error
            addresses.append([address(str(where[0]), port) for *_, where in found])
        return addresses

    def __str__(self) -> str:
        return ", ".join(address(*host) for host in self.hosts)
