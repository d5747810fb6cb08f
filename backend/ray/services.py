"""The gRPC services of Ray's proxy: TensorFlow Serving's unmodified stubs and the standard health service."""

from typing import Any

from google.protobuf import message_factory
from tensorflow_serving.apis import prediction_service_pb2

SERVICERS = (
    "tensorflow_serving.apis.prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server",
    "tensorflow_serving.apis.model_service_pb2_grpc.add_ModelServiceServicer_to_server",
    "grpc_health.v1.health_pb2_grpc.add_HealthServicer_to_server",
)
PREDICTION = prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"]


def request_class(method: str) -> type[Any]:
    """The request class of a method of PredictionService."""
    return message_factory.GetMessageClass(PREDICTION.methods_by_name[method].input_type)
