"""Engines behind a gateway fail each for itself: real servers, and stubs where one has to hang as it is told."""

import os
import signal
import socket
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import grpc
import pytest
from dogsnap.errors import EngineFailed, Unavailable
from dogsnap.gateway import engines as module
from dogsnap.gateway.client import OWN_FAULTS, EngineClient
from dogsnap.gateway.target import Target
from dogsnap.routing.spec import ModelSpec
from dogsnap.serving.metrics import Metrics
from support import colour_photos
from support.ports import free_port
from support.process_readings import most_seconds, sample, worker_of
from support.refusals import assert_refused
from support.stub_engine import StubEngine, metadata, prediction
from support.tiny_models import half_plus
from support.waiting import answers, wait_until
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

RED = colour_photos.encode(colour_photos.plain(), "JPEG")
MODEL = ModelSpec("inception_v3")
STATUS = "/v1/models/inception_v3"
RATE, SECONDS = 20, 4  # requests a second, and how long
DEADLINE_MS = 3500
PLACES = ("--run-threads", "4", "--queue-size", "12", "--deadline-ms", str(DEADLINE_MS))


@pytest.fixture
def version(colour_models):
    return colour_models / "inception_v3" / "2"


@contextmanager
def that_says_nothing(version, start_server):
    """It takes the connection, and never sends a byte."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}", lambda: None


@contextmanager
def that_is_stopped(version, start_server):
    """As a machine that swaps: the connections stay open."""
    with start_server(version.parents[1]) as engine:
        worker = worker_of(engine)
        try:
            yield f"127.0.0.1:{engine.grpc_port}", lambda: os.kill(worker, signal.SIGSTOP)
        finally:
            os.kill(worker, signal.SIGCONT)


@contextmanager
def whose_runs_are_stuck(version, start_server):
    """It says that all is well, and answers no request."""
    go_on = threading.Event()

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        go_on.wait(60)
        return engine.fixed

    with StubEngine(free_port(), version) as engine:
        yield engine.target.removeprefix("grpc://"), lambda: setattr(engine, "answer", hang)
        go_on.set()


@pytest.mark.parametrize(
    "hanging", [that_says_nothing, that_is_stopped, whose_runs_are_stuck], ids=lambda f: f.__name__
)
def test_one_engine_that_hangs_costs_at_most_the_requests_that_are_there(
    hanging, version, start_server
):
    with (
        StubEngine(free_port(), version) as engine,
        hanging(version, start_server) as (address, hang),
    ):
        target = f"{engine.target},{address}"
        gateway = start_server(version.parents[1], "--engine", target, *PLACES)
        time.sleep(1.5)  # both are known
        hang()
        seconds, statuses, began = [], [], time.monotonic()

        def ask(number: int) -> None:
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            asked = time.monotonic()
            statuses.append(gateway.classify(RED).status_code)
            seconds.append(time.monotonic() - asked)

        with ThreadPoolExecutor(RATE * SECONDS) as pool:
            list(pool.map(ask, range(RATE * SECONDS)))
        lost = len(statuses) - statuses.count(200)
        print(f"\n{len(statuses)} requests, {lost} lost, at most {max(seconds):.1f} s")
        assert set(statuses) <= {200, 504}  # never "the server is full"
        assert lost <= (module.AHEAD + 2 if hanging is whose_runs_are_stuck else 0)
        if hanging is not whose_runs_are_stuck:
            wait_until(lambda: sample(gateway, "dogsnap_engines_silent") == 1)
            shown = gateway.get("/console/models").text
            assert f"the engine at {address} does not answer" in shown
            assert max(seconds) < DEADLINE_MS / 1000
        assert answers(f"{gateway.url}/readyz")


@pytest.mark.parametrize("door", ["tell", "state"])
def test_an_engine_that_hangs_when_it_is_asked_leaves_the_others_questions_and_readiness_alone(
    door, start_server, version
):
    """It answers photos; of what it is asked for it says nothing: what a version takes, or which there are."""
    go_on = threading.Event()
    with StubEngine(free_port(), version) as engine, StubEngine(free_port(), version) as hanging:
        target = f"{engine.target},{hanging.target.removeprefix('grpc://')}"
        flags = ("--engine", target, "--poll-seconds", "0.2", *PLACES)
        gateway = start_server(version.parents[1], *flags)
        answered = getattr(hanging, door)

        def hang(*call) -> bytes:
            go_on.wait(60)
            return answered(*call)

        setattr(hanging, door, hang)
        statuses, seconds, end = [], [], time.monotonic() + 10

        def ask(path: str) -> None:
            while time.monotonic() < end:
                asked = time.monotonic()
                answer = gateway.get(path) if path else gateway.classify(RED)
                statuses.append(answer.status_code)
                if path == STATUS:
                    seconds.append(time.monotonic() - asked)
                time.sleep(0.1)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(ask, ["", "/readyz", "/api/models", STATUS, STATUS, STATUS]))
        go_on.set()
    assert set(statuses) == {200}
    assert statistics.median(seconds) < most_seconds(1)


def test_a_slow_engine_holds_no_more_than_a_few_requests_above_the_others(version, start_server):
    with StubEngine(free_port(), version) as engine, StubEngine(free_port(), version) as slow:

        def slowly(request: bytes, context: grpc.ServicerContext) -> bytes:
            time.sleep(1.5)
            return slow.fixed

        target = f"{engine.target},{slow.target.removeprefix('grpc://')}"
        gateway = start_server(version.parents[1], "--engine", target, *PLACES)
        time.sleep(1.5)
        slow.answer = slowly
        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(gateway.classify, RED) for _ in range(200)]
            statuses = [each.result().status_code for each in asked]
    assert set(statuses) == {200}


def serve_versions(engine: StubEngine, folder: Path) -> None:
    """Let it answer as of the versions that it has, and else say that there is no such version."""

    def version_of(message, request: bytes, context: grpc.ServicerContext) -> dict:
        asked = message.FromString(request).model_spec
        number = asked.version.value if asked.HasField("version") else max(engine.versions)
        if number not in engine.versions:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found: Specific({number})")
        return {"name": "inception_v3", "version": {"value": number}}

    def tell(request: bytes, context: grpc.ServicerContext) -> bytes:
        message = get_model_metadata_pb2.GetModelMetadataRequest
        return metadata(folder, version_of(message, request, context))

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        return prediction(version_of(predict_pb2.PredictRequest, request, context))

    engine.versions, engine.tell, engine.answer = {1, 2}, tell, answer


@pytest.mark.parametrize("label", [None, "stable"])
def test_an_engine_that_comes_back_without_the_chosen_version_leaves_it_to_the_other_and_is_named(
    start_server, version, label
):
    with StubEngine(free_port(), version) as first, StubEngine(free_port(), version) as second:
        for engine in (first, second):
            serve_versions(engine, version)
        target = f"{first.target},{second.target.removeprefix('grpc://')}"
        gateway = start_server(version.parents[1], "--engine", target, "--poll-seconds", "0.2")

        def listed() -> dict[int, str]:
            model = gateway.get("/api/admin/models/inception_v3").json()["model"]
            return {each["version"]: each["error"] + each["note"] for each in model["versions"]}

        path = f"labels/{label}" if label else "default"
        url = f"/api/admin/models/inception_v3/{path}"
        gateway.post(url, json={"version": 2}).raise_for_status()
        second.versions = {1}
        asked = {"label": label} if label else {}
        assert {gateway.classify(RED, **asked).status_code for _ in range(10)} == {200}
        wait_until(lambda: sample(gateway, "dogsnap_engines_lacking") == 1)
        assert {gateway.classify(RED, **asked).status_code for _ in range(10)} == {200}
        assert listed() == {2: "1 of 2 engines lack it", 1: ""}
        lacks = "lacks version 2 of inception_v3, which is chosen"
        wait_until(lambda: lacks in gateway.log())
        shown = gateway.get("/console/models").text
        assert lacks in shown
        assert "/versions/1/unload" not in shown  # engines load their versions themselves
        assert answers(f"{gateway.url}/readyz")
        first.versions = {1}
        refused = gateway.classify(RED, **asked)
        gone = "version 2 of inception_v3, which is chosen, is at no engine"
        assert_refused(refused, 503, gone)
        wait_until(lambda: sample(gateway, "dogsnap_engines_lacking") == 2)
        assert_refused(gateway.classify(RED, **asked), 503, gone)
        assert listed()[2] == gone
        assert f"Version 2 does not answer: {gone}. " in gateway.get("/console/models").text
        assert gateway.classify(RED, version=2).status_code == 404
        assert gateway.classify(RED, version=1).status_code == 200
        if label:  # it costs itself
            assert answers(f"{gateway.url}/readyz")
        else:
            wait_until(lambda: gone in text_of(gateway))


@pytest.mark.parametrize("label", ["", "stable"])
def test_the_share_of_a_version_that_no_engine_has_goes_to_the_other_side_of_the_split(
    start_server, version, label
):
    with StubEngine(free_port(), version) as engine:
        serve_versions(engine, version)
        flags = ("--engine", engine.target, "--poll-seconds", "0.2")
        gateway = start_server(version.parents[1], *flags)
        setting = f"labels/{label}" if label else "default"
        split = {"version": 2, "percent": 100, "label": label}
        for path, value in [(setting, {"version": 1}), ("split", split)]:
            gateway.post(f"/api/admin/models/inception_v3/{path}", json=value).raise_for_status()

        def answering() -> set[int]:
            asked = {"label": label} if label else {}
            answers = [gateway.classify(RED, **asked) for _ in range(10)]
            return {each.json()["model"]["version"] for each in answers}

        assert answering() == {2}
        engine.versions = {1}
        wait_until(lambda: sample(gateway, "dogsnap_engines_lacking") == 1)
        assert answering() == {1}
        ready = ("/readyz", "/v2/health/ready", "/v2/models/inception_v3/ready")
        assert {route: gateway.get(route).status_code for route in ready} == dict.fromkeys(
            ready, 200
        )
        assert "lacks version 2 of inception_v3" in gateway.get("/console/models").text
        engine.versions = {1, 2}
        wait_until(lambda: answering() == {2})


def test_the_share_of_a_version_whose_only_engine_is_away_goes_to_the_other_side_of_the_split(
    start_server, version
):
    with StubEngine(free_port(), version) as engine, StubEngine(free_port(), version) as newer:
        for each in (engine, newer):
            serve_versions(each, version)
        target = f"{engine.target},{newer.target.removeprefix('grpc://')}"
        gateway = start_server(version.parents[1], "--engine", target, "--poll-seconds", "0.2")
        split = {"version": 2, "percent": 100, "label": ""}
        for path, value in [("default", {"version": 1}), ("split", split)]:
            gateway.post(f"/api/admin/models/inception_v3/{path}", json=value).raise_for_status()

        def answering() -> set[int | None]:
            """The versions; None for a call that is lost where an engine seems silent."""
            answers = [gateway.classify(RED).json() for _ in range(10)]
            return {each.get("model", {}).get("version") for each in answers}

        engine.versions = {1}
        wait_until(lambda: sample(gateway, "dogsnap_engines_lacking") == 1)
        wait_until(lambda: answering() == {2})
        newer.stop()
        wait_until(lambda: sample(gateway, "dogsnap_engines_silent") == 1)
        assert answering() == {1}
        with StubEngine(int(newer.target.rpartition(":")[2]), version) as back:
            serve_versions(back, version)
            wait_until(lambda: answering() == {2})


def test_a_model_that_the_engines_never_had_leaves_readiness_and_lists_to_the_others(
    start_server, tmp_path
):
    half_plus(1, tmp_path / "engine" / "half" / "1")
    half_plus(1, tmp_path / "gateway" / "half" / "1")
    (tmp_path / "gateway" / "photos" / "2024").mkdir(parents=True)
    engine = start_server(tmp_path / "engine")
    target = f"grpc://127.0.0.1:{engine.grpc_port}"
    for flags in ((), ("--default-model", "half")):
        gateway = start_server(tmp_path / "gateway", "--engine", target, *flags)
        assert gateway.post("/v1/models/half:predict", json={"instances": [2.0]}).ok
        for path in ("/api/models", "/api/admin/models"):
            listed = {each["name"]: each["versions"] for each in gateway.get(path).json()["models"]}
            assert (len(listed["half"]), listed["photos"]) == (1, []), path
        assert gateway.get("/console/models").ok
        assert gateway.get("/v1/models/none").status_code == 404
    named = start_server(
        tmp_path / "gateway", "--engine", target, "--default-model", "photos", wait=False
    )
    wait_until(lambda: "photos" in text_of(named))
    engine.stop()
    wait_until(lambda: not answers(f"{gateway.url}/readyz"))


def text_of(server) -> str:
    try:
        return server.get("/readyz").text
    except OSError:
        return ""


class Names:
    """What the resolver says, as it is told; None: nothing."""

    def __init__(self, monkeypatch, *addresses: str):
        self.addresses: tuple[str, ...] | None = addresses
        monkeypatch.setattr(module, "addresses_of", self._resolve)
        monkeypatch.setattr(module, "RESOLVE_SECONDS", 0.05)
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.1)

    def _resolve(self, host: tuple[str, int]) -> list[str]:
        if self.addresses is None:
            raise Unavailable("no address")
        return [f"{address}:{host[1]}" for address in self.addresses]


def test_another_service_at_the_address_of_an_engine_costs_no_request(start_server, version):
    other = grpc.server(ThreadPoolExecutor(2))  # it knows no method
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    with StubEngine(free_port(), version) as engine:
        target = f"{engine.target},127.0.0.1:{port}"
        gateway = start_server(version.parents[1], "--engine", target)
        assert {gateway.classify(RED).status_code for _ in range(10)} == {200}
        assert answers(f"{gateway.url}/readyz")
    other.stop(None).wait()


def refuse(code: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    return lambda _, context: context.abort(grpc.StatusCode[code], "it does not work here")


def test_an_engine_that_answers_with_errors_of_its_own_costs_no_request_and_no_readiness(
    start_server, version
):
    with StubEngine(free_port(), version) as engine, StubEngine(free_port(), version) as broken:
        target = f"{engine.target},{broken.target.removeprefix('grpc://')}"
        gateway = start_server(version.parents[1], "--engine", target, "--poll-seconds", "0.05")

        def statuses() -> set[int]:
            found = [gateway.classify(RED).status_code for _ in range(10)]
            return {*found, *(gateway.get("/readyz").status_code for _ in range(10))}

        well = broken.answer, broken.tell
        for code in (*(code.name for code in OWN_FAULTS), ""):
            broken.answer = refuse(code) if code else lambda *_: b"\xff no answer"
            assert statuses() == {200}, code
        broken.answer = well[0]
        for code in ("INTERNAL", "PERMISSION_DENIED", "FAILED_PRECONDITION"):
            broken.tell = refuse(code)
            assert statuses() == {200}, code


def test_what_makes_every_engine_fail_is_asked_of_one_alone_once_most_calls_fail(
    version, monkeypatch
):
    monkeypatch.setattr("dogsnap.gateway.client.MOST_TOKENS", 10)
    calls = []

    def fail(request: bytes, context: grpc.ServicerContext) -> bytes:
        calls.append(request)
        return refuse("INTERNAL")(request, context)

    with StubEngine(free_port(), version) as first, StubEngine(free_port(), version) as second:
        first.answer = second.answer = fail
        target = Target.parse(f"{first.target},{second.target.removeprefix('grpc://')}")
        with closing(EngineClient(target, -1, Metrics())) as asking:
            for _ in range(50):
                with pytest.raises(EngineFailed):
                    asking.predict(b"", MODEL)
    assert 50 < len(calls) < 60


@pytest.fixture
def fleet(version, monkeypatch):
    """Three engines at one port of three addresses, which answer with their address, and a client of their name."""
    port, counts = free_port(), dict.fromkeys(("127.0.0.2", "127.0.0.3", "127.0.0.4"), 0)
    with ExitStack() as stack:
        for address in counts:
            engine = stack.enter_context(StubEngine(port, version, host=address))

            def answer(request, context, address=address, engine=engine) -> bytes:
                counts[address] += 1
                return engine.fixed

            def tell(request, context, address=address, engine=engine) -> bytes:
                counts[address] += 1
                return engine.about

            engine.answer, engine.tell = answer, tell
        names = Names(monkeypatch, "127.0.0.2")
        client = EngineClient(Target.parse(f"grpc://engines.test:{port}"), -1, Metrics())
        client.watched = ["inception_v3"]
        client.start()
        stack.callback(client.close)
        yield names, client, counts


def shares(call: Callable[[], object], counts: dict[str, int]) -> list[int]:
    """How many of 30 calls each engine gets."""
    before = list(counts.values())
    for _ in range(30):
        call()
    return [now - then for now, then in zip(counts.values(), before, strict=True)]


def test_engines_that_join_a_name_get_their_share_and_those_that_leave_it_none(fleet):
    names, client, counts = fleet
    predict = partial(client.predict, b"", MODEL)
    assert shares(predict, counts) == [30, 0, 0]
    names.addresses = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
    wait_until(lambda: min(shares(predict, counts)) == 10)
    names.addresses = ("127.0.0.4",)
    wait_until(lambda: shares(predict, counts) == [0, 0, 30])
    names.addresses = None  # the resolver is away: those that are known go on
    time.sleep(0.3)
    assert shares(predict, counts) == [0, 0, 30]


def test_two_engines_get_as_many_questions(fleet):
    names, client, counts = fleet
    names.addresses = ("127.0.0.2", "127.0.0.3")
    wait_until(lambda: [each.answers for each in client.engines.all()] == [True, True])
    assert shares(partial(client.metadata, MODEL), counts) == [15, 15, 0]


@pytest.mark.parametrize("drains", [False, True])
def test_a_call_ends_at_the_engine_that_leaves_the_name_meanwhile(
    fleet, version, drains, caplog, monkeypatch
):
    names, *_ = fleet
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.5)
    go_on, arrived, elsewhere = threading.Event(), threading.Event(), threading.Event()
    port, looks = free_port(), []
    with (
        StubEngine(port, version) as engine,
        StubEngine(port, version, host="127.0.0.2") as other,
        closing(EngineClient(Target.parse(f"grpc://engines.test:{port}"), -1, Metrics())) as client,
    ):

        def wait(request, context) -> bytes:
            arrived.set()
            go_on.wait(30)
            return engine.fixed

        def answer(request, context) -> bytes:
            elsewhere.set()
            return other.fixed

        tell_versions = other.state

        def tell(*question) -> bytes:
            looks.append(question)
            return tell_versions(*question)

        engine.answer, other.answer, other.state = wait, answer, tell
        names.addresses = ("127.0.0.1",)
        client.start()

        def answering() -> list[str]:
            return [each.address for each in client.engines.all() if each.answers]

        wait_until(lambda: answering() == [f"127.0.0.1:{port}"])
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(client.predict, b"", MODEL)
            assert arrived.wait(30)
            names.addresses = ("127.0.0.2",)
            wait_until(lambda: answering() == [f"127.0.0.2:{port}"])
            if drains:
                engine.drain()
            before = len(looks)
            wait_until(lambda: len(looks) > before + 2)  # one has begun since, and ended
            go_on.set()
            assert call.result().outputs
    assert not elsewhere.is_set()
    assert "does not answer" not in caplog.text


def test_calls_at_an_engine_that_hangs_are_made_again_elsewhere_when_it_has_left_the_name(
    fleet, version
):
    names, *_ = fleet
    go_on, arrived = threading.Event(), threading.Event()

    def hang(*_: object) -> bytes:
        arrived.set()
        go_on.wait(60)
        raise AssertionError("nobody waits for it")

    port = free_port()
    with (
        StubEngine(port, version) as hanging,
        StubEngine(port, version, host="127.0.0.2"),
        closing(EngineClient(Target.parse(f"grpc://engines.test:{port}"), -1, Metrics())) as client,
    ):
        names.addresses = ("127.0.0.1",)
        hanging.answer = hang
        client.start()
        wait_until(lambda: [each.address for each in client.engines.all()] == [f"127.0.0.1:{port}"])
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.predict, b"", MODEL)
            assert arrived.wait(30)
            names.addresses = ("127.0.0.2",)
            wait_until(lambda: client.engines.all()[0].address.startswith("127.0.0.2"))
            hanging.state = hang
            assert answer.result().outputs  # before its own time is over
        go_on.set()
