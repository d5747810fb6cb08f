"""Hostile requests against a real server: whatever is sent, the answer is 2xx or 4xx with the one error body, and comes soon."""

import base64
import gzip
import json
import shutil
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from support import colour_photos, tiny_models
from support.process_readings import memory, most_seconds, worker_of
from support.refusals import assert_clear
from support.rest_client import raw

pytestmark = pytest.mark.early

MOST_GROWTH = 50  # MiB
JSON_EXAMPLES = 60
FUZZ = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}
PROMISES = [content_type_conformance, response_schema_conformance]
FUZZ["phases"] = (Phase.explicit, Phase.generate)  # nothing is made smaller: a fault is a fault
TEXT = base64.b64encode(colour_photos.every_kind()["jpeg"]).decode()
MODELS = ("inception_v3", "half")


@pytest.fixture(scope="module")
def server(start_server, colour_models, tmp_path_factory):
    models = tmp_path_factory.mktemp("several_models")
    shutil.copytree(colour_models / "inception_v3", models / "inception_v3")
    shutil.copy(Path(__file__).parents[2] / "models" / "breeds.json", models)
    tiny_models.half_plus_two_of_examples(models / "half" / "1")
    tiny_models.all_types(models / "all_types" / "1")
    return start_server(models, "--feedback", models / "feedback.db")


@pytest.fixture(autouse=True)
def unharmed(server):
    """After each test the same process still answers."""
    process = worker_of(server)
    yield
    assert worker_of(server) == process, "the server's process died"
    assert server.get("/healthz").status_code == 200


def send(
    server, body: bytes, path: str = "/v1/models/half:predict", **headers: str
) -> requests.Response:
    response = server.post(
        path, body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    assert_clear(response)
    return response


@pytest.mark.parametrize("examples", [3, pytest.param(10, marks=pytest.mark.long)])
def test_requests_made_from_the_openapi_document_get_what_it_promises(server, examples):
    """So many for each operation with data that the document allows, and as many with data that it does not."""
    document = server.get("/openapi.json").json()
    document["paths"]["/api/classify"]["post"]["requestBody"]["content"].pop(
        "image/*"
    )  # sent by the photos' own tests
    schema = schemathesis.openapi.from_dict(document)
    fuzz_all(server, schema, 1)  # loads what is loaded at the first use of an operation
    before = memory(worker_of(server))
    sent = fuzz_all(server, schema, examples)
    after = memory(worker_of(server))
    print(f"{sent} requests; resident memory {before:.0f} MiB before, {after:.0f} MiB after")
    assert sent > 40 * examples
    assert after - before < MOST_GROWTH


def fuzz_all(server, schema, examples: int) -> int:
    sent = 0
    with requests.Session() as session:
        for result in schema.get_all_operations():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                sent += fuzz(server, session, result.ok(), mode, examples)
    return sent


def fuzz(server, session: requests.Session, operation, mode: GenerationMode, examples: int) -> int:
    """Send some requests of one operation; gives how many."""
    sent = []

    @settings(max_examples=examples, **FUZZ)
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case) -> None:
        names = case.path_parameters or {}
        for name in {"name", "model"} & set(names):  # every other time a model that is there
            names[name] = MODELS[len(sent) % 2] if len(sent) % 4 < 2 else names[name]
        response = session.request(timeout=60, **case.as_transport_kwargs(base_url=server.url))
        assert_clear(response)
        if response.status_code == 200:
            case.validate_response(response, checks=PROMISES)
        sent.append(response.status_code)

    try:
        run()
    except (hypothesis.errors.Unsatisfiable, hypothesis.errors.InvalidArgument):
        return 0  # nothing wrong can be sent where nothing is taken
    return len(sent)


numbers = st.one_of(
    st.integers(), st.integers(-(10**400), 10**400), st.floats(), st.just(1e308), st.just(-0.0)
)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=20), st.just(TEXT))
encoded = st.one_of(st.text(max_size=8), st.just(TEXT), st.integers(), st.none())
values = st.recursive(
    st.one_of(scalars, st.fixed_dictionaries({"b64": encoded})),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("xab"), inner, max_size=3)
    ),
    max_leaves=12,
)
KEYS = ("instances", "inputs", "signature_name", "examples", "context", "x", "image", "")
bodies = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
PATHS = (
    "/v1/models/half:predict",
    "/v1/models/half:regress",
    "/v1/models/half:classify",
    "/v1/models/inception_v3/versions/1:predict",
    "/v1/models/inception_v3/versions/2:predict",
    "/",
    "/api/classify",
)


@settings(max_examples=JSON_EXAMPLES, **FUZZ)
@given(path=st.sampled_from(PATHS), body=bodies)
def test_json_of_any_shape_is_answered(server, path, body):
    send(server, json.dumps(body).encode("utf-8", "surrogatepass"), path)


TYPES = [
    name for name in tiny_models.TYPES if name != "complex64"
]  # which has no form in JSON: 501


@settings(max_examples=JSON_EXAMPLES, **FUZZ)
@given(name=st.sampled_from(TYPES), key=st.sampled_from(("instances", "inputs")), value=values)
def test_values_for_each_type_are_answered_in_strict_json(server, name, key, value):
    body = json.dumps({"signature_name": name, key: value}).encode("utf-8", "surrogatepass")
    answer = send(server, body, "/v1/models/all_types:predict")
    json.loads(answer.text, parse_constant=pytest.fail)


@settings(max_examples=JSON_EXAMPLES, **FUZZ)
@given(
    path=st.sampled_from(PATHS), body=bodies, place=st.integers(0, 200), bad=st.binary(max_size=300)
)
def test_json_that_is_damaged_and_bytes_that_are_none_are_answered(server, path, body, place, bad):
    text = json.dumps(body).encode("utf-8", "surrogatepass")
    send(server, text[:place] + bad + text[place + 1 :], path)
    send(server, bad, path)


DEEP = 1_000_000
JSON_CASES = {  # made when they are sent: most processes of a test run send none of them
    "deep lists": lambda: b'{"instances": ' + b"[" * DEEP + b"1" + b"]" * DEEP + b"}",
    "deep objects": lambda: b'{"instances": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}",
    "deep and never closed": lambda: b"[" * DEEP,
    "deep lists in a value": lambda: b'{"inputs": ' + b"[" * 90 + b"1" + b"]" * 90 + b"}",
    "a number of a million digits": lambda: b'{"instances": [' + b"9" * 1_000_000 + b"]}",
    "an exponent beyond all": lambda: b'{"instances": [1e999999999, -1e999999999, 1e-999999999]}',
    "the same key twice": lambda: b'{"instances": [1.0], "instances": "x", "instances": [2.0]}',
    "a key of a megabyte": lambda: b'{"' + b"k" * 1_000_000 + b'": 1, "instances": [1.0]}',
    "no utf-8": lambda: b'{"instances": ["\xff\xfe\xc0\x80"]}',
    "half a surrogate": lambda: b'{"instances": ["\\ud800"], "signature_name": "\\udfff"}',
    "a byte order mark": lambda: b"\xef\xbb\xbf" + b'{"instances": [1.0]}',
    "utf-16": lambda: '{"instances": [1.0]}'.encode("utf-16"),
    "zero bytes": lambda: b"\0" * 1000,
    "white space": lambda: b" " * 1_000_000,
    "very many rows": lambda: b'{"instances": [' + b"1," * 2_000_000 + b"1]}",
    "very many keys": lambda: json.dumps({str(number): 1 for number in range(200_000)}).encode(),
    "a signature that is none": lambda: b'{"signature_name": {"a": [1]}, "instances": [1.0]}',
    "very many unclosed texts": lambda: b'{"instances": [' + b'"' * 1_000_001,
    "very many escapes": lambda: b'{"instances": ["' + b"\\u0041" * 300_000 + b'"]}',
}


@pytest.mark.parametrize("path", [PATHS[0], *PATHS[-3:]])
@pytest.mark.parametrize("case", JSON_CASES)
def test_hostile_json_is_answered(server, case, path):
    response = send(server, JSON_CASES[case](), path, Content_Type="application/json")
    if (
        case == "the same key twice" and "half" in path
    ):  # its last value counts, as for every parser here
        assert response.json() == {"predictions": [3.0]}


FULL = {  # made when they are sent, too
    "of whole numbers": (lambda: b'{"instances": [' + b"1," * 8_000_000 + b"1]}", 200),
    "of lists": (lambda: b'{"instances": [' + b"[]," * 30_000_000 + b"1]}", 413),
    "of keys": (
        lambda: b"{" + b",".join(b'"%d":1' % number for number in range(1_300_000)) + b"}",
        400,
    ),
    "of many deep lists": (
        lambda: b'{"instances": [' + (b"[" * 90 + b"]" * 90 + b",") * 90_000 + b"1]}",
        413,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", FULL)
def test_a_body_full_of_values_is_answered_or_refused_and_its_neighbours_are_answered_meanwhile(
    server, case
):
    make_body, status = FULL[case]
    body = make_body()
    seconds, over = [], threading.Event()

    def neighbour() -> None:
        with requests.Session() as session:
            while not over.is_set():
                begun = time.monotonic()
                answer = session.post(
                    f"{server.url}/v1/models/half:predict", data=b'{"instances": [1.0]}', timeout=60
                )
                assert answer.status_code == 200
                seconds.append(time.monotonic() - begun)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(neighbour)
        response = send(server, body)
        over.set()
        asking.result()
    took = response.elapsed.total_seconds()
    print(f"{len(body) / 1e6:.0f} MB: {took:.2f} s, its neighbours at most {max(seconds):.2f} s")
    assert response.status_code == status
    assert max(seconds) < most_seconds(2)


def deflated(size: int, times: int = 1) -> bytes:
    """A gzip file that inflates to `size` spaces; packed several times over, to less than a kilobyte."""
    data = gzip.compress(b" " * size, 9)
    for _ in range(times - 1):
        data = gzip.compress(data, 9)
    return data


BLANKS = b'{"instances": [1.0]}' + b" " * 1000
GZIP_WITH_NAME = b"\x1f\x8b\x08\x08" + bytes(6)  # FNAME, which a zero ends (RFC 1952)
GZIPPED = {
    "a bomb of 300 MB": (lambda: deflated(300_000_000), 413),
    "a bomb in a bomb": (lambda: deflated(300_000_000, 2), 400),
    "many files in one": (lambda: gzip.compress(b'{"instances": [1.0]}') * 1000, 400),
    "one text in two files": (
        lambda: gzip.compress(b'{"instances": [1.0]') + gzip.compress(b"}"),
        400,
    ),
    "an empty file before it": (
        lambda: gzip.compress(b"") + gzip.compress(b'{"instances": [1.0]}'),
        200,
    ),
    "very many empty files": (lambda: gzip.compress(b"") * 400_000, 400),
    "a long name": (
        lambda: (
            GZIP_WITH_NAME
            + b"n" * 40_000_000
            + bytes(1)
            + gzip.compress(b'{"instances": [1.0]}')[10:]
        ),
        200,
    ),
    "more than it declares": (lambda: gzip.compress(BLANKS)[:-4] + (20).to_bytes(4, "little"), 400),
    "less than it declares": (
        lambda: gzip.compress(BLANKS)[:-4] + (2000).to_bytes(4, "little"),
        400,
    ),
    "cut off": (lambda: gzip.compress(b'{"instances": [1.0]}' * 100)[:30], 400),
    "with a wrong checksum": (lambda: gzip.compress(b'{"instances": [1.0]}')[:-8] + b"\0" * 8, 400),
    "no gzip at all": (lambda: b'{"instances": [1.0]}', 400),
    "deflate, not gzip": (lambda: zlib.compress(b'{"instances": [1.0]}'), 400),
    "nothing": (lambda: b"", 400),
}


@pytest.mark.parametrize("case", GZIPPED)
def test_gzipped_bodies_are_inflated_within_the_limit_or_refused(server, case):
    make_body, status = GZIPPED[case]
    body, before = make_body(), memory(worker_of(server))
    response = send(server, body, Content_Encoding="gzip")
    assert response.status_code == status
    assert response.elapsed.total_seconds() < most_seconds(3)
    if status == 413:
        assert "at most 100 MiB are taken (DOGSNAP_MAX_TENSOR_BODY_MB)" in response.json()["error"]
    assert memory(worker_of(server)) - before < MOST_GROWTH


PART = b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\nx\r\n'
FORM = "multipart/form-data; boundary=x"
FORMS = {
    "no boundary": ("multipart/form-data", b"--x\r\n\r\n"),
    "a boundary that never comes": (FORM, b"no boundary here"),
    "a boundary of 5,000 characters": (f"multipart/form-data; boundary={'b' * 5000}", b"x"),
    "very many parts": (FORM, PART % b"a" * 5000 + b"--x--\r\n"),
    "a file name that climbs": (FORM, PART % b'image"; filename="../../etc/passwd' + b"--x--\r\n"),
    "two photos": (FORM, PART % b'image"; filename="a' * 2 + b"--x--\r\n"),
    "headers without end": (FORM, b"--x\r\n" + b"A: b\r\n" * 100_000),
    "a kind that is none": ("////;;;", b"x"),
    "a kind with letters of its own": ("application/json; charset=utf-99", b'{"image": "x"}'),
}


@pytest.mark.parametrize("path", ["/api/classify", "/"])
@pytest.mark.parametrize("case", FORMS)
def test_hostile_forms_are_refused(server, case, path):
    kind, body = FORMS[case]
    assert send(server, body, path, Content_Type=kind).status_code in (400, 413, 415)


TARGETS = (
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/assets/../../../../README.md",
    "/assets/..%2f..%2f..%2fetc/passwd",
    "/assets/%2e%2e/%2e%2e/backend/dogsnap/server/app.py",
    "/console/..%2fpage.html",
    "/console/../console/page.html%00",
    "/api/../models/inception_v3/2/saved_model.pb",
    "/v1/models/..%2f..:predict",
    "/v1/models/..%2f..%2fetc/metadata",
    "/v1/models/inception_v3%2f1",
    "/v1/models/inception_v3/versions/..%2f1",
    "/v1/models/inception_v3/labels/..%2f..",
    "/v1/models/%00:predict",
    "/" + "a" * 8000,
)
HOME = ("//", "/;x", "/%", "/?" + "a=b&" * 1500)  # which may be the app


@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW"]
)
def test_paths_and_methods_that_lead_nowhere_are_refused(server, method):
    for target in (*TARGETS, *HOME):
        response = raw(server, method, target)
        if method != "HEAD":
            assert_clear(response)
        assert response.status_code < 500
        if target in TARGETS and method != "OPTIONS":  # which tells the methods of a route
            assert response.status_code in (400, 404, 405, 414), response.text
