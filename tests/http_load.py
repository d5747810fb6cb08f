"""Asks one thing over and over, over some connections at once, with little work for each: for measuring servers.

It reads no answer but its status and its end.
"""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
CONNECTIONS = 16


class Asker(asyncio.Protocol):
    """One connection: asks again as soon as it is answered, until `end`."""

    def __init__(self, request: bytes, end: float, counts: Counter):
        self._request, self._end, self._counts = request, end, counts
        self._data = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found or len(body) < int(LENGTH.search(head)[1]):
            return
        self._data = b""
        self._counts[int(head[9:12])] += 1
        if time.monotonic() < self._end:
            self._transport.write(self._request)
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._counts["lost"] += bool(error)
        self.done.set_result(None)


async def load(port: int, request: bytes, seconds: float) -> dict[str, float]:
    """Answers by status, and the answers a second."""
    counts: Counter = Counter()
    started = time.monotonic()
    loop = asyncio.get_running_loop()
    asked = [
        await loop.create_connection(lambda: Asker(request, started + seconds, counts), "127.0.0.1", port)
        for _ in range(CONNECTIONS)
    ]
    await asyncio.gather(*(asker.done for _, asker in asked))
    return {"per_second": counts[200] / (time.monotonic() - started), **{str(each): n for each, n in counts.items()}}


def post(path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """The bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    print(json.dumps(asyncio.run(load(int(sys.argv[1]), Path(sys.argv[2]).read_bytes(), float(sys.argv[3])))))
