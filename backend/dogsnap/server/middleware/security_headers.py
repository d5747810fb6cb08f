"""Security headers for every HTTP response."""

from flask import Flask, Response

from dogsnap.settings import Settings

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
# One year, the minimum for browsers' preload lists.
HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


def init_app(app: Flask, settings: Settings) -> None:
    headers = dict(HEADERS)
    if settings.tls_cert:
        headers |= HTTPS_ONLY

    @app.after_request
    def protect(response: Response) -> Response:
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response
