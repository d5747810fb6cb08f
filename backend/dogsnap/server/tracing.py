"""OpenTelemetry traces over OTLP: a span for each request and each of its steps.

Spans contain no photo, key or address. Needs the extra `dogsnap[otel]`.
"""

import importlib.util
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from flask import Flask, Response, g, request

from dogsnap.addresses import proxies_of
from dogsnap.logs import ANSWERED_BY

NAME = "dogsnap"
NANOSECONDS = 1_000_000_000


def is_installed() -> bool:
    """Whether the extra is installed completely."""
    parts = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter")
    return all(importlib.util.find_spec(part) is not None for part in parts)


class Tracing:
    """Sends spans in a separate thread. Create it after the fork; `close` sends the remaining spans."""

    def __init__(self, endpoint: str):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(resource=Resource.create({"service.name": NAME}))
        session = requests.Session()
        if proxies_of(endpoint):
            session.trust_env = False  # else its proxies come before the session's
        exporter = OTLPSpanExporter(endpoint, session=session)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(NAME)

    def step(self, step: str, seconds: float, servable: Any) -> None:
        """Record a step that has just ended, as a child of the current request's span."""
        now = time.time_ns()
        about = (
            {"dogsnap.model": servable.name, "dogsnap.version": servable.version}
            if servable
            else {}
        )
        span = self._tracer.start_span(
            step, start_time=now - int(seconds * NANOSECONDS), attributes=about
        )
        span.end(now)

    @contextmanager
    def request(self, name: str, headers: Mapping[str, str], **attributes: str) -> Iterator[Any]:
        """The span of a request, as a child of the W3C `traceparent` in its headers."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract(
            {key.lower(): value for key, value in headers.items()}
        )
        with self._tracer.start_as_current_span(
            name,
            parent,
            SpanKind.SERVER,
            attributes,
            record_exception=False,
            set_status_on_exception=True,
        ) as span:
            try:
                yield span
            finally:
                model, version, label = ANSWERED_BY.get()
                if model:
                    span.set_attribute("dogsnap.model", model)
                    span.set_attribute("dogsnap.version", int(version))
                    span.set_attribute("dogsnap.label", label)

    def follow(self, app: Flask) -> None:
        """Trace every HTTP request of `app`. Call it after `request_ids.init_app`, which sets the request id."""

        @app.before_request
        def begin() -> None:
            rule = request.url_rule.rule if request.url_rule else "unknown path"
            g.trace = self.request(
                f"{request.method} {rule}",
                request.headers,
                **{"dogsnap.request_id": g.request_id, "http.route": rule},
            )
            g.span = g.trace.__enter__()

        @app.after_request
        def note(response: Response) -> Response:
            if "span" in g:
                g.span.set_attribute("http.response.status_code", response.status_code)
                size = response.calculate_content_length() or 0
                g.span.set_attribute("http.response.body.size", size)
            return response

        @app.teardown_request
        def end(error: BaseException | None) -> None:
            if "trace" in g:
                g.pop("trace").__exit__(None, None, None)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()
