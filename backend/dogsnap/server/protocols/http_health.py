"""Liveness, readiness and Prometheus metrics."""

from flask import Blueprint, Response, request
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from dogsnap.errors import Unavailable
from dogsnap.server.bodies.json_bodies import json_response
from dogsnap.server.middleware.admin_auth import check_access
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.serving.repository.interface import ModelRepository
from dogsnap.settings import Settings


def require_ready(repository: ModelRepository) -> None:
    """Raises Unavailable."""
    if reason := repository.not_ready():
        raise Unavailable(f"not ready: {reason}")


def blueprint(settings: Settings, predictor: Predictor) -> Blueprint:
    routes = Blueprint("health", __name__)

    @routes.get("/healthz")
    def healthz() -> Response:
        return json_response({"status": "alive"})

    @routes.get("/readyz")
    def readyz() -> Response:
        require_ready(predictor.repository)
        return json_response({"status": "ready"})

    @routes.get("/metrics")
    @routes.get("/monitoring/prometheus/metrics")
    def prometheus() -> Response:
        check_access(settings, request.headers)
        return Response(
            generate_latest(predictor.metrics.registry), content_type=CONTENT_TYPE_LATEST
        )

    return routes
