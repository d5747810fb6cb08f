"""API keys and rate limits, by HTTP and gRPC: a missing key is reported, too many requests have to wait, no key is ever shown."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc
import pytest
import requests
from dogsnap.server.middleware import api_keys
from dogsnap.server.middleware.rate_limits import RateLimiter
from limits import parse
from support.command_line import dogsnap, refused
from support.grpc_client import connected, predict_request
from support.grpc_contract import outcome, status
from support.nobody import NOBODY, as_nobody
from support.ports import free_port, listens
from support.process_readings import most_seconds, sample
from support.refusals import assert_refused
from support.waiting import wait_until

PATH = "/v1/models/half:predict"
BODY = {"instances": [2.0]}
DOGSNAP = Path(sys.executable).with_name("dogsnap")
REDIS = shutil.which("redis-server")
ADMIN_TOKEN = "a-long-random-text"


@pytest.fixture
def known(tmp_path) -> tuple[Path, str, api_keys.KeyFile]:
    """A file of keys with a key for `phone`, that key, and the file as a server reads it."""
    file = tmp_path / "keys.json"
    key, known = api_keys.add(file, "phone"), api_keys.KeyFile(file)
    assert known.name_of(key) == "phone"
    return file, key, known


def test_a_key_is_stored_as_a_digest_that_only_the_owner_may_read(known):
    file, key, keys = known
    assert (key in file.read_text(), len(key) > 40) == (False, True)
    assert file.stat().st_mode & 0o777 == 0o600
    assert keys.name_of(key[:-1]) == ""


def test_of_keys_that_are_added_at_once_none_is_lost(tmp_path):
    file, names = tmp_path / "keys.json", {f"phone{number}" for number in range(8)}
    with ThreadPoolExecutor(len(names)) as pool:
        assert len(set(pool.map(partial(api_keys.add, file), names))) == len(names)
    assert {key.name for key in api_keys.read(file)} == names
    assert {path.name for path in tmp_path.iterdir()} == {"keys.json", ".keys.json.lock"}


def test_without_its_file_no_key_is_valid_which_is_logged_once(known, caplog):
    file, key, keys = known
    contents = file.read_text()
    file.unlink()
    assert [keys.name_of(key) for _ in range(3)] == ["", "", ""]
    assert caplog.messages == [f"{file} is gone: no API key is valid until it is there again"]
    file.write_text(contents)
    assert keys.name_of(key) == "phone"


DAMAGED = [
    "",
    "[]",
    '{"keys": null}',
    '{"keys": [{"name": "phone"}]}',
    '{"keys": [{"name": "phone", "sha256": null, "created": ""}]}',
    '{"keys": [{"name": "phone", "sha256": "\u00e9", "created": ""}]}',
    '{"keys": [{"name": null, "sha256": "' + 64 * "0" + '", "created": ""}]}',
    "[" * 100_000,
]


@pytest.mark.parametrize("damaged", DAMAGED, ids=lambda text: text[:60])
def test_while_its_file_is_damaged_the_keys_stay_as_they_were_which_is_logged_once(
    known, caplog, damaged
):
    file, key, keys = known
    file.write_text(damaged)
    assert [keys.name_of(name) for name in (key, key, "dogsnap_wrong")] == ["phone", "phone", ""]
    (said,) = caplog.messages
    assert said.startswith(f"the API keys stay as they were: {file} is not a key file (")
    assert key not in said


def test_keys_that_may_no_longer_be_read_are_refused_since_one_may_have_been_removed():
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        file = Path(name) / "keys.json"
        key = api_keys.add(file, "phone")
        shutil.chown(file, NOBODY)

        def ask() -> None:
            keys = api_keys.KeyFile(file)
            assert keys.name_of(key) == "phone"
            file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
            file.chmod(0)
            assert [keys.name_of(key) for _ in range(3)] == ["", "", ""]
            file.chmod(0o400)
            assert keys.name_of(key) == "phone"

        assert as_nobody(ask) == ""


def test_the_command_makes_lists_and_removes_keys_and_its_errors_say_what_to_do(tmp_path):
    keys, file = tmp_path / "keys.json", ("--file", tmp_path / "keys.json")
    command = [DOGSNAP, "keys", "add", "phone", *file]
    key = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()
    assert api_keys.KeyFile(keys).name_of(key) == "phone"
    dogsnap("keys", "add", "tablet", *file)
    assert [line.split("\t")[0] for line in dogsnap("keys", "list", *file).stdout.splitlines()] == [
        "phone",
        "tablet",
    ]
    assert "there is a key 'phone' already" in refused(dogsnap("keys", "add", "phone", *file))
    assert "expected up to 64 letters" in refused(dogsnap("keys", "add", "../phone", *file))
    assert dogsnap("keys", "remove", "phone", *file).exit_code == 0
    assert api_keys.KeyFile(keys).name_of(key) == ""
    assert "Error: there is no key 'phone'; there are: tablet" in refused(
        dogsnap("keys", "remove", "phone", *file)
    )
    missing = tmp_path / "nosuch" / "keys.json"
    said = f"there is no folder {missing.parent}; make it, or name another file with --file"
    assert said in refused(dogsnap("keys", "add", "phone", "--file", missing))
    said = (
        f"there is no key file {missing}; name it with --file, or make one with `dogsnap keys add"
    )
    for arguments in (("list",), ("remove", "phone")):
        assert said in refused(dogsnap("keys", *arguments, "--file", missing))


@pytest.fixture(scope="module")
def key_file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def key(key_file) -> str:
    return api_keys.add(key_file, "phone")


@pytest.fixture(scope="module")
def server(start_server, half_models, key, key_file):
    flags = ("--access-log", "--log-format", "json", "--enable-cors")
    return start_server(half_models, "--api-keys", str(key_file), *flags)


def predict(server, **headers: str) -> requests.Response:
    return server.post(PATH, json=BODY, headers=headers)


def call(server, key: str = "", metadata: list[tuple[str, str]] | None = None) -> str:
    """The status code of a prediction by gRPC."""
    if metadata is None:
        metadata = [("x-api-key", key)] if key else []
    with connected(server.grpc_port) as client:
        request = predict_request("half", x=[2.0])
        return client.prediction.Predict.future(request, 60, metadata=metadata).code().name


def test_with_a_key_a_request_is_answered_and_without_it_is_401_with_a_sentence_that_says_how(
    server, key
):
    for headers in ({"X-Api-Key": key}, {"Authorization": f"Bearer {key}"}):
        assert predict(server, **headers).json() == {"predictions": [2.0]}
    response = predict(server)
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert_refused(
        response, 401, "expected a key of this server in the header X-Api-Key", "received none"
    )
    wrong = predict(server, **{"X-Api-Key": key + "x"})
    assert (wrong.status_code, key in wrong.text) == (401, False)


def test_a_browser_may_send_a_key_to_another_host(server):
    """What a browser asks first carries no key; the answer it then gets must be readable whatever it says."""
    asks = {
        "Origin": "https://example.com",
        "Access-Control-Request-Headers": "x-api-key, authorization",
    }
    preflight = server.request("OPTIONS", PATH, headers=asks)
    assert preflight.status_code == 200
    assert {"x-api-key", "authorization"} <= {
        *preflight.headers["Access-Control-Allow-Headers"].lower().split(", ")
    }
    assert (
        predict(server, Origin="https://example.com").headers["Access-Control-Allow-Origin"] == "*"
    )


@pytest.mark.parametrize(
    "header",
    ["traceparent", "tracestate", "baggage", "content-encoding", "inference-header-content-length",
     "x-request-key", "x-request-id", "x-amzn-sagemaker-custom-attributes"],
)  # fmt: skip
def test_a_page_of_another_origin_may_send_each_header_that_the_server_reads(server, header):
    asks = {"Origin": "https://example.com", "Access-Control-Request-Headers": header}
    for path in ("/api/classify", PATH, "/v2/models/half/infer"):
        answer = requests.options(f"{server.url}{path}", headers=asks, timeout=60)
        allowed = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert header in allowed
    assert "Inference-Header-Content-Length" in answer.headers["Access-Control-Expose-Headers"]


def test_every_path_of_a_model_needs_a_key_and_no_other(server):
    for path in (
        "/api/models",
        "/api/breeds",
        "/v1/models/half",
        "/v1/models/half/metadata",
        "/v1/models",
    ):
        assert server.get(path).status_code == 401, path
    # Administration asks for its own token, and for no key.
    for path in ("/healthz", "/readyz", "/metrics", "/health", "/api/admin/models"):
        assert server.get(path).status_code == 200, path


def test_by_grpc_the_same_keys_count_until_they_are_removed_or_the_file_is_gone(
    server, key_file, key
):
    assert [call(server, sent) for sent in (key, "", "dogsnap_wrong")] == [
        "OK",
        "UNAUTHENTICATED",
        "UNAUTHENTICATED",
    ]
    with connected(server.grpc_port) as client:
        assert outcome(client, status(name="half"))[0] == "UNAUTHENTICATED"
    short = api_keys.add(key_file, "short")
    assert predict(server, **{"X-Api-Key": short}).status_code == 200
    api_keys.remove(key_file, "short")
    assert predict(server, **{"X-Api-Key": short}).status_code == 401
    away = key_file.rename(key_file.with_suffix(".away"))
    assert (predict(server, **{"X-Api-Key": key}).status_code, call(server, key)) == (
        401,
        "UNAUTHENTICATED",
    )
    away.rename(key_file)
    assert (predict(server, **{"X-Api-Key": key}).status_code, call(server, key)) == (200, "OK")


def test_refused_requests_are_counted_and_logged_as_calls_by_grpc_are_and_no_key_is(server, key):
    before = sample(server, "dogsnap_refused_requests_total", 'door="rest",reason="key"')
    predict(server)
    predict(server, **{"X-Api-Key": "dogsnap_guess"})
    assert (
        sample(server, "dogsnap_refused_requests_total", 'door="rest",reason="key"') == before + 2
    )
    assert call(server, key) == "OK"
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    always = {"time", "level", "logger", "message", "method", "status", "request_id"}
    refused = next(line for line in lines if line.get("path") == PATH and line["status"] == 401)
    answer = {"bytes", "seconds", "model", "version", "label"}
    assert set(refused) == {*always, "path", *answer}
    called = next(
        line for line in lines if line.get("method") == "Predict" and line["status"] == "OK"
    )
    assert (set(called), len(called["request_id"])) == ({*always, *answer}, 16)
    assert key not in server.log()
    assert "dogsnap_guess" not in server.log()


@pytest.fixture(scope="module")
def limited(start_server, half_models, key_file, key):
    """A server with a limit for each key, and another for whoever uses the app without one."""
    flags = ("--api-keys", str(key_file), "--rate-limit-key", "6/hour", "--open-app", "2/hour")
    return start_server(half_models, *flags, environ={"DOGSNAP_ADMIN_TOKEN": ADMIN_TOKEN})


def test_one_request_too_many_is_429_with_a_time_to_try_again_by_http_and_grpc_together(
    limited, key_file
):
    one, other = api_keys.add(key_file, "one"), api_keys.add(key_file, "other")
    assert [predict(limited, **{"X-Api-Key": one}).status_code for _ in range(3)] == [200] * 3
    assert [call(limited, one) for _ in range(4)] == ["OK"] * 3 + ["RESOURCE_EXHAUSTED"]
    answer = predict(limited, **{"X-Api-Key": one})
    assert_refused(answer, 429, "at most 6 per 1 hour are answered for one key")
    assert 0 < int(answer.headers["Retry-After"]) <= 3601
    assert predict(limited, **{"X-Api-Key": other}).status_code == 200
    assert limited.get("/healthz").status_code == 200
    assert sample(limited, "dogsnap_refused_requests_total", 'door="grpc",reason="rate"') == 1


def test_an_open_app_needs_no_key_for_so_many_requests_and_the_admin_token_opens_what_a_key_does(
    limited, key_file
):
    known = {"X-Api-Key": api_keys.add(key_file, "third")}
    assert (predict(limited).status_code, call(limited)) == (401, "UNAUTHENTICATED")
    removed = {"X-Api-Key": "dogsnap_removed"}  # as of an old link: it locks nobody out
    sent = [{}, removed, removed, {}]
    answers = [limited.get("/api/models", headers=headers) for headers in sent]
    assert [each.status_code for each in answers] == [200, 200, 429, 429]
    assert predict(limited, **removed).status_code == 401
    assert (
        "at most 2 per 1 hour are answered for one client without a key"
        in answers[-1].json()["error"]
    )
    assert limited.get("/api/models", headers=known).status_code == 200
    assert predict(limited, Authorization=f"Bearer {ADMIN_TOKEN}").json() == {"predictions": [2.0]}
    for authorization in (f"Bearer {ADMIN_TOKEN}x", ADMIN_TOKEN, f"Basic {ADMIN_TOKEN}", "Bearer "):
        assert predict(limited, Authorization=authorization).status_code == 401
    assert ADMIN_TOKEN not in limited.log()


def test_a_clock_that_is_set_back_makes_nobody_wait_longer_than_a_limits_time(monkeypatch):
    limiter, minute = RateLimiter("memory://"), parse("1/minute")
    assert limiter.hit(minute, "a") == 0
    assert 0 < limiter.hit(minute, "a") <= 60
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert limiter.hit(minute, "a") == 0
    assert 0 < limiter.hit(minute, "a") <= 61


def test_an_address_has_its_own_limit_which_probes_do_not_use_up_and_no_client_evades(
    start_server, half_models
):
    server = start_server(half_models, "--rate-limit-address", "4/hour")
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        is_ready = channel.unary_unary("/inference.GRPCInferenceService/ServerReady")
        for _ in range(10):
            assert server.get("/readyz").status_code == 200
            is_ready(b"")
    assert [predict(server).status_code for _ in range(5)] == [200] * 4 + [429]
    assert "for one address" in predict(server).json()["error"]
    assert predict(server, **{"X-Forwarded-For": "10.0.0.9"}).status_code == 429
    behind = start_server(half_models, "--rate-limit-address", "1/hour", "--trusted-proxies", "1")
    clients = ("10.0.0.1", "10.0.0.2", "6.6.6.6, 10.0.0.1", '"6.6.6.6, 10.0.0.1')
    clients += ("10.0.0.1:51000", "10.0.0.2:51001", "::ffff:10.0.0.1", "[2001:db8::1]:1")
    clients += ("[2001:DB8::1]:2", "2001:db8:0::1")
    asked = [predict(behind, **{"X-Forwarded-For": client}).status_code for client in clients]
    assert asked == [200, 200, 429, 429, 429, 429, 429, 200, 429, 429]


def test_a_grpc_client_has_the_address_that_its_proxy_names_only_behind_trusted_ones(
    start_server, half_models
):
    limit = ("--rate-limit-address", "1/hour")
    server = start_server(half_models, *limit)
    codes = [call_through(server, address) for address in ("10.0.0.1", "10.0.0.2")]
    assert codes == ["OK", "RESOURCE_EXHAUSTED"]
    behind = start_server(half_models, *limit, "--trusted-proxies", "1")
    addresses = ("10.0.0.1", "10.0.0.2", "10.0.0.1", "6.6.6.6, 10.0.0.2", "10.0.0.1:51000")
    codes = [call_through(behind, address) for address in addresses]
    assert codes == ["OK", "OK", *["RESOURCE_EXHAUSTED"] * 3]
    twice = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "10.0.0.2:51000")]
    assert call(behind, metadata=twice) == "RESOURCE_EXHAUSTED"


def call_through(server, address: str) -> str:
    """The status of a call whose X-Forwarded-For is `address`."""
    return call(server, metadata=[("x-forwarded-for", address)])


@pytest.fixture
def start_redis(tmp_path):
    """Starts Debian's redis-server on 127.0.0.1:port."""
    if REDIS is None:
        pytest.skip("redis-server (Debian's package of that name) is missing")
    with ExitStack() as started:

        def start(port: int) -> subprocess.Popen:
            command = [
                REDIS,
                "--port",
                str(port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                str(tmp_path),
            ]
            process = started.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            started.callback(process.kill)
            wait_until(lambda: listens(port), 30)
            return process

        yield start


def test_two_servers_count_together_in_redis_and_each_goes_on_alone_without_it(
    start_server, half_models, start_redis
):
    port = free_port()
    url, process = f"redis://127.0.0.1:{port}", start_redis(port)
    flags = ("--rate-limit-address", "6/hour", "--rate-limit-storage", url)
    servers = [start_server(half_models, *flags), start_server(half_models, *flags)]
    assert [predict(servers[turn % 2]).status_code for turn in range(7)] == [200] * 6 + [429]
    process.send_signal(signal.SIGSTOP)  # it takes connections and says nothing
    begun = time.monotonic()
    assert [predict(servers[0]).status_code for _ in range(7)] == [200] * 6 + [429]
    assert [call(servers[1]) for _ in range(7)] == ["OK"] * 6 + ["RESOURCE_EXHAUSTED"]
    assert time.monotonic() - begun < most_seconds(5)
    process.kill()
    process.wait(30)
    assert call(servers[1]) == "RESOURCE_EXHAUSTED"
    start_redis(port)
    wait_until(lambda: call(servers[1]) == "OK", 30)
    wait_until(lambda: predict(servers[0]).status_code == 200, 30)
    assert [predict(servers[turn % 2]).status_code for turn in range(5)] == [200] * 4 + [429]
    for server in servers:
        assert server.log().count("--rate-limit-storage is unreachable") == 1
        assert server.log().count("--rate-limit-storage is reachable again") == 1
        assert url not in server.log()
