"""OpenTelemetry traces over OTLP: a span for each request, and below it one for
each of its steps.

Spans contain no photo, key or address. Needs the extra `dogsnap[otel]`.
"""

import importlib.util
import os
import time
from typing import Any

import requests
from flask import Flask, request

from dogsnap.addresses import proxies_of
from dogsnap.logs import ANSWERED_BY, REQUEST_ID

NAME = "dogsnap"
NANOSECONDS = 1_000_000_000
PACKAGES = (
    "opentelemetry",
    "opentelemetry.sdk",
    "opentelemetry.exporter",
    "opentelemetry.instrumentation",
    "opentelemetry.instrumentation.flask",
    "opentelemetry.instrumentation.grpc",
)
# What machines ask every few seconds; it is not traced.
PROBES = (
    r"^\w+://[^/]+/(healthz|readyz|health|metrics|monitoring/prometheus/metrics"
    r"|v2/health/\w+|v2/models/[^?]*/ready)(\?|$)"
)
GRPC_PROBES = {"ServerLive", "ServerReady", "ModelReady"}
# The instrumentation's attributes that are sent; others have addresses and what clients wrote.
ATTRIBUTES = {
    "http.request.method",
    "http.response.body.size",
    "http.response.status_code",
    "http.route",
    "rpc.grpc.status_code",
    "rpc.method",
    "rpc.service",
    "rpc.system",
}


def is_installed() -> bool:
    """Whether the extra is installed completely."""
    return all(importlib.util.find_spec(package) is not None for package in PACKAGES)


class Tracing:
    """Sends spans in a separate thread.

    Create it after the fork; `close` sends the remaining spans.
    """

    def __init__(self, endpoint: str):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        class Exporter(OTLPSpanExporter):
            def export(self, spans: Any) -> Any:
                return super().export([without_addresses(span) for span in spans])

        # The names of OpenTelemetry's stable conventions, such as http.response.status_code.
        os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
        session = requests.Session()
        if proxies_of(endpoint):
            session.trust_env = False  # else its proxies come before the session's
        self._provider = TracerProvider(resource=Resource.create({"service.name": NAME}))
        exporter = Exporter(endpoint, session=session)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(NAME)

    def record_step(self, step: str, seconds: float, servable: Any) -> None:
        """Record a step that has just ended, as a child of the current request's span."""
        now = time.time_ns()
        attributes = {}
        if servable:
            attributes = {"dogsnap.model": servable.name, "dogsnap.version": servable.version}
        begin = now - int(seconds * NANOSECONDS)
        self._tracer.start_span(step, start_time=begin, attributes=attributes).end(now)

    def trace_http(self, app: Flask) -> None:
        """Trace every HTTP request of `app`.

        Call it before other functions are registered to run before requests.
        """
        from opentelemetry.instrumentation.flask import FlaskInstrumentor

        def describe(span: Any, _status: str, headers: list[tuple[str, str]]) -> None:
            if request.url_rule is None:
                span.update_name(f"{request.method} unknown path")
            size = dict(headers).get("Content-Length", "0")
            span.set_attribute("http.response.body.size", int(size))
            describe_answer()

        FlaskInstrumentor.instrument_app(
            app,
            response_hook=describe,
            tracer_provider=self._provider,
            excluded_urls=PROBES,
            enable_commenter=False,
        )

    def grpc_interceptor(self, services: tuple[str, ...]) -> Any:
        """Traces the calls of these services."""
        from opentelemetry.instrumentation.grpc import server_interceptor

        def is_traced(call: Any) -> bool:
            service, _, method = call.method.removeprefix("/").rpartition("/")
            return service in services and method not in GRPC_PROBES

        return server_interceptor(self._provider, is_traced)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


def describe_answer() -> None:
    """Write the request's id and the version that answered on the current span."""
    from opentelemetry import trace

    span = trace.get_current_span()
    span.set_attribute("dogsnap.request_id", REQUEST_ID.get())
    model, version, label = ANSWERED_BY.get()
    if model:
        span.set_attribute("dogsnap.model", model)
        span.set_attribute("dogsnap.version", int(version))
        span.set_attribute("dogsnap.label", label)


def without_addresses(span: Any) -> Any:
    """A finished span with the ATTRIBUTES and our own alone, and without texts
    of errors.
    """
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status

    attributes = {}
    for name, value in span.attributes.items():
        if name in ATTRIBUTES or name.startswith("dogsnap."):
            attributes[name] = value
    return ReadableSpan(
        span.name,
        span.context,
        span.parent,
        span.resource,
        attributes,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
