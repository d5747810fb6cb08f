"""The unmodified stubs of tensorflow-serving-api, and predictions by them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc

SECONDS = 60


class WithToken(grpc.UnaryUnaryClientInterceptor):
    """Sends an admin token with every call."""

    def __init__(self, token: str):
        self._own = ("authorization", f"Bearer {token}")

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        sent = ClientCallDetails(
            details.method,
            details.timeout,
            [*(details.metadata or ()), self._own],
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )
        return continuation(sent, request)


class ClientCallDetails(NamedTuple):
    """grpc.ClientCallDetails, which gives no class to make one of."""

    method: str
    timeout: float | None
    metadata: list
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class Client:
    """A channel to a server, and the stubs on it."""

    def __init__(self, port: int, token: str = ""):
        self.target = f"127.0.0.1:{port}"
        self.channel = grpc.insecure_channel(self.target)
        asked = grpc.intercept_channel(self.channel, WithToken(token)) if token else self.channel
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(asked)
        self.models = model_service_pb2_grpc.ModelServiceStub(asked)

    def predict(
        self, model: str, output_filter: tuple[str, ...] = (), signature: str = "", **inputs: Any
    ) -> Any:
        """Ask for a prediction; every input is what tf.make_tensor_proto takes."""
        return self.prediction.Predict(
            predict_request(model, output_filter, signature, **inputs), SECONDS
        )


@contextmanager
def connected(port: int, token: str = "") -> Iterator[Client]:
    """`token`: sent with every call, for those that administer."""
    client = Client(port, token)
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
