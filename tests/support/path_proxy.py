"""A proxy that serves a server's site below a path, as nginx with `location /dogs/ { proxy_pass http://server/; }`."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import requests

PATH = "/dogs"
# Of one connection alone; and `requests` has inflated the body.
NOT_PASSED_ON = {"connection", "content-encoding", "content-length", "transfer-encoding"}


@contextlib.contextmanager
def path_proxy(server, **headers: str) -> Iterator[SimpleNamespace]:
    """Yields `url`, which ends in PATH, and `port`; `headers` are added to each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not self.path.startswith(f"{PATH}/"):
                self.send_error(404)
                return
            answer = requests.request(
                self.command,
                server.url + self.path.removeprefix(PATH),
                data=body,
                headers={**self.headers, **headers},
                allow_redirects=False,
                timeout=60,
            )
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in NOT_PASSED_ON:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        port = proxy.server_address[1]
        yield SimpleNamespace(url=f"http://127.0.0.1:{port}{PATH}", port=port)
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
