"""Who may come in, and how often: API keys, and rate limits per key and per address, for HTTP and gRPC alike.

It does not guard administration: `access.py` does, by a token of its own, which opens what a key opens as well.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from flask import Flask, Response, request
from flask_limiter import ApplicationLimit, Limiter, RateLimitExceeded
from limits import RateLimitItem, parse_many

from backend.doors.access import knows_token
from backend.doors.http import error_response
from backend.doors.overload import DOORS
from backend.errors import TooManyRequests, Unauthenticated
from backend.keys import KeyFile
from backend.serving.metrics import Metrics
from backend.settings import Settings

KEY_HEADER = "X-Api-Key"
# Probes and the app's own files: nothing of a model, and so often that a limit would hit whoever opens the app.
FREE_BLUEPRINTS = ("health", "web")
FREE_PATHS = ("/health",)  # Simple TensorFlow Serving's probe
APP = "app_api"  # the blueprint with all that the app asks
SCOPE = "global"  # Flask-Limiter's name for a limit that all paths count for together
STRATEGY = "fixed-window"
PATIENCE = {
    "socket_timeout": 0.5,
    "socket_connect_timeout": 0.5,
}  # seconds; a request waits for no Redis longer than that

Headers = Mapping[str, str]


class Gate:
    """Both doors' rules, with one count for both."""

    def __init__(self, settings: Settings, metrics: Metrics):
        self._keys = KeyFile(Path(settings.api_keys)) if settings.api_keys else None
        self._is_administrator = partial(knows_token, settings)
        self._metrics = metrics
        # Who is let in for the app's sake, by address as well, has a count of his own.
        self._rates = {
            "address": settings.rate_limit_address,
            "key": settings.rate_limit_key,
            "visitor": settings.open_app,
        }
        self._storage = settings.rate_limit_storage
        self._limiter: Limiter | None = None

    def key_of(self, headers: Headers) -> str:
        """The name of the key that a request carries; "" for none or an unknown one."""
        return self._keys.name_of(sent_key(headers)) if self._keys and sent_key(headers) else ""

    def check_key(self, headers: Headers, door: str) -> None:
        """Raises Unauthenticated for a request without a key or the administrator's token, where one is needed."""
        if self._keys is None or self.key_of(headers) or self._is_administrator(headers):
            return
        self._metrics.refused(door, "key")
        received = "one that is not" if sent_key(headers) else "none"
        raise Unauthenticated(
            f"expected a key of this server in the header {KEY_HEADER} (or Authorization: Bearer <key>), received {received}"
        )

    def check_call(self, address: str, headers: Headers, door: str, needs_key: bool = True) -> None:
        """A call that is not HTTP. Raises TooManyRequests or Unauthenticated."""
        for kind, name in (("address", address), ("key", self.key_of(headers))):
            if self._limiter and self._rates[kind] and name:
                for limit in parse_many(self._rates[kind]):
                    self._hit(limit, kind, name, door)
        if needs_key:
            self.check_key(headers, door)

    def _hit(self, limit: RateLimitItem, kind: str, name: str, door: str) -> None:
        try:
            counter = self._limiter.limiter
            if counter.hit(limit, f"{kind} {name}", SCOPE):
                return
            resets = counter.get_window_stats(limit, f"{kind} {name}", SCOPE).reset_time
        except Exception:  # whatever a storage that is away raises: no reason to answer nobody
            return
        raise self._too_many(str(limit), kind, resets - time.time(), door)

    def _too_many(self, limit: str, kind: str, seconds: float, door: str) -> TooManyRequests:
        self._metrics.refused(door, "rate")
        return TooManyRequests(
            f"too many requests: at most {limit} are answered for one {kind}; try again later", max(1, round(seconds))
        )

    def guard(self, app: Flask) -> None:
        """Check every HTTP request of `app`. Call it after `http.prepare`, whose request id the error body carries."""
        if any(self._rates.values()):
            self._limit_rates(app)
        app.before_request(self._check_request)

    def _limit_rates(self, app: Flask) -> None:
        names = {"address": _request_address, "key": self._request_key, "visitor": self._visitor}
        limiter = Limiter(
            _request_address,
            app=app,
            application_limits=[
                ApplicationLimit(
                    limit_provider=rate,
                    key_function=partial(_named, kind, names[kind]),
                    exempt_when=partial(_is_exempt, names[kind]),
                )
                for kind, rate in self._rates.items()
                if rate
            ],
            storage_uri=self._storage,
            storage_options=PATIENCE if self._storage.startswith("redis") else {},
            strategy=STRATEGY,
            in_memory_fallback_enabled=True,
        )
        self._limiter = limiter

        @app.errorhandler(RateLimitExceeded)
        def refuse(error: RateLimitExceeded) -> Response:
            breached = limiter.current_limit
            kind = breached.key.split("/")[1].split()[0] if breached else "address"
            seconds = breached.reset_at - time.time() if breached else 1
            return error_response(self._too_many(str(error.limit.limit), kind, seconds, _door()))

    def _request_key(self) -> str:
        return self.key_of(request.headers)

    def _visitor(self) -> str:
        """The address of who uses the app where that needs no key; "" for all others."""
        is_let_in = self._rates["visitor"] and request.blueprint == APP and not sent_key(request.headers)
        return _request_address() if is_let_in else ""

    def _check_request(self) -> None:
        if request.blueprint not in DOORS or request.path in FREE_PATHS or request.method == "OPTIONS":
            return
        if not self._visitor():
            self.check_key(request.headers, DOORS[request.blueprint])


def sent_key(headers: Headers) -> str:
    """What a request carries as its key; "" for nothing."""
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    return headers.get(KEY_HEADER) or (bearer.strip() if scheme.lower() == "bearer" else "")


def _door() -> str:
    return DOORS.get(request.blueprint or "", "other")


def _request_address() -> str:
    return request.remote_addr or ""


def _named(kind: str, name: Callable[[], str]) -> str:
    return f"{kind} {name()}"


def _is_exempt(name: Callable[[], str]) -> bool:
    return request.blueprint in FREE_BLUEPRINTS or request.path in FREE_PATHS or not name()
