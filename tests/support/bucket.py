"""A bucket on this machine: a folder that a server shows by WebHDFS, one of the protocols that fsspec reads."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from support.ports import free_port


class Bucket:
    """Open within a `with` block, and after `open()` again until `close()`.

    `status`: of every answer, in place of what is asked for. `seconds`: before each answer. `cut`: names of files of which only
    the first half is sent. `strange`: a name that is listed beside the files of each folder.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"webhdfs://127.0.0.1:{self.port}/{folder.name}"
        self.status, self.seconds, self.cut, self.strange = 200, 0.0, set[str](), ""
        self.asked = 0
        self._server: ThreadingHTTPServer | None = None

    def open(self) -> None:
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                bucket.asked += 1
                time.sleep(bucket.seconds)
                status, body = bucket.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> "Bucket":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, target: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = self.folder.parent / unquote(parts.path).removeprefix("/webhdfs/v1/")
        if self.status != 200:
            return self.status, refusal("AccessControlException", "access is denied")
        if not path.exists():
            return 404, refusal("FileNotFoundException", f"{path.name} does not exist")
        if query["op"] == "LISTSTATUS":
            found = [described(child) for child in sorted(path.iterdir())]
            if self.strange:
                found.append({**found[0], "pathSuffix": self.strange, "type": "FILE"})
            return 200, json.dumps({"FileStatuses": {"FileStatus": found}}).encode()
        if query["op"] == "GETFILESTATUS":
            return 200, json.dumps({"FileStatus": described(path)}).encode()
        content = path.read_bytes()
        if path.name in self.cut:
            content = content[: len(content) // 2]
        start = int(query.get("offset", 0))
        return 200, content[start : start + int(query.get("length", len(content)))]


def described(path: Path) -> dict:
    status = path.stat()
    return {
        "pathSuffix": path.name,
        "type": "DIRECTORY" if path.is_dir() else "FILE",
        "length": 0 if path.is_dir() else status.st_size,
        "modificationTime": status.st_mtime_ns // 1_000_000,
    }


def refusal(kind: str, message: str) -> bytes:
    return json.dumps({"RemoteException": {"exception": kind, "message": message}}).encode()
