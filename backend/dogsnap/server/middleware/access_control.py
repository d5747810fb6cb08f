"""Who may ask, and how often: API keys, and rate limits per key and per
address, for HTTP and gRPC.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from flask import request
from limits import parse_many

from dogsnap.errors import TooManyRequests, Unauthenticated
from dogsnap.server.middleware.admin_auth import bearer, knows_token
from dogsnap.server.middleware.api_keys import KeyFile
from dogsnap.server.middleware.headers import Headers
from dogsnap.server.middleware.rate_limits import RateLimiter
from dogsnap.serving.metrics import HTTP_PROTOCOLS, Metrics
from dogsnap.settings import Settings

KEY_HEADER = "X-Api-Key"
# Probes and the app's static files: requested so often that a limit would hit ordinary users.
FREE_BLUEPRINTS = ("health", "web")
# Probes of other protocols, whose platforms have no key.
FREE_ENDPOINTS = (
    *("simple.health", "open_inference.live", "open_inference.ready"),
    *("invocations.ping", "invocations.health"),
)
APP = "api"  # the blueprint that the app uses
# of the app; counted per address, apart from all requests of that address
ANONYMOUS = "client without a key"


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
        # Without limits nothing is counted, and no storage is needed.
        storage = settings.rate_limit_storage if self._limits else "memory://"
        self._limiter = RateLimiter(storage)

    def check_request(self) -> None:
        """Check an HTTP request before it is answered, by `check_call`."""
        if (
            request.endpoint is None
            or request.blueprint in FREE_BLUEPRINTS
            or request.endpoint in FREE_ENDPOINTS
        ):
            return
        protocol = request.blueprint if request.blueprint in HTTP_PROTOCOLS else None
        self.check_call(
            request.remote_addr or "",
            request.headers,
            protocol or "other",
            needs_key=protocol is not None and request.method != "OPTIONS",
            is_app=request.blueprint == APP,
        )

    def check_call(
        self, address: str, headers: Headers, protocol: str, needs_key: bool, is_app: bool = False
    ) -> None:
        """Count a request, and check its key if it needs one: that of the app needs none
        where it has a limit of its own.

        Raises TooManyRequests or Unauthenticated.
        """
        key = sent_key(headers) if self._keys else ""
        name = self._keys.name_of(key) if self._keys and key else ""
        is_known = not self._keys or bool(name) or self._is_administrator(headers)
        is_anonymous = is_app and not is_known and ANONYMOUS in self._limits
        names = {"address": address, "key": name, ANONYMOUS: address if is_anonymous else ""}
        self._check_rates(protocol, names)
        if needs_key and not is_known and not is_anonymous:
            self._metrics.refused.labels(protocol, "key").inc()
            received = "one that is not" if key else "none"
            raise Unauthenticated(
                f"expected a key of this server in the header {KEY_HEADER} (or "
                f"Authorization: Bearer <key>), received {received}"
            )

    def _check_rates(self, protocol: str, names: Mapping[str, str]) -> None:
        """Count a request under each kind of limit for which it has a name.

        Raises TooManyRequests.
        """
        for kind, limits in self._limits.items():
            name = names[kind]
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


def sent_key(headers: Headers) -> str:
    """The API key that a request contains; "" for none."""
    return headers.get(KEY_HEADER, "") or bearer(headers)
