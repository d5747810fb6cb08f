"""The gateway before Ray Serve's gRPC proxies, of which a stub plays the part: applications that come, go and die."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from support import colour_photos
from support.ports import free_port
from support.refusals import assert_refused
from support.stub_engine import StubEngine
from support.waiting import wait_until

RED = colour_photos.encode(colour_photos.plain(), "JPEG")
MODELS, LIST = "tensorflow.serving.ModelService", "ray.serve.RayServeAPIService"


class StubRay:
    """A proxy whose applications answer as version 2 of `models` does; `calls` counts by application."""

    def __init__(self, models):
        self.engine = StubEngine(free_port(), models / "inception_v3" / "2")
        self.applications = ["dogsnap-inception_v3-2-00000000"]
        self.calls, self.deaths, self._lock = [], 0, threading.Lock()
        self.sent_along = []  # the metadata of each call

    def __enter__(self) -> "StubRay":
        self.port = free_port()
        self._server = grpc.server(ThreadPoolExecutor(16))
        predict = grpc.unary_unary_rpc_method_handler(self._answer("answer"))
        metadata = grpc.unary_unary_rpc_method_handler(self._answer("tell"))
        status = grpc.unary_unary_rpc_method_handler(self._status)
        listing = grpc.unary_unary_rpc_method_handler(self._list)
        for service, handlers in (
            (
                "tensorflow.serving.PredictionService",
                {"Predict": predict, "GetModelMetadata": metadata},
            ),
            (MODELS, {"GetModelStatus": status}),
            (LIST, {"ListApplications": listing}),
        ):
            handler = grpc.method_handlers_generic_handler(service, handlers)
            self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _note(self, context: grpc.ServicerContext) -> dict:
        metadata = dict(context.invocation_metadata())
        self.sent_along.append(metadata)
        return metadata

    def _status(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self._note(context)
        return b""

    def _list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self._note(context)
        names = [name.encode() for name in self.applications]
        return b"".join(b"\x0a" + bytes([len(name)]) + name for name in names)

    def _answer(self, what: str):
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            name = self._note(context).get("application")
            if name not in self.applications:
                context.abort(grpc.StatusCode.NOT_FOUND, f"Application '{name}' not found.")
            if what == "tell":
                return self.engine.about
            with self._lock:
                self.calls.append(name)
                dies = self.deaths > 0
                self.deaths -= dies
            if dies:
                context.abort(grpc.StatusCode.INTERNAL, "The actor died.")
            return self.engine.fixed

        return answer


@pytest.fixture
def ray(colour_models):
    with StubRay(colour_models) as ray:
        yield ray


@pytest.fixture
def gateway(ray, start_server, colour_models):
    flags = ("--engine", f"ray://127.0.0.1:{ray.port}", "--poll-seconds", "0.2")
    return start_server(colour_models, *flags)


def classify(gateway):
    response = gateway.classify(RED)
    assert response.status_code == 200, response.text
    return response.json()["model"]["version"]


def test_each_call_names_its_application_and_is_made_again_when_a_replica_dies(ray, gateway):
    assert classify(gateway) == 2
    ray.deaths = 8  # more than gRPC itself makes again
    assert classify(gateway) == 2
    assert ray.deaths == 0
    assert set(ray.calls) == {"dogsnap-inception_v3-2-00000000"}


def test_what_the_target_says_goes_along_with_every_call(ray, start_server, colour_models):
    target = f"ray://127.0.0.1:{ray.port}?token=one"
    gateway = start_server(colour_models, "--engine", target, "--poll-seconds", "0.2")
    assert classify(gateway) == 2
    assert gateway.get("/api/models").status_code == 200  # asks for the status, too
    assert len(ray.sent_along) > 2
    assert {metadata.get("token") for metadata in ray.sent_along} == {"one"}


def test_an_application_that_is_replaced_loses_no_request(ray, gateway):
    assert classify(gateway) == 2
    ray.applications = ["dogsnap-inception_v3-2-11111111", "other-app", "dogsnap-else-1-22222222"]
    assert classify(gateway) == 2
    assert ray.calls[-1] == "dogsnap-inception_v3-2-11111111"


def test_a_version_that_comes_later_can_be_chosen_and_does_not_take_over(ray, gateway):
    assert classify(gateway) == 2
    ray.applications.append("dogsnap-inception_v3-3-33333333")

    def versions() -> list[int]:
        (model,) = gateway.get("/api/models").json()["models"]
        return [each["version"] for each in model["versions"] if each["state"] == "AVAILABLE"]

    wait_until(lambda: versions() == [3, 2])
    assert classify(gateway) == 2
    path = "/api/admin/models/inception_v3/default"
    assert gateway.post(path, json={"version": 4}).status_code == 400
    assert gateway.post(path, json={"version": 3}).status_code == 200
    classify(gateway)
    assert ray.calls[-1] == "dogsnap-inception_v3-3-33333333"


def test_labels_of_the_configuration_and_unknown_models_are_told_as_by_a_server(
    ray, start_server, colour_models, tmp_path
):
    config = tmp_path / "models.config"
    config.write_text(f"""
model_config_list {{ config {{
  name: "inception_v3" base_path: "{colour_models}/inception_v3"
  version_labels {{ key: "now" value: 2 }} version_labels {{ key: "later" value: 5 }} }} }}""")
    address = f"ray://127.0.0.1:{ray.port}"
    gateway = start_server(colour_models, "--engine", address, "--model-config-file", str(config))

    def ask(path: str):
        response = gateway.get(f"/v1/models/{path}")
        return response.status_code, response.text

    code, text = ask("inception_v3/labels/now")
    assert (code, '"version":"2"' in text) == (200, True), text
    code, text = ask("inception_v3/labels/later")
    assert (code, "waits for version 5" in text) == (503, True), text
    code, text = ask("inception_v3/labels/none")
    assert (code, "labels of inception_v3: later, now" in text) == (400, True), text
    code, text = ask("other/metadata")
    assert (code, "Latest(other)" in text) == (404, True), text


def test_it_stays_ready_when_the_folder_of_the_models_is_gone(
    ray, start_server, colour_models, tmp_path
):
    models = Path(shutil.copytree(colour_models, tmp_path / "models"))
    address = f"ray://127.0.0.1:{ray.port}"
    gateway = start_server(models, "--engine", address, "--poll-seconds", "0.2")
    shutil.rmtree(models)
    wait_until(lambda: gateway.classify(RED).status_code == 400)  # no names since the next poll
    assert gateway.get("/v1/models/inception_v3").json()["model_version_status"]
    assert gateway.get("/readyz").status_code == 200


def test_an_answer_above_the_limit_is_refused(ray, start_server, colour_models):
    flags = ("--engine", f"ray://127.0.0.1:{ray.port}", "--max-tensor-body-mb", "1")
    gateway = start_server(colour_models, *flags)
    ray.engine.fixed += bytes(2**21)
    assert_refused(gateway.classify(RED), 413, "the engine's answer is too large")
