"""A load generator as a program of its own, so that it takes no time from the server's tests: `python load.py JOB`.

The job is JSON: port, path, body (text), and either `rate` (requests a second, sent whatever comes back, each on a connection
of its own) or `clients` (each sends the next request when it has its answer, on one connection); `seconds`, `timeout`.
Prints one JSON list [sent (Unix time), seconds, status, Retry-After or null] for each request; status 0 is a failure, with its
reason in place of Retry-After. It knows no TensorFlow.
"""

import asyncio
import json
import sys
import time
from typing import Any


class Client:
    """One connection, opened when it is needed."""

    def __init__(self, job: dict[str, Any], results: list):
        body = job["body"].encode()
        lines = (
            f"POST {job['path']} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        self.message = "\r\n".join([*lines, "", ""]).encode() + body
        self.job, self.results = job, results
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> None:
        sent, begun = time.time(), time.perf_counter()
        try:
            status, retry = await asyncio.wait_for(self._exchange(), self.job.get("timeout", 60))
        except Exception as error:  # whatever goes wrong is a failed request
            self.close()
            status, retry = 0, repr(error)
        self.results.append([sent, time.perf_counter() - begun, status, retry])

    async def _exchange(self) -> tuple[int, str | None]:
        if self.streams is None or self.streams[0].at_eof():  # a connection that the server closed while nobody asked
            self.streams = await asyncio.open_connection("127.0.0.1", self.job["port"])
        reader, writer = self.streams
        writer.write(self.message)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        return int(head[0].split()[1]), headers.get("retry-after")

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def at_rate(job: dict[str, Any], results: list) -> None:
    """A request every 1/rate seconds, however slow the answers are."""
    running, begun = [], time.perf_counter()
    for number in range(int(job["rate"] * job["seconds"])):
        await asyncio.sleep(max(0.0, begun + number / job["rate"] - time.perf_counter()))
        running.append(asyncio.create_task(one(job, results)))
    await asyncio.gather(*running)


async def one(job: dict[str, Any], results: list) -> None:
    client = Client(job, results)
    await client.ask()
    client.close()


async def in_turn(job: dict[str, Any], results: list) -> None:
    """Each client asks again as soon as it is answered."""
    end = time.perf_counter() + job["seconds"]

    async def ask_on() -> None:
        client = Client(job, results)
        while time.perf_counter() < end:
            await client.ask()
        client.close()

    await asyncio.gather(*[ask_on() for _ in range(job["clients"])])


def main() -> None:
    job, results = json.loads(sys.argv[1]), []
    asyncio.run((at_rate if "rate" in job else in_turn)(job, results))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
