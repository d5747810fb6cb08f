"""A real Redis server of a test, which can be killed and started again on the same data."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import redis

from support.ports import free_port
from support.waiting import wait_until

PROGRAM = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(
    PROGRAM is None, reason="redis-server (Debian's package of that name) is missing"
)


class RedisServer:
    """A context manager; its data is in `folder`."""

    def __init__(self, folder: Path, *flags: str):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._flags = ("--appendonly", "yes", "--appendfsync", "always", *flags)
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "RedisServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        self._process = subprocess.Popen(
            [PROGRAM, *where, "--save", "", *self._flags], stdout=subprocess.DEVNULL
        )
        wait_until(self._answers, 20)

    def kill(self) -> None:
        """kill -9."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """It keeps its connections and answers nobody, as a machine without power."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return client.ping()
        except redis.RedisError:
            return False
