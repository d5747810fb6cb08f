"""How many threads and connections the HTTP and gRPC servers have."""

from dogsnap.settings import Settings

# Threads in addition to one per running or waiting request, so that health checks and
# metrics are answered at full load.
SPARE_THREADS = 8


def count_threads(settings: Settings) -> int:
    """Threads of each protocol's server: one for each request that may run or
    wait, and SPARE_THREADS.
    """
    return settings.run_threads + settings.queue_size + SPARE_THREADS


def grpc_connections(files: int) -> int:
    """How many connections gRPC accepts at `files` file descriptors, which HTTP
    and models need as well.

    A client needs one for all its calls.
    """
    return min(1000, files // 4)
