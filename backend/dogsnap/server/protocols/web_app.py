"""Serves pages from server/pages: the mini program for browsers, built into app, at /."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, redirect, request, send_from_directory

from dogsnap.errors import Unavailable

PAGES = Path(__file__).parents[1] / "pages"
DIST = PAGES / "app"
GZIPPED = ("application/javascript", "application/json", "application/wasm", "image/svg+xml")
WORKER = "offline.js"  # runs the network that answers without a connection, in WebAssembly
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: "
        "data:; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_page(routes: Blueprint, name: str, render: Callable[[], Any] | None = None) -> None:
    """The page in the folder `name` at /name, with its scripts and its style below; `render`:
    where the page is no file as it is.
    """
    folder = PAGES / name
    parts = _one_of(file.name for file in folder.iterdir() if file.suffix in (".js", ".css"))

    @routes.get(f"/{name}", strict_slashes=False)
    def page() -> Any:
        if request.path.endswith("/"):
            return redirect(f"../{name}")  # the page's addresses are relative to this one
        return render() if render else file("page.html")

    @routes.get(f"/{name}/<{parts}:name>")
    def file(name: str) -> Response:
        return _send(folder, name)


def _one_of(names: Iterable[str]) -> str:
    """The converter of a route that takes these names alone: any other path is not its own,
    so that another method of it is not answered in its place.
    """
    return f"any({', '.join(map(repr, sorted(names)))})"


def _send(folder: Path, name: str) -> Response:
    response = send_from_directory(folder, name)
    response.headers.update(HEADERS)
    if name == WORKER:
        policy = HEADERS["Content-Security-Policy"]
        policy = policy.replace("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'")
        response.headers["Content-Security-Policy"] = policy
    if response.status_code == 200 and (
        (response.mimetype or "").startswith("text/") or response.mimetype in GZIPPED
    ):
        response.direct_passthrough = False
        response.make_sequence()  # in memory, so that it can be compressed
    return response


def blueprint(dist: Path = DIST) -> Blueprint:
    routes = Blueprint("web", __name__)
    files = _one_of({"index.html", *(file.name for file in dist.glob("*.*"))})

    @routes.get("/")
    @routes.get(f"/<{files}:name>")
    @routes.get("/<any(assets):folder>/<path:name>")
    def page(name: str = "index.html", folder: str = "") -> Response:
        if not (dist / "index.html").is_file():
            raise Unavailable(
                "the app has not been built: run `make setup`, or build it with `node "
                "backend/web/build.mjs`"
            )
        return _send(dist / folder, name)

    return routes
