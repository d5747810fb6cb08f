"""API keys, and rate limits per key and per address, for HTTP and gRPC.

Administration has a token of its own (`admin_auth.py`), which is accepted wherever a key is.
"""

import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from flask import Flask, request
from limits import RateLimitItem, parse_many
from limits.errors import StorageError
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from backend.api_keys import KeyFile
from backend.errors import TooManyRequests, Unauthenticated
from backend.middleware.admin_auth import knows_token
from backend.middleware.overload import DOORS
from backend.serving.metrics import Metrics
from backend.settings import Settings

log = logging.getLogger("dogsnap.limits")

KEY_HEADER = "X-Api-Key"
# Probes and the app's own files: nothing of a model, and so often that a limit would hit whoever opens the app.
FREE_BLUEPRINTS = ("health", "web")
FREE_PATHS = ("/health",)  # Simple TensorFlow Serving's probe
APP = "app_api"  # the blueprint with all that the app asks
REDIS_TIMEOUTS = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}  # seconds that a request waits for a Redis
RETRY_SECONDS = 2.0  # after which a storage that was away is tried again

Headers = Mapping[str, str]


class RateLimiter:
    """Counts requests in a storage, or in the memory of this process while that does not answer. Thread-safe."""

    def __init__(self, storage: str):
        """`storage`: memory:// or redis://host:port."""
        options = REDIS_TIMEOUTS if storage.startswith("redis") else {}
        self._shared = FixedWindowRateLimiter(storage_from_string(storage, wrap_exceptions=True, **options))
        self._own = FixedWindowRateLimiter(MemoryStorage())
        self._retry_at = 0.0  # 0: the storage answers

    def hit(self, limit: RateLimitItem, *names: str) -> float:
        """Count one request; 0 if it is within the limit, else the seconds until there is room for the next."""
        seconds = self._hit_shared(limit, names)
        return _hit(self._own, limit, names) if seconds is None else seconds

    def _hit_shared(self, limit: RateLimitItem, names: tuple[str, ...]) -> float | None:
        """None while the storage is away."""
        was_away = self._retry_at > 0
        if time.monotonic() < self._retry_at:
            return None
        if was_away:
            self._retry_at = time.monotonic() + RETRY_SECONDS  # one request tries; the others do not wait with it
        try:
            seconds = _hit(self._shared, limit, names)
        except StorageError as error:
            if not was_away:
                log.warning("--rate-limit-storage is away (%s); this server counts for itself", error)
            self._retry_at = time.monotonic() + RETRY_SECONDS
            return None
        if was_away:
            log.info("--rate-limit-storage is back")
        self._retry_at = 0.0
        return seconds


def _hit(limiter: FixedWindowRateLimiter, limit: RateLimitItem, names: tuple[str, ...]) -> float:
    if limiter.hit(limit, *names):
        return 0.0
    return max(1.0, limiter.get_window_stats(limit, *names).reset_time - time.time())


class Gate:
    """The rules of both protocols, with one count for both."""

    def __init__(self, settings: Settings, metrics: Metrics):
        self._keys = KeyFile(Path(settings.api_keys)) if settings.api_keys else None
        self._is_administrator = partial(knows_token, settings)
        self._metrics = metrics
        # Who is let in for the app's sake, by address as well, has a count of his own.
        rates = {"address": settings.rate_limit_address, "key": settings.rate_limit_key, "visitor": settings.open_app}
        self._limits = {kind: parse_many(rate) for kind, rate in rates.items() if rate}
        self._limiter = RateLimiter(settings.rate_limit_storage) if self._limits else None

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
        self._check_rates(door, address=address, key=self.key_of(headers))
        if needs_key:
            self.check_key(headers, door)

    def _check_rates(self, door: str, **names: str) -> None:
        """Count a request for each kind of limit, where it has a name. Raises TooManyRequests."""
        for kind, limits in self._limits.items():
            for limit in limits if names.get(kind) else ():
                seconds = self._limiter.hit(limit, kind, names[kind])
                if seconds:
                    self._metrics.refused(door, "rate")
                    sentence = f"too many requests: at most {limit} are answered for one {kind}; try again later"
                    raise TooManyRequests(sentence, round(seconds))

    def guard(self, app: Flask) -> None:
        """Check every HTTP request of `app`. Call it after `http.prepare`, whose request id the error body carries."""
        app.before_request(self._check_request_rates)
        app.before_request(self._check_request_key)

    def _check_request_rates(self) -> None:
        is_free = request.endpoint is None or request.blueprint in FREE_BLUEPRINTS or request.path in FREE_PATHS
        if self._limits and not is_free:
            door = DOORS.get(request.blueprint or "", "other")
            address, key = request.remote_addr or "", self.key_of(request.headers)
            self._check_rates(door, address=address, key=key, visitor=self._visitor())

    def _visitor(self) -> str:
        """The address of who uses the app where that needs no key; "" for all others."""
        is_let_in = "visitor" in self._limits and request.blueprint == APP and not sent_key(request.headers)
        return (request.remote_addr or "") if is_let_in else ""

    def _check_request_key(self) -> None:
        if request.blueprint not in DOORS or request.path in FREE_PATHS or request.method == "OPTIONS":
            return
        if not self._visitor():
            self.check_key(request.headers, DOORS[request.blueprint])


def sent_key(headers: Headers) -> str:
    """What a request carries as its key; "" for nothing."""
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    return headers.get(KEY_HEADER) or (bearer.strip() if scheme.lower() == "bearer" else "")
