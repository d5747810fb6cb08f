"""A PredictionService that runs no model: it answers at once, or as it is told, with the signatures of a real version."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import any_pb2
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import HealthServicer
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

PREDICTION, MODELS = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
Handler = Callable[[bytes, grpc.ServicerContext], bytes]


def metadata(version_dir: Path, spec: dict[str, Any]) -> bytes:
    """The answer to GetModelMetadata about a version folder."""
    graph = saved_model_pb2.SavedModel.FromString(
        (version_dir / "saved_model.pb").read_bytes()
    ).meta_graphs[0]
    packed = any_pb2.Any()
    packed.Pack(get_model_metadata_pb2.SignatureDefMap(signature_def=graph.signature_def))
    response = get_model_metadata_pb2.GetModelMetadataResponse(
        model_spec=spec, metadata={"signature_def": packed}
    )
    return response.SerializeToString()


def prediction(spec: dict[str, Any]) -> bytes:
    """The answer to Predict: a red dog, whatever the photo shows."""
    outputs = {"prediction": floats((1, 3), [0.9, 0.06, 0.04]), "dog": floats((1,), [0.99])}
    return predict_pb2.PredictResponse(model_spec=spec, outputs=outputs).SerializeToString()


def floats(shape: tuple[int, ...], values: list[float]) -> tensor_pb2.TensorProto:
    sizes = {"dim": [{"size": size} for size in shape]}
    return tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_shape=sizes, float_val=values)


class StubEngine:
    """The service of a version folder on `port`, inside a `with` block.

    `answer` says what Predict does, `tell` what GetModelMetadata does, `state` what GetModelStatus does.
    `with_status`: it also has ModelService; `health`: it also tells its health, which `health.set("", ...)` changes.
    """

    def __init__(
        self,
        port: int,
        version_dir: Path,
        with_status: bool = True,
        health: HealthServicer | None = None,
        host: str = "127.0.0.1",
    ):
        version = int(version_dir.name)
        spec = {"name": "inception_v3", "version": {"value": version}}
        self.fixed, self.about = prediction(spec), metadata(version_dir, spec)
        self.answer: Handler = lambda request, context: self.fixed
        self.tell: Handler = lambda request, context: self.about
        self.state: Handler = self._tell_versions
        self.versions = {version}  # those that its status tells
        self._server = grpc.server(
            ThreadPoolExecutor(64), options=[("grpc.max_receive_message_length", -1)]
        )
        self._serve(PREDICTION, Predict=self._predict, GetModelMetadata=self._metadata)
        if with_status:
            self._serve(MODELS, GetModelStatus=self._status)
        if health is not None:
            health_pb2_grpc.add_HealthServicer_to_server(health, self._server)
        self._server.add_insecure_port(f"{host}:{port}")
        self.target = f"grpc://{host}:{port}"

    def _predict(self, *call: Any) -> bytes:
        return self.answer(*call)

    def _metadata(self, *call: Any) -> bytes:
        return self.tell(*call)

    def _status(self, *call: Any) -> bytes:
        return self.state(*call)

    def _tell_versions(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        states = [{"version": version, "state": "AVAILABLE"} for version in sorted(self.versions)]
        status = get_model_status_pb2.GetModelStatusResponse(model_version_status=states)
        return status.SerializeToString()

    def _serve(self, service: str, **methods: Handler) -> None:
        """Messages stay bytes: what answers at once is to spend no time on reading them."""
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(each) for name, each in methods.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, handlers),)
        )

    def drain(self) -> None:
        """Refuse new calls; those that run have half a minute."""
        self._server.stop(30)

    def __enter__(self) -> "StubEngine":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.stop(None).wait()


def serve(port: int, version_dir: Path, core: int) -> None:
    """Answer at once on one core, for ever: for a process of its own."""
    os.sched_setaffinity(0, {core})
    with StubEngine(port, version_dir):
        threading.Event().wait()
