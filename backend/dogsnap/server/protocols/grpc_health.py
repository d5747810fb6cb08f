"""gRPC's standard health service, as TensorFlow Serving has it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2

from dogsnap.server.protocols.tf_serving_grpc import SERVICES

# TensorFlow Serving's health service uses the short names of its services.
HEALTH_NAMES = (health.OVERALL_HEALTH, *SERVICES, *(name.rpartition(".")[2] for name in SERVICES))


class Health(health.HealthServicer):
    """grpc.health.v1.Health: SERVING under every name of HEALTH_NAMES while
    `not_ready` returns no reason.
    """

    def __init__(self, not_ready: Callable[[], str]):
        super().__init__()
        # grpc_health sends with its lock held. What sends waits for gRPC's thread,
        # which takes that lock when a client ends its call at that moment: neither went
        # on, and a stop took all its grace.
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="health")
        self._not_ready = not_ready
        self._known: int | None = None
        self._refreshing = threading.Lock()
        self.refresh()

    def Check(self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext) -> Any:
        self.refresh()
        return super().Check(request, context)

    def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.ServicerContext,
        send_response_callback: Any = None,
    ) -> Any:
        self.refresh()
        send = send_response_callback and partial(self._sender.submit, send_response_callback)
        return super().Watch(request, context, send)

    def refresh(self) -> None:
        """Check readiness, and notify watching clients if it has changed."""
        status = health_pb2.HealthCheckResponse
        with self._refreshing:
            now = status.NOT_SERVING if self._not_ready() else status.SERVING
            if now != self._known:
                self._known = now
                for name in HEALTH_NAMES:
                    self.set(name, now)
