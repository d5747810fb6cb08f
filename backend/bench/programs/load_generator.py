"""The load generator: `python -m bench.programs.load_generator < JOB` sends requests and prints the answers' times.

It is written by hand because a request costs it 0.08 ms of processor time; the libraries for it cost 0.24 (http.client), 1.5
(aiohttp), 2.1 (locust) and 4 ms (requests).
"""

import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

LIMIT = 1 << 20  # bytes of a response's head
NOT_ANSWERED = 0  # in place of a status


class Connection:
    """Opened on demand and again after the server closed it. `note`: Retry-After of the last response, or why there was none."""

    def __init__(self, url: str, timeout: float):
        self._url, self._timeout = urlsplit(url), timeout
        self.note = ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> int:
        """The status, or NOT_ANSWERED after any error."""
        try:
            return await asyncio.wait_for(self._exchange(body), self._timeout)
        except (
            OSError,
            ValueError,
            LookupError,
            EOFError,
            TimeoutError,
            asyncio.LimitOverrunError,
        ) as error:
            self.close()
            self.note = repr(error)
            return NOT_ANSWERED

    async def _exchange(self, body: bytes) -> int:
        url = self._url
        if self._streams is None or self._streams[0].at_eof():
            self._streams = await asyncio.open_connection(url.hostname, url.port, limit=LIMIT)
        reader, writer = self._streams
        sent = [
            f"POST {url.path} HTTP/1.1",
            f"Host: {url.netloc}",
            "Content-Type: application/json",
        ]
        writer.write("\r\n".join([*sent, f"Content-Length: {len(body)}", "", ""]).encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:])
        }
        await reader.readexactly(int(headers["content-length"]))
        self.note = headers.get("retry-after", "")
        if headers.get("connection") == "close":
            self.close()
        return int(head[0].split()[1])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Run:
    """A running job; `answers` are [begun, seconds, status], `begun` since `clock` (Unix time), with a `Connection.note` each."""

    def __init__(self, job: dict[str, Any]):
        self.job = job
        self.answers: list[tuple[float, float, int]] = []
        self.notes: list[str] = []
        self.bodies = itertools.cycle([body.encode() for body in job["bodies"]])
        self.clock, self.begun = time.time(), time.perf_counter()

    async def ask(self, times: Iterable[object]) -> None:
        """Send a request at each of `times`, one after the other on one connection."""
        connection = Connection(self.job["url"], self.job.get("timeout", 60.0))
        for _ in times:
            begun = time.perf_counter()
            status = await connection.post(next(self.bodies))
            self.answers.append((begun - self.begun, time.perf_counter() - begun, status))
            self.notes.append(connection.note)
        connection.close()

    async def closed_loop(self) -> None:
        """A closed loop: `clients` connections, each of which sends a request as soon as the last one is answered.

        For `seconds`, or `requests` in all, or until SIGTERM.
        """
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        end = self.begun + self.job.get("seconds", float("inf"))
        left = iter(range(self.job["requests"])) if "requests" in self.job else itertools.count()
        times = itertools.takewhile(
            lambda _: time.perf_counter() < end and not stopped.is_set(), left
        )
        await asyncio.gather(*[self.ask(times) for _ in range(self.job["clients"])])

    async def open_loop(self) -> None:
        """An open loop: `rate` requests per second for `seconds`, each on its own connection, independent of the answers."""
        rate, running = self.job["rate"], []
        for number in range(int(rate * self.job["seconds"])):
            await asyncio.sleep(max(0.0, self.begun + number / rate - time.perf_counter()))
            running.append(asyncio.create_task(self.ask([number])))
        await asyncio.gather(*running)


def main() -> None:
    run = Run(json.load(sys.stdin))
    asyncio.run(run.open_loop() if "rate" in run.job else run.closed_loop())
    json.dump({"answers": run.answers, "notes": run.notes, "clock": run.clock}, sys.stdout)


if __name__ == "__main__":
    main()
