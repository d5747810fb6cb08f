"""The application factory: registers protocols and middleware on a Flask application.

It reads no environment and starts nothing: tests pass settings and predictor.
"""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Flask

from dogsnap.addresses import client_address
from dogsnap.server.bodies import receiving
from dogsnap.server.middleware import (
    compressed_answers,
    cors,
    error_bodies,
    overload,
    request_ids,
    security_headers,
)
from dogsnap.server.middleware.access_control import AccessControl
from dogsnap.server.protocols import (
    admin,
    app_api,
    console_pages,
    http_health,
    invocations,
    model_repository,
    open_inference_rest,
    openapi,
    simple_tensorflow_serving,
    tf_serving_rest,
    web_app,
)
from dogsnap.server.tracing import Tracing
from dogsnap.serving.assembly import create_feedback
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.settings import Settings

ACCESS_CONTROL = "dogsnap.access_control"
FEEDBACK = "dogsnap.feedback"


def create_app(
    settings: Settings,
    predictor: Predictor,
    tracing: Tracing | None = None,
    is_patient: bool = False,
) -> Flask:
    """The WSGI application with all HTTP protocols; `is_patient`: of a server that has
    answered before, which goes on without feedback while that cannot be kept.
    """
    app = Flask("dogsnap", static_folder=None)
    app.url_map.merge_slashes = False  # a path with double slashes is refused, not redirected
    # As Flask documents it.
    with_address = with_client_address(app.wsgi_app, settings.trusted_proxies)
    app.wsgi_app = with_address  # type: ignore[method-assign, assignment]
    if tracing is not None:
        tracing.trace_http(app)
    init_messages(app, settings)
    security_headers.init_app(app, settings)
    access_control = app.extensions[ACCESS_CONTROL] = AccessControl(settings, predictor.metrics)
    app.before_request(access_control.check_request)
    overload.init_app(app, predictor)
    feedback = app.extensions[FEEDBACK] = create_feedback(settings, predictor, is_patient)
    # First, since a route that a setting names may be one of these: /healthz stays what it is.
    app.register_blueprint(http_health.blueprint(settings, predictor))
    for protocol in (app_api, admin, console_pages):
        app.register_blueprint(protocol.blueprint(settings, predictor, feedback))
    for protocol in (
        tf_serving_rest,
        open_inference_rest,
        simple_tensorflow_serving,
        model_repository,
        invocations,
    ):
        app.register_blueprint(protocol.blueprint(settings, predictor))
    app.register_blueprint(openapi.blueprint(settings))
    app.register_blueprint(web_app.blueprint())
    return app


def with_client_address(application: WSGIApplication, proxies: int) -> WSGIApplication:
    """The same with the client's address, behind so many proxies, in place of the peer's."""

    def call(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        forwarded = environ.get("HTTP_X_FORWARDED_FOR", "")
        environ["REMOTE_ADDR"] = client_address(environ.get("REMOTE_ADDR", ""), forwarded, proxies)
        return application(environ, start_response)

    return call


def init_messages(app: Flask, settings: Settings) -> None:
    """What all HTTP messages have: bodies within limits, request ids, the error
    body, compression, CORS if it is enabled.

    What is registered first sees an answer last.
    """
    receiving.init_app(app, settings)
    app.after_request(compressed_answers.compress)
    request_ids.init_app(app, settings)
    if settings.enable_cors:
        app.after_request(cors.add_headers)
    error_bodies.init_app(app)
