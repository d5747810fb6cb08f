"""Security headers for every HTTP response."""

from flask import Flask, Response

from backend.settings import Settings

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
HTTPS_ALONE = {"Strict-Transport-Security": "max-age=31536000"}  # a year, the least that browsers' own lists take


def prepare(app: Flask, settings: Settings) -> None:
    headers = {**HEADERS, **(HTTPS_ALONE if settings.tls_cert else {})}

    @app.after_request
    def protect(response: Response) -> Response:
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response
