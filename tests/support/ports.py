"""Ports of this machine for servers of the tests, and how long one may take to start."""

import os
import random
import socket

START_SECONDS = 600  # importing TensorFlow on a busy machine takes its time
# Below the ports that Linux hands out by itself (from 32768), so that no other socket takes one before its server does; each of
# the test processes that run side by side (gw0, gw1, ...) has its own thousand.
FIRST = 12_000 + 1000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
UNUSED_PORTS = random.SystemRandom().sample(range(FIRST, FIRST + 1000), 1000)


# An environment whose proxy is one that nobody runs.
LOST_PROXY = dict.fromkeys(("http_proxy", "https_proxy"), "http://user:secret@127.0.0.1:9")
LOST_PROXY |= {name.upper(): value for name, value in LOST_PROXY.items()}
LOST_PROXY |= {"no_proxy": "", "NO_PROXY": ""}


def listens(port: int) -> bool:
    """Whether something on this machine takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that nothing listens on; none is given twice, so that a server that is still starting keeps its own."""
    while True:
        port = UNUSED_PORTS.pop()
        if not listens(port):
            return port
