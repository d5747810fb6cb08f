"""The addresses and URLs of the HTTP and gRPC servers, and how many threads each has."""

from backend.settings import Settings

# Threads beyond those that can hold a running or waiting request, so that health checks and metrics answer at full load.
SPARE_THREADS = 8
THIS_MACHINE = ("", "0.0.0.0", "::", "127.0.0.1")  # what a server listens on that localhost reaches


def address(host: str, port: int) -> str:
    """As servers take it: 127.0.0.1:8500, [::1]:8500."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_url(settings: Settings) -> str:
    """Where the HTTP door of a server with these settings is reached from this machine."""
    scheme = "https" if settings.tls_cert else "http"
    host = "localhost" if settings.host in THIS_MACHINE else settings.host
    return f"{scheme}://{address(host, settings.port)}"


def threads(settings: Settings) -> int:
    """How many a door has: one for each request that may run or wait, and some to spare."""
    return settings.run_threads + settings.queue_size + SPARE_THREADS
