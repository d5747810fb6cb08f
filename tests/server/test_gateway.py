"""The gateway: a real server in front of real servers, and of stubs where an engine has to fail or to wait as it is told."""

import base64
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import requests
from dogsnap.commands.serve import checked_settings
from dogsnap.errors import InvalidArgument, Unavailable
from dogsnap.gateway.target import Target
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import HealthServicer
from PIL import Image
from support import colour_photos, stub_engine
from support.contract_table import CASES, make_models
from support.forked import FORKS
from support.loading import Load, span
from support.ports import LOST_PROXY, free_port, listens
from support.process_readings import memory, sample, worker_of
from support.refusals import assert_refused
from support.rest_client import assert_contract
from support.stub_engine import StubEngine
from support.waiting import answers, wait_until
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

pytestmark = pytest.mark.early

RED = colour_photos.encode(colour_photos.plain(), "JPEG")
SECONDS = 60
SERVING, NOT_SERVING = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
)


def classify(server, photo: bytes = RED, **fields) -> requests.Response:
    return server.classify(photo, **fields)


def noisy(size: tuple[int, int], detail: int, quality: int) -> bytes:
    """A JPEG of noise; the larger `detail`, the fewer bytes."""
    shape = size[1] // detail, size[0] // detail, 3
    pixels = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    return colour_photos.encode(
        Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC), "JPEG", quality=quality
    )


LARGE_PHOTO = noisy((600, 600), 1, 98)


def target_of(*servers) -> str:
    return "grpc://" + ",".join(f"127.0.0.1:{server.grpc_port}" for server in servers)


def is_ready(server) -> bool:
    return answers(f"{server.url}/readyz")


@pytest.fixture(scope="module")
def engine(start_server, colour_models):
    return start_server(colour_models)


@pytest.fixture(scope="module")
def gateway(start_server, colour_models, engine):
    return start_server(colour_models, "--engine", target_of(engine), environ=LOST_PROXY)


PHOTOS = {
    "JPEG": RED,
    "PNG": colour_photos.encode(colour_photos.plain(), "PNG"),
    "turned": colour_photos.with_orientation(colour_photos.plain(), 6),
    "broken": RED[: len(RED) // 2],
    "none": b"no photo",
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("photo", PHOTOS.values(), ids=PHOTOS)
def test_a_photo_is_answered_as_the_engine_itself_would(engine, gateway, photo, version):
    ours, theirs = (classify(server, photo, version=version) for server in (gateway, engine))
    for response in (ours, theirs):
        response.body = response.json()
        assert response.body.pop("request_id") == response.headers["X-Request-Id"]
    assert (ours.status_code, ours.body) == (theirs.status_code, theirs.body)


def test_a_number_for_an_image_is_refused_by_engine_and_gateway_alike(engine, gateway):
    for server in (engine, gateway):
        number = server.post("/v1/models/inception_v3/versions/1:predict", json={"inputs": 0.5})
        assert_refused(number, 400, "shape")


def test_names_and_labels_that_are_no_utf_8_are_refused_by_engine_and_gateway_alike(
    engine, gateway
):
    for server in (engine, gateway):
        unnamed = server.post("/", json={"model_name": "\ud800", "data": {}})
        assert_refused(unnamed, 400, "Half a character came alone")


def test_labels_and_shares_are_the_engines_and_a_label_that_moves_is_followed_and_counted(
    engine, gateway
):
    model = "/api/admin/models/inception_v3"
    for version in (1, 2):  # the one takes images, the other files
        engine.post(f"{model}/labels/stable", json={"version": version}).raise_for_status()
        assert classify(gateway, label="stable").json()["model"] == {
            "name": "inception_v3",
            "version": version,
        }
        routed = f'label="stable",model="inception_v3",version="{version}"'
        assert sample(gateway, "dogsnap_routed_requests_total", routed) == 1
    assert predictions(gateway) >= 2
    engine.post(f"{model}/labels/stable", json={"version": None}).raise_for_status()
    gone = classify(gateway, label="stable")
    assert (gone.status_code, "Unrecognized servable version label: stable" in gone.text) == (
        400,
        True,
    )

    def versions(server) -> list[int]:
        answered = [server.classify(RED, {"X-Request-Key": str(number)}) for number in range(20)]
        return [each.json()["model"]["version"] for each in answered]

    engine.post(
        f"{model}/split", json={"version": 1, "percent": 50, "force": True}
    ).raise_for_status()
    ours = versions(gateway)
    assert ours == versions(engine)
    assert set(ours) == {1, 2}
    engine.post(f"{model}/split", json={"version": None, "percent": 0}).raise_for_status()


def test_what_there_is_is_told_as_the_engine_tells_it_and_loading_is_left_to_it(engine, gateway):
    def model_of(server) -> dict:
        (model,) = server.get("/api/models").json()["models"]
        return model

    wait_until(lambda: model_of(gateway)["default_version"] == 2)  # at the gateway's next poll
    ours, theirs = model_of(gateway), model_of(engine)
    assert theirs["default_version"] == 2
    for name in ("version", "state"):
        assert [each[name] for each in ours["versions"]] == [
            each[name] for each in theirs["versions"]
        ]
    assert [each["classes"] for each in theirs["versions"]] == [3, 3]
    assert ours["versions"][0]["classes"] == 3
    assert ours["versions"][1]["classes"] in (None, 3)  # not known before somebody asks for it
    unload = gateway.post("/api/admin/models/inception_v3/versions/1/unload", json={})
    assert_refused(unload, 501, "load versions of inception_v3 themselves")


def test_without_names_of_breeds_in_the_models_folder_tensors_are_answered(
    start_server, engine, tmp_path
):
    gateway = start_server(tmp_path, "--engine", target_of(engine))
    assert asked_as_tensor(gateway, RED).json()["predictions"][0]["dog"] > 0.5
    assert_refused(
        classify(gateway), 400, "inception_v3/2/assets.extra/dogsnap.json of this server (--models"
    )


def asked_as_tensor(server, photo: bytes) -> requests.Response:
    body = {"signature_name": "scores", "instances": [{"b64": base64.b64encode(photo).decode()}]}
    return server.post("/v1/models/inception_v3:predict", json=body)


@pytest.fixture(scope="module")
def contract_gateway(start_server, tmp_path_factory):
    models = tmp_path_factory.mktemp("contract_models")
    flags = "--model-config-file", str(make_models(models))
    return start_server(models, *flags, "--engine", target_of(start_server(models, *flags)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_gateway_keeps_tensorflow_servings_contract(contract_gateway, case):
    assert_contract(contract_gateway, case)


@pytest.fixture(scope="module")
def stub(colour_models):
    with StubEngine(free_port(), colour_models / "inception_v3" / "2") as stub:
        yield stub


@pytest.fixture(scope="module")
def stub_gateway(start_server, colour_models, stub):
    return start_server(
        colour_models, "--engine", f"{stub.target}?application=dogs", "--deadline-ms", "3000"
    )


@contextmanager
def answering(stub, answer, tell=None):
    at_once = stub.answer, stub.tell
    stub.answer, stub.tell = answer, tell or stub.tell
    try:
        yield
    finally:
        stub.answer, stub.tell = at_once


class Held:
    """An answer of Predict that waits until `go_on` is set; `arrived` has an entry for each question."""

    def __init__(self, stub: StubEngine):
        self.arrived, self.go_on = [], threading.Event()
        self._answer = stub.fixed

    def __call__(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.arrived.append(context)
        self.go_on.wait(SECONDS)
        return self._answer


def test_request_id_key_and_deadline_and_what_the_target_says_go_along(stub, stub_gateway):
    seen = []

    def note(request: bytes, context: grpc.ServicerContext) -> bytes:
        seen.append((dict(context.invocation_metadata()), context.time_remaining()))
        return stub.fixed

    headers = {"Content-Type": "image/jpeg", "X-Request-Id": "one-2", "X-Request-Key": "phone"}
    with answering(stub, note):
        response = stub_gateway.post("/api/classify", RED, headers=headers)
    response.raise_for_status()
    ((metadata, seconds),) = seen
    assert (metadata["x-request-id"], metadata["x-request-key"], metadata["application"]) == (
        "one-2",
        "phone",
        "dogs",
    )
    assert 0 < seconds <= 3


NOT_FOUND = grpc.StatusCode.NOT_FOUND
THEIRS, FAILED = "the engine's words", "the engine behind this server failed"
CODES = {
    "INVALID_ARGUMENT": (415, THEIRS),
    "FAILED_PRECONDITION": (400, THEIRS),
    "NOT_FOUND": (404, THEIRS),
    "UNIMPLEMENTED": (501, THEIRS),
    "RESOURCE_EXHAUSTED": (503, THEIRS),
    "UNAVAILABLE": (503, THEIRS),
    "DEADLINE_EXCEEDED": (504, "deadline"),
    "INTERNAL": (502, FAILED),
    "UNKNOWN": (502, FAILED),
    "PERMISSION_DENIED": (502, FAILED),
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("photo", [RED, LARGE_PHOTO], ids=["small", "large"])
def test_an_error_of_the_engines_has_the_right_status_and_says_whose_it_is(
    stub, stub_gateway, code, photo
):
    status, says = CODES[code]
    with answering(stub, lambda request, context: context.abort(grpc.StatusCode[code], THEIRS)):
        response = classify(stub_gateway, photo)
    assert_refused(response, status, says)
    assert ("Retry-After" in response.headers) == (status == 503)
    assert (
        sample(stub_gateway, "dogsnap_engine_failures_total", f'call="Predict",code="{code}"') >= 1
    )
    if status == 502:
        number = response.json()["request_id"]
        assert f"request {number} failed at the engine: {code} {THEIRS}" in stub_gateway.log()


def test_a_file_that_an_engines_graph_lacks_is_not_the_clients_fault(stub, stub_gateway):
    """TensorFlow Serving answers NOT_FOUND, as for a version that it has not."""
    said = "/srv/vocabulary.txt; No such file or directory\n\t [[{{node ReadFile}}]]"
    with answering(stub, lambda request, context: context.abort(NOT_FOUND, said)):
        response = classify(stub_gateway)
    assert_refused(response, 502, "vocabulary.txt; No such file or directory")
    assert "put it on the server's machine" in response.json()["error"]


def test_a_photo_is_sent_again_to_an_engine_that_had_no_room_however_large_it_is(
    stub, stub_gateway
):
    sizes = []
    assert len(LARGE_PHOTO) > 2 * 2**18  # what gRPC keeps by default

    def full_at_first(request: bytes, context: grpc.ServicerContext) -> bytes:
        sizes.append(len(request))
        return stub.fixed if len(sizes) > 1 else context.abort(grpc.StatusCode.UNAVAILABLE, "full")

    with answering(stub, full_at_first):
        assert classify(stub_gateway, LARGE_PHOTO).status_code == 200
    assert len(sizes) == 2
    assert sizes[0] == sizes[1] > len(LARGE_PHOTO)


def test_an_answer_that_does_not_fit_the_signature_is_the_engines_fault(stub, stub_gateway):
    with answering(stub, lambda request, context: b""):
        response = classify(stub_gateway)
    assert (response.status_code, "does not fit signature scores" in response.text) == (502, True)


@contextmanager
def switched_to(version: int, stub, gateway, outputs: tuple[str, ...]):
    """The engine answers with a version of which the gateway has no folder, and whose outputs are these.

    Each time another number: what a gateway knows of a version holds until its next poll.
    """
    about = get_model_metadata_pb2.GetModelMetadataResponse.FromString(stub.about)
    answer = predict_pb2.PredictResponse.FromString(stub.fixed)
    about.model_spec.version.value = answer.model_spec.version.value = version
    signatures = get_model_metadata_pb2.SignatureDefMap()
    about.metadata["signature_def"].Unpack(signatures)
    told, given = signatures.signature_def["scores"].outputs, answer.outputs
    for alias in outputs:
        if alias not in told:
            told[alias].CopyFrom(told["dog"])
            given[alias].CopyFrom(given["dog"])
    for alias in set(told) - set(outputs):
        del told[alias]
    about.metadata["signature_def"].Pack(signatures)

    def tell(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked = get_model_metadata_pb2.GetModelMetadataRequest.FromString(request).model_spec
        return about.SerializeToString() if asked.version.value == version else stub.about

    wait_until(lambda: classify(gateway).status_code == 200)
    with answering(stub, lambda request, context: answer.SerializeToString(), tell):
        yield
    wait_until(lambda: classify(gateway).status_code == 200)


def test_outputs_and_names_are_those_of_the_version_that_the_engine_has_switched_to(
    stub, stub_gateway
):
    with switched_to(3, stub, stub_gateway, ("prediction", "dog")):
        unnamed = classify(stub_gateway)
    assert_refused(
        unnamed, 400, "inception_v3/3/assets.extra/dogsnap.json of this server (--models"
    )
    with switched_to(4, stub, stub_gateway, ("prediction", "dog", "cat")):
        assert set(asked_as_tensor(stub_gateway, RED).json()["predictions"][0]) == {
            "prediction",
            "dog",
            "cat",
        }
    with switched_to(5, stub, stub_gateway, ("dog", "cat")):
        lacking = classify(stub_gateway)
    assert_refused(
        lacking,
        503,
        "just switched to inception_v3 version 5, which gives other outputs; try again",
    )
    assert lacking.headers["Retry-After"] == "1"


def test_questions_to_an_engine_that_hangs_take_places_and_keep_the_deadline(
    start_server, colour_models, stub
):
    small = "--run-threads", "1", "--queue-size", "1", "--deadline-ms", "4000"
    gateway = start_server(colour_models, "--engine", stub.target, *small)
    go_on, asked, seconds = threading.Event(), 10, []

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        if get_model_metadata_pb2.GetModelMetadataRequest.FromString(
            request
        ).model_spec.version_label:
            seconds.append(context.time_remaining())
            go_on.wait(SECONDS)
        return stub.about

    with concurrent.futures.ThreadPoolExecutor(asked) as pool, answering(stub, stub.answer, hang):
        answers = [
            pool.submit(classify, gateway, label=f"label{number}") for number in range(asked)
        ]
        wait_until(lambda: len(seconds) >= 2)
        status = gateway.get("/v1/models/inception_v3")
        codes = {each.result().status_code for each in answers}
        go_on.set()
    assert codes == {503, 504}
    assert status.json()["model_version_status"][0]["state"] == "AVAILABLE"
    assert 0 < max(seconds) < 4.5  # of 5, without the deadline


@pytest.mark.parametrize("photo", [RED, LARGE_PHOTO], ids=["small", "large"])
def test_an_engine_that_is_too_slow_is_504_at_the_deadline(stub, stub_gateway, photo):
    held = Held(stub)
    with answering(stub, held):
        started = time.monotonic()
        response = classify(stub_gateway, photo)
        seconds = time.monotonic() - started
        held.go_on.set()
    assert (response.status_code, 3 <= seconds < SECONDS / 2) == (504, True)


def test_slow_answers_do_not_delay_other_requests(stub, stub_gateway):
    held, at_once = Held(stub), stub.answer
    with concurrent.futures.ThreadPoolExecutor(24) as pool, answering(stub, held):
        asked = [pool.submit(classify, stub_gateway) for _ in range(24)]
        wait_until(
            lambda: len(held.arrived) == 24, 2
        )  # before the first deadline: three times as many as run threads
        stub.answer = at_once
        assert classify(stub_gateway).status_code == 200
        held.go_on.set()
        assert {each.result().status_code for each in asked} == {200}


def test_readiness_follows_the_engines_health_and_its_going_and_coming(start_server, colour_models):
    """The engine that goes has no ModelService, the one that comes tells no health."""
    port, health = free_port(), HealthServicer()
    health.set("", SERVING)
    with StubEngine(
        port, colour_models / "inception_v3" / "2", with_status=False, health=health
    ) as stub:
        gateway = start_server(colour_models, "--engine", stub.target, "--poll-seconds", "0.2")
        assert classify(gateway).json()["breeds"][0]["name"] == "red dog"
        assert gateway.get("/v1/models/inception_v3").json()["model_version_status"]
        health.set("", NOT_SERVING)
        wait_until(lambda: not is_ready(gateway))
        refused = classify(gateway)
        assert_refused(refused, 503, "no engine behind this server can answer now")
        assert int(refused.headers["Retry-After"]) >= 1
        health.set("", SERVING)
        wait_until(lambda: is_ready(gateway))
        assert classify(gateway).status_code == 200
    wait_until(lambda: not is_ready(gateway))
    assert classify(gateway).status_code == 503
    with StubEngine(port, colour_models / "inception_v3" / "2"):
        wait_until(lambda: is_ready(gateway))
        assert classify(gateway).status_code == 200


def predictions(gateway) -> float:
    """How many calls to predict have ended."""
    return sample(gateway, "dogsnap_engine_seconds_count", 'call="Predict"')


def test_of_two_engines_one_may_be_killed_without_a_request_lost(start_server, sleeper):
    engines = [start_server(sleeper) for _ in range(2)]
    gateway = start_server(sleeper, "--engine", target_of(*engines))
    load = Load(gateway, "/v1/models/sleeper:predict", 0.05, 600, clients=8)
    for engine in engines:
        wait_until(lambda engine=engine: sample(engine, "dogsnap_places_held") > 0)
    worker = worker_of(engines[0])
    os.kill(engines[0].process.pid, signal.SIGKILL)  # else it would start another worker
    os.kill(worker, signal.SIGKILL)
    so_far = predictions(gateway)
    wait_until(lambda: predictions(gateway) > so_far + 100)
    asked = load.stop()
    failed = [each for each in asked if each.status != 200]
    print(f"\n{len(asked)} requests, one of two engines killed: {len(failed)} lost")
    assert failed == []
    assert is_ready(gateway)


@pytest.mark.long
def test_of_two_engines_one_may_fall_silent_without_a_request_lost(start_server, sleeper):
    engines = [start_server(sleeper) for _ in range(2)]
    gateway = start_server(sleeper, "--engine", target_of(*engines))
    silent = worker_of(engines[0])
    os.kill(
        silent, signal.SIGSTOP
    )  # its connections stay open, as those of a machine without power do
    try:
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = pool.map(
                lambda _: gateway.post("/v1/models/sleeper:predict", json={"inputs": [0.05]}),
                range(100),
            )
            statuses = [each.status_code for each in asked]
        seconds = time.monotonic() - started
    finally:
        os.kill(silent, signal.SIGCONT)
    print(
        f"\n100 requests, one of two engines silent: {100 - statuses.count(200)} lost, {seconds:.0f} s"
    )
    assert set(statuses) == {200}
    assert seconds < SECONDS


def test_one_engine_or_several_are_a_target_and_what_is_none_is_refused_without_showing_what_goes_along():
    assert Target.parse("grpc://dogs.svc:8500,127.0.0.1:1").has_names
    several = Target.parse("grpc://[::1]:1, 127.0.0.1:2/?key=value")
    assert (several.hosts, several.has_names) == ((("::1", 1), ("127.0.0.1", 2)), False)
    assert several.metadata == (("key", "value"),)
    for text in (
        "",
        "http://a:1",
        "grpc://a",
        "grpc://a:0",
        "grpc://a:1,",
        "grpc://a:1?Key=x",
        "grpc://a:1?a=\n",
    ):
        with pytest.raises(InvalidArgument, match="--engine"):
            Target.parse(text)
    with pytest.raises(InvalidArgument, match="expected grpc://host:port") as refused:
        checked_settings(engine="http://host:8500?x-api-key=secret")
    assert "secret" not in refused.value.message
    with pytest.raises(Unavailable, match="has no address"):
        checked_settings(engine="grpc://no.such.host.invalid:1,127.0.0.1:2")


# Limits, checks, metrics and the app's words for an answer cost about as much as the bare minimum does: 0.45 to 0.6 measured.
OF_THE_PLAIN_RATE = 1 / 3
PHOTO_BYTES = 30_000
ROUNDS, ROUND_SECONDS, CLIENTS = 2, 1, 16
# Of a photo while the engine runs it: itself, what gRPC sends, and a little for the thread; and when it is answered.
COPIES, LEFT = 2.3, 0.3
pinned = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2 or not shutil.which("taskset"),
    reason="a second core, or taskset, is missing: the engine and the client are to run beside the gateway",
)


@pytest.fixture
def instant_engine(colour_models):
    """The ports of an engine that answers at once, on the second core, and of `plain_gateway` before it, on the first."""
    first, second, port, gateway_port = (
        *sorted(os.sched_getaffinity(0))[:2],
        free_port(),
        free_port(),
    )
    model = colour_models / "inception_v3" / "2"
    engine = FORKS.Process(target=stub_engine.serve, args=(port, model, second), daemon=True)
    engine.start()
    gunicorn = ("gunicorn", "--threads", "64", "--no-control-socket", "--log-level", "warning")
    command = [
        sys.executable,
        "-m",
        *gunicorn,
        "--bind",
        f"127.0.0.1:{gateway_port}",
        "plain_gateway:app",
    ]
    environ = {**os.environ, "ENGINE": f"127.0.0.1:{port}"}
    folder = Path(__file__).parents[1] / "support"
    with subprocess.Popen(
        ["taskset", "-c", str(first), *command], cwd=folder, env=environ
    ) as gateway:
        try:
            wait_until(lambda: listens(gateway_port))
            yield port, gateway_port
        finally:
            gateway.terminate()
            engine.kill()
            engine.join()


@pytest.mark.long
@pinned
def test_a_third_of_the_rate_without_limits_and_checks_is_kept(
    start_server, colour_models, instant_engine
):
    port, plain_port = instant_engine
    first, second = [("taskset", "-c", str(core)) for core in sorted(os.sched_getaffinity(0))[:2]]
    photo = noisy((640, 480), 8, 22)
    assert PHOTO_BYTES <= len(photo) < 1.1 * PHOTO_BYTES
    text = base64.b64encode(photo).decode()
    gateway = start_server(colour_models, "--engine", f"grpc://127.0.0.1:{port}", prefix=first)
    tensor = {"signature_name": "scores", "instances": [{"b64": text}]}
    asked = {
        "plain": (SimpleNamespace(url=f"http://127.0.0.1:{plain_port}"), "/", {"image": text}),
        "app": (gateway, "/api/classify", {"image": text}),
        "REST": (gateway, "/v1/models/inception_v3:predict", tensor),
    }
    rates = dict.fromkeys(asked, 0.0)
    for _ in range(
        ROUNDS
    ):  # one after the other: a processor that others use as well changes its speed within seconds
        for name, (server, path, body) in asked.items():
            answered = Load(server, path, body, ROUND_SECONDS, second, clients=CLIENTS).answers()
            assert {each.status for each in answered} == {200}
            rates[name] = max(rates[name], len(answered) / span(answered))
    print(
        f"\nphotos of {len(photo)} bytes a second on one core: { ({name: round(rates[name]) for name in rates}) }"
    )
    assert min(rates.values()) >= OF_THE_PLAIN_RATE * rates["plain"]


def asked_by_form(server, photo: bytes) -> requests.Response:
    return server.post("/api/classify", files={"image": photo})


@pytest.mark.long
@pytest.mark.parametrize("ask", [classify, asked_as_tensor, asked_by_form])
def test_of_a_photo_at_the_engine_there_is_one_copy(start_server, stub, colour_models, ask):
    photo, count, held = noisy((1000, 1000), 1, 98), 32, Held(stub)
    gateway = start_server(colour_models, "--engine", stub.target)

    def copies_held() -> float:
        return (memory(worker_of(gateway)) - before) * 2**20 / count / len(photo)

    ask(gateway, photo).raise_for_status()
    before = memory(worker_of(gateway))
    with concurrent.futures.ThreadPoolExecutor(count) as pool, answering(stub, held):
        asked = [pool.submit(ask, gateway, photo) for _ in range(count)]
        wait_until(lambda: len(held.arrived) == count)
        copies = copies_held()
        held.go_on.set()
        assert {each.result().status_code for each in asked} == {200}
    print(
        f"\n{count} photos of {len(photo) / 2**20:.1f} MiB at the engine: {copies:.2f} times as much in memory"
    )
    assert copies < COPIES
    wait_until(lambda: copies_held() < LEFT)
