"""Rate limits: how many requests are counted, here or in a Redis that servers share."""

import logging
import time

from limits import RateLimitItem
from limits.errors import StorageError
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

log = logging.getLogger("dogsnap.limits")

# Seconds that a request waits for a Redis.
REDIS_TIMEOUTS = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
RETRY_SECONDS = 2.0  # after which a storage that was away is tried again


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
    seconds = limiter.get_window_stats(limit, *names).reset_time - time.time()
    if seconds > limit.get_expiry() + 1:  # the clock was set back
        limiter.clear(limit, *names)
        return _count_request(limiter, limit, names)
    return max(1.0, seconds)
