"""The nginx configuration of `deploy/`: what it keeps away from the server, and what it passes on."""

import contextlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, takewhile
from pathlib import Path

import pytest
import requests
from support.ports import free_port, listens
from support.process_readings import most_seconds
from support.waiting import wait_until
from test_connections import many_files  # noqa: F401 (a fixture)
from test_tls import certificate  # noqa: F401 (a fixture)

DEPLOY = Path(__file__).parents[2] / "backend" / "deploy"
CONFIGURATION = DEPLOY / "nginx.conf"
MANIFEST = DEPLOY / "overlays" / "fleet" / "gateway.yaml"
CONNECTIONS = 1500
PREDICT = "/v1/models/half:predict"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not shutil.which("nginx"), reason="nginx is missing: apt-get install nginx-light"
    ),
]


class Proxy:
    """nginx with the configuration of `deploy/`; all clients have one address here, which may hold all connections."""

    def __init__(self, server, files: tuple[Path, Path], folder: Path):
        self.port, self.files, self.folder = free_port(), files, folder
        self._configure(server)
        command = [
            "nginx",
            "-p",
            folder,
            "-e",
            folder / "errors.log",
            "-c",
            folder / "nginx.conf",
            "-g",
            "daemon off;",
        ]
        self.process = subprocess.Popen(command)

    def _configure(self, *servers) -> None:
        text = CONFIGURATION.read_text(encoding="utf-8")
        for old, new in {
            "server 127.0.0.1:8501 ": "".join(
                f"server 127.0.0.1:{each.port};" for each in servers[1:]
            )
            + f"server 127.0.0.1:{servers[0].port} ",
            "listen 8443": f"listen 127.0.0.1:{self.port}",
            "/etc/nginx/dogsnap/fullchain.pem": self.files[0],
            "/etc/nginx/dogsnap/privkey.pem": self.files[1],
            "limit_conn clients 64": "limit_conn clients 4000",
            "/tmp/nginx": self.folder / "nginx",
        }.items():
            assert old in text
            text = text.replace(old, str(new))
        (self.folder / "nginx.conf").write_text(text, encoding="utf-8")

    def pass_to(self, *servers) -> None:
        """From now on, to these; requests in progress are finished where they are."""
        self._configure(*servers)
        self.process.send_signal(signal.SIGHUP)

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return ssl.create_default_context(cafile=str(self.files[0])).wrap_socket(
            plain, server_hostname="localhost"
        )

    def predict(self) -> float:
        """How long an answer takes, in seconds."""
        begun = time.monotonic()
        url = f"https://localhost:{self.port}{PREDICT}"
        answer = requests.post(
            url, json={"instances": [2.0]}, timeout=60, verify=str(self.files[0])
        )
        assert answer.json() == {"predictions": [2.0]}
        return time.monotonic() - begun


@pytest.fixture(scope="module")
def proxy(start_server, half_models, certificate, tmp_path_factory) -> Iterator[Proxy]:  # noqa: F811
    server = start_server(half_models, "--trusted-proxies", "1", "--access-log")
    proxy = Proxy(server, certificate, tmp_path_factory.mktemp("nginx"))
    wait_until(lambda: listens(proxy.port))
    yield proxy
    proxy.process.terminate()
    proxy.process.wait(60)


def test_more_connections_than_the_server_has_threads_delay_no_other(proxy, many_files):  # noqa: F811
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), timeout=60))
        seconds = [proxy.predict() for _ in range(20)]
    print(
        f"{CONNECTIONS} idle connections: the slowest other answer took {1000 * max(seconds):.0f} ms"
    )
    assert max(seconds) < most_seconds(1)


@pytest.mark.parametrize("body", [True, False], ids=["bodies", "heads"])
def test_clients_that_drip_delay_no_other_and_are_closed(proxy, body):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n"
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(proxy.connect()) for _ in range(200)]
        for client in clients:
            client.sendall((head + ("\r\n{" if body else "X-A: ")).encode())

        def drip() -> None:
            while not stop.wait(0.5):
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.send(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            seconds = [proxy.predict() for _ in range(50)]
        finally:
            stop.set()
            thread.join()
        print(f"200 dripping clients: the slowest other answer took {1000 * max(seconds):.0f} ms")
        assert max(seconds) < most_seconds(1)
        client = clients[0]
        with contextlib.suppress(OSError):
            assert not b"".join(iter(lambda: client.recv(65536), b"")).startswith(b"HTTP/1.1 200")


def test_a_head_without_end_and_a_body_that_is_too_large_are_refused(proxy):
    for request, status in (
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 10_000, b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n", b"413"),
    ):
        with proxy.connect() as client:
            with contextlib.suppress(OSError):
                client.sendall(request)
            assert client.recv(4096).split()[1] == status


def test_no_request_is_refused_while_servers_are_replaced_one_by_one(
    proxy, start_server, half_models
):
    """As in a cluster: requests come for some seconds more to a server that is to end, and preStop lets it answer them."""
    pre_stop = int(
        re.search(r'preStop.*\[sleep, "(\d+)"\]', MANIFEST.read_text(encoding="utf-8"))[1]
    )
    replaced = threading.Event()

    def ask() -> int:
        return sum(
            1
            for _ in takewhile(lambda _: not replaced.is_set(), (proxy.predict() for _ in count()))
        )

    servers = [start_server(half_models) for _ in range(2)]
    proxy.pass_to(*servers)
    with ThreadPoolExecutor(4) as pool:
        answered = [pool.submit(ask) for _ in range(4)]
        try:
            for _ in range(2):
                old = servers.pop(0)
                ending = threading.Timer(pre_stop, old.process.send_signal, [signal.SIGTERM])
                ending.start()
                time.sleep(pre_stop / 2)
                proxy.pass_to(*servers)
                old.process.wait(60)
                servers.append(start_server(half_models))
                proxy.pass_to(*servers)
        finally:
            replaced.set()
        assert sum(each.result() for each in answered) > 100
