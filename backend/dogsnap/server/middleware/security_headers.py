"""Security headers for every HTTP response."""

from flask import Flask, Response

from dogsnap.settings import Settings

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
HTTPS_ONLY = {
    "Strict-Transport-Security": "max-age=31536000"
}  # one year, the minimum for browsers' preload lists


def init_app(app: Flask, settings: Settings) -> None:
    headers = {**HEADERS, **(HTTPS_ONLY if settings.tls_cert else {})}

    @app.after_request
    def protect(response: Response) -> Response:
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response
