"""Serves the mini program for browsers, built into server/pages/app, at /."""

from pathlib import Path

from flask import Blueprint, Response, send_from_directory

from dogsnap.errors import Unavailable

DIST = Path(__file__).parents[1] / "pages" / "app"
GZIPPED = ("application/javascript", "application/json", "image/svg+xml")
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


def blueprint(dist: Path = DIST) -> Blueprint:
    routes = Blueprint("web", __name__)

    @routes.get("/")
    @routes.get("/<name>")
    @routes.get("/<any(assets):folder>/<path:name>")
    def page(name: str = "index.html", folder: str = "") -> Response:
        if not (dist / "index.html").is_file():
            raise Unavailable(
                "the app has not been built: run `make setup`, or build it with `node "
                "backend/web/build.mjs`"
            )
        response = send_from_directory(dist / folder, name)
        response.headers.update(HEADERS)
        if response.status_code == 200 and (
            response.mimetype.startswith("text/") or response.mimetype in GZIPPED
        ):
            response.direct_passthrough = False
            response.make_sequence()  # in memory, so that it can be compressed
        return response

    return routes
