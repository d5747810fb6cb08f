"""The gRPC services that Ray's proxy offers: TensorFlow Serving's own stubs, unmodified, and the standard health service.

It answers nothing.
"""

from typing import Any

from google.protobuf import message_factory
from grpc_health.v1 import health_pb2
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

SERVICERS = (
    "tensorflow_serving.apis.prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server",
    "tensorflow_serving.apis.model_service_pb2_grpc.add_ModelServiceServicer_to_server",
    "grpc_health.v1.health_pb2_grpc.add_HealthServicer_to_server",
)
FILES = (prediction_service_pb2.DESCRIPTOR, model_service_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR)


def methods() -> dict[str, Any]:
    """The descriptors of all methods, by their names, of which no two services have the same."""
    services = [service for file in FILES for service in file.services_by_name.values()]
    return {method.name: method for service in services for method in service.methods}


def request_class(method: str) -> type:
    return message_factory.GetMessageClass(methods()[method].input_type)
