"""The TLS certificate of the gRPC server, from files; gunicorn handles HTTPS."""

from pathlib import Path

import grpc

from backend.settings import Settings


def open_port(server: grpc.Server, address: str, settings: Settings) -> None:
    """Bind the port of a gRPC server. Raises RuntimeError if it cannot be bound."""
    if settings.tls_cert:
        pair = (Path(settings.tls_key).read_bytes(), Path(settings.tls_cert).read_bytes())
        server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    else:
        server.add_insecure_port(address)
