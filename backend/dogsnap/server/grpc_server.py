"""The gRPC server: TensorFlow Serving's services, health checks, reflection.

Import it after the fork: it loads TensorFlow.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from resource import RLIMIT_NOFILE, getrlimit

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from dogsnap import addresses
from dogsnap.server import thread_counts
from dogsnap.server.bodies.receiving import HeldMemory
from dogsnap.server.grpc_admission import AdmissionInterceptor
from dogsnap.server.middleware.access_control import AccessControl
from dogsnap.server.protocols.grpc_health import Health
from dogsnap.server.protocols.open_inference import InferenceService
from dogsnap.server.protocols.tf_serving_grpc import (
    SERVICES,
    CallInterceptor,
    ModelService,
    PredictionService,
)
from dogsnap.server.tracing import Tracing
from dogsnap.serving.inference.predictor import Predictor
from dogsnap.settings import MEBIBYTE, Settings

HANDSHAKE_MS = 15_000  # after which a connection without a handshake is closed
# interval of the check for overdue calls, and of refreshing the status for clients that watch it
CHECK_SECONDS = 1.0


def channel_options(settings: Settings) -> dict[str, int]:
    """gRPC's own names of its settings."""
    largest = min(settings.max_tensor_body_mb, settings.max_held_mb)
    files, _ = getrlimit(RLIMIT_NOFILE)
    return {
        "grpc.max_receive_message_length": largest * MEBIBYTE,
        # Identity alone: grpcio inflates a message before anyone can count it
        # against `max_held_mb`.
        "grpc.compression_enabled_algorithms_bitset": 1,
        "grpc.max_send_message_length": -1,  # answers have a limit of their own
        # The server that takes this one's place listens beside it for a moment.
        "grpc.so_reuseport": 1,
        "grpc.max_allowed_incoming_connections": thread_counts.grpc_connections(files),
        "grpc.server_handshake_timeout_ms": HANDSHAKE_MS,
    }


# A private key and the chain of its certificate, PEM.
Certificate = tuple[bytes, bytes]


class GrpcServer:
    """Its port is bound at construction, and calls are answered from `start` on."""

    def __init__(
        self,
        settings: Settings,
        predictor: Predictor,
        access_control: AccessControl,
        tracing: Tracing | None = None,
        certificate: Certificate | None = None,
    ):
        """Raises RuntimeError if the port cannot be bound."""
        self._grace = settings.drain_seconds
        metrics = predictor.metrics
        self._calls = CallInterceptor(access_control, settings, metrics, tracing is not None)
        self._health = Health(predictor.repository.not_ready)
        self._draining = False
        self._stopped = threading.Event()
        memory = HeldMemory(settings.max_held_mb)
        self._arrivals = AdmissionInterceptor(
            thread_counts.count_threads(settings), memory, metrics
        )
        interceptors = [self._arrivals, self._calls]
        if tracing is not None:
            interceptors.insert(1, tracing.grpc_interceptor(SERVICES))
        self._server = grpc.server(
            ThreadPoolExecutor(self._arrivals.threads, thread_name_prefix="grpc"),
            interceptors=interceptors,
            options=list(channel_options(settings).items()),
            # Without it, further calls would wait in an unbounded queue; grpcio answers
            # them RESOURCE_EXHAUSTED.
            maximum_concurrent_rpcs=self._arrivals.threads,
        )
        service = PredictionService(predictor, settings, memory)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(settings, predictor), self._server
        )
        self._server.add_generic_rpc_handlers([InferenceService(service, settings).handler()])
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )
        address = addresses.format_address(settings.host, settings.grpc_port)
        if certificate:
            self._server.add_secure_port(address, grpc.ssl_server_credentials([certificate]))
        else:
            self._server.add_insecure_port(address)

    def start(self) -> None:
        self._server.start()
        threading.Thread(target=self._check, name="grpc-check", daemon=True).start()

    def _check(self) -> None:
        while not self._stopped.wait(CHECK_SECONDS):
            self._arrivals.cancel_overdue()
            self._health.refresh()

    def drain(self) -> None:
        """Report NOT_SERVING, refuse new calls, and let running ones finish.

        Returns at once.
        """
        self._draining = True
        self._health.enter_graceful_shutdown()
        self._server.stop(self._grace)

    def close(self) -> None:
        """Wait for the running calls if the server drains, else cancel them."""
        if self._draining:
            self._calls.wait_until_none(self._grace)
        self._server.stop(None)
        self._stopped.set()
