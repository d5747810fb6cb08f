"""A service of HTTP that a test plays."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StubService(ThreadingHTTPServer):
    """Keeps what it is sent by POST and gives `answer`, None: it hangs up; it runs while the block lasts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.set(b"")

    def set(
        self, answer: dict | list | bytes | None, status: int = 200, seconds=0.0, drip=0.0
    ) -> None:
        """`seconds`: before the answer; `drip`: after each of its bytes."""
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.answer, self.status, self.seconds, self.drip = answer, status, seconds, drip

    def __enter__(self) -> "StubService":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, dict(self.headers), body))
        answer = self.server.answer
        if answer is None:
            return
        time.sleep(self.server.seconds)
        answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        for at in range(len(answer)):
            self.wfile.write(answer[at : at + 1])
            time.sleep(self.server.drip)

    def log_message(self, *_: object) -> None: ...
