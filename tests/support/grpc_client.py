"""The unmodified stubs of tensorflow-serving-api, and predictions by them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc

SECONDS = 60


class Client:
    """A channel to a server, and the stubs on it."""

    def __init__(self, port: int):
        self.target = f"127.0.0.1:{port}"
        self.channel = grpc.insecure_channel(self.target)
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def predict(
        self, model: str, output_filter: tuple[str, ...] = (), signature: str = "", **inputs: Any
    ) -> Any:
        """Ask for a prediction; every input is what tf.make_tensor_proto takes."""
        return self.prediction.Predict(
            predict_request(model, output_filter, signature, **inputs), SECONDS
        )


@contextmanager
def connected(port: int) -> Iterator[Client]:
    client = Client(port)
    with client.channel:
        yield client


def predict_request(
    model: str, output_filter: tuple[str, ...] = (), signature: str = "", **inputs: Any
) -> Any:
    spec = {"name": model, "signature_name": signature}
    request = predict_pb2.PredictRequest(model_spec=spec, output_filter=output_filter)
    for alias, value in inputs.items():
        proto = value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value)
        request.inputs[alias].CopyFrom(proto)
    return request


def values(outputs: Any) -> dict[str, Any]:
    """The outputs of a prediction as nested lists."""
    return {alias: tf.make_ndarray(proto).tolist() for alias, proto in outputs.items()}
