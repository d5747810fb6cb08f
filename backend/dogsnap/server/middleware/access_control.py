"""Who may ask, and how often: API keys, and rate limits per key and per
address, for HTTP and gRPC.
"""

import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from flask import request
from limits import RateLimitItem, parse_many
from limits.errors import StorageError
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from dogsnap.errors import TooManyRequests, Unauthenticated
from dogsnap.server.middleware.admin_auth import bearer, knows_token
from dogsnap.server.middleware.api_keys import KeyFile
from dogsnap.server.middleware.overload import PROTOCOLS
from dogsnap.serving.metrics import Metrics
from dogsnap.settings import Settings

log = logging.getLogger("dogsnap.limits")

KEY_HEADER = "X-Api-Key"
# Probes and the app's static files: requested so often that a limit would hit ordinary users.
FREE_BLUEPRINTS = ("health", "web")
FREE_PATHS = ("/health", "/v2/health/live", "/v2/health/ready")  # probes of other protocols
APP = "api"  # the blueprint that the app uses
# of the app; counted per address, apart from all requests of that address
ANONYMOUS = "client without a key"
# Seconds that a request waits for a Redis.
REDIS_TIMEOUTS = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
RETRY_SECONDS = 2.0  # after which a storage that was away is tried again

Headers = Mapping[str, str]


class RateLimiter:
    """Counts requests in a storage, or in this process's memory while the
    storage is unreachable. Thread-safe.
    """

    def __init__(self, storage: str):
        """`storage`: memory:// or redis://host:port."""
        self._shared = FixedWindowRateLimiter(
            storage_from_string(storage, wrap_exceptions=True, **REDIS_TIMEOUTS)
        )
        self._own = FixedWindowRateLimiter(MemoryStorage())
        self._retry_at = 0.0  # 0: the storage is reachable

    def hit(self, limit: RateLimitItem, *names: str) -> float:
        """Count one request; 0 if it is within the limit, else the seconds
        until the next one is allowed.
        """
        was_away = self._retry_at > 0
        now = time.monotonic()
        if now < self._retry_at:
            return _count_request(self._own, limit, names)
        if was_away:
            # One request tries; the others do not wait with it.
            self._retry_at = now + RETRY_SECONDS
        try:
            seconds = _count_request(self._shared, limit, names)
        except StorageError as error:
            if not was_away:
                log.warning(
                    "--rate-limit-storage is unreachable (%s); this server counts for itself", error
                )
            self._retry_at = time.monotonic() + RETRY_SECONDS
            return _count_request(self._own, limit, names)
        if was_away:
            log.info("--rate-limit-storage is reachable again")
        self._retry_at = 0.0
        return seconds


def _count_request(
    limiter: FixedWindowRateLimiter, limit: RateLimitItem, names: tuple[str, ...]
) -> float:
    if limiter.hit(limit, *names):
        return 0.0
    window = limiter.get_window_stats(limit, *names)
    return max(1.0, window.reset_time - time.time())


class AccessControl:
    """API keys and rate limits of HTTP and gRPC, counted together."""

    def __init__(self, settings: Settings, metrics: Metrics):
        self._keys = KeyFile(Path(settings.api_keys)) if settings.api_keys else None
        self._is_administrator = partial(knows_token, settings)
        self._metrics = metrics
        rates = {
            "address": settings.rate_limit_address,
            "key": settings.rate_limit_key,
            ANONYMOUS: settings.open_app,
        }
        self._limits = {kind: parse_many(rate) for kind, rate in rates.items() if rate}
        self._limiter = RateLimiter(settings.rate_limit_storage) if self._limits else None

    def key_of(self, headers: Headers) -> str:
        """The name of the API key in a request; "" for none or an unknown one."""
        key = sent_key(headers)
        return self._keys.name_of(key) if self._keys and key else ""

    def check_key(self, headers: Headers, protocol: str) -> None:
        """Raises Unauthenticated if keys are required and the request has
        neither a key nor the admin token.
        """
        if self._keys is None or self.key_of(headers) or self._is_administrator(headers):
            return
        self._metrics.refused.labels(protocol, "key").inc()
        received = "one that is not" if sent_key(headers) else "none"
        raise Unauthenticated(
            f"expected a key of this server in the header {KEY_HEADER} (or "
            f"Authorization: Bearer <key>), received {received}"
        )

    def check_call(self, address: str, headers: Headers, protocol: str, needs_key: bool) -> None:
        """Check a gRPC call. Raises TooManyRequests or Unauthenticated."""
        self._check_rates(protocol, {"address": address, "key": self.key_of(headers)})
        if needs_key:
            self.check_key(headers, protocol)

    def _check_rates(self, protocol: str, names: Mapping[str, str]) -> None:
        """Count a request under each kind of limit for which it has a name.

        Raises TooManyRequests.
        """
        for kind, limits in self._limits.items():
            name = names.get(kind)
            if not name:
                continue
            for limit in limits:
                seconds = self._limiter.hit(limit, kind, name)
                if seconds:
                    self._metrics.refused.labels(protocol, "rate").inc()
                    raise TooManyRequests(
                        f"too many requests: at most {limit} are answered for one {kind}; "
                        "try again later",
                        round(seconds),
                    )

    def check_request(self) -> None:
        """Check an HTTP request before it is answered.

        Raises TooManyRequests or Unauthenticated.
        """
        if (
            request.endpoint is None
            or request.blueprint in FREE_BLUEPRINTS
            or request.path in FREE_PATHS
        ):
            return
        address = request.remote_addr or ""
        headers = request.headers
        protocol = request.blueprint if request.blueprint in PROTOCOLS else "other"
        key = self.key_of(headers)
        is_anonymous = request.blueprint == APP and self._is_anonymous(headers, key)
        names = {"address": address, "key": key, ANONYMOUS: address if is_anonymous else ""}
        self._check_rates(protocol, names)
        if protocol != "other" and request.method != "OPTIONS" and not is_anonymous:
            self.check_key(headers, protocol)

    def _is_anonymous(self, headers: Headers, key: str) -> bool:
        """Whether a request of the app counts as one without a key: a key that
        is not known here is none.
        """
        return ANONYMOUS in self._limits and not key and not self._is_administrator(headers)


def sent_key(headers: Headers) -> str:
    """The API key that a request contains; "" for none."""
    return headers.get(KEY_HEADER) or bearer(headers)
