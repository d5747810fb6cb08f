"""More than 2,000 hostile photos against a real server, by every way in: a clear answer each, in time and memory."""

import base64
import itertools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import hostile_photos
import pytest
import requests
from hostile_photos import Case
from process_readings import memory, most_seconds, worker_of

CLIENTS = 4
MOST_GROWTH = 50  # MiB
PREDICT = "/v1/models/inception_v3/versions/2:predict"


def text(contents: bytes) -> str:
    return base64.b64encode(contents).decode()


# The ways of a photo to /api/classify, and to the REST API of TensorFlow Serving as a tensor.
APP = {
    "JSON": lambda contents: {"json": {"image": text(contents)}},
    "body": lambda contents: {"data": contents, "headers": {"Content-Type": "image/jpeg"}},
    "form": lambda contents: {"files": {"image": ("a.jpg", contents)}},
}
TENSOR = {
    "bytes": lambda contents: {"json": {"signature_name": "image_bytes", "instances": [{"b64": text(contents)}]}},
    "text": lambda contents: {"json": {"inputs": [text(contents)]}},
}


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    cases = hostile_photos.corpus()
    assert len({case.name for case in cases}) == len(cases) > 2000
    return cases


def taking_turns(cases: list[Case]) -> Iterator[tuple[Case, str]]:
    """Each case once to /api/classify and once as a tensor, in a form that changes from case to case."""
    return itertools.chain(*(zip(cases, itertools.cycle(ways), strict=False) for ways in (APP, TENSOR)))


def faults(url: str, sendings: Iterator[tuple[Case, str]]) -> list[str]:
    """What is wrong with the answers: a sentence for each wrong one."""
    local, sessions = threading.local(), []

    def fault(sending: tuple[Case, str]) -> str:
        case, way = sending
        if not hasattr(local, "session"):
            local.session = requests.Session()
            sessions.append(local.session)
        path, statuses = ("/api/classify", case.api) if way in APP else (PREDICT, case.tensor)
        begun = time.monotonic()
        response = local.session.post(url + path, timeout=60, **(APP | TENSOR)[way](case.contents))
        wrong = _wrong(response, statuses, time.monotonic() - begun)
        return wrong and f"{case.name}, {way}: {wrong}"

    with ThreadPoolExecutor(CLIENTS) as pool:
        found = [sentence for sentence in pool.map(fault, sendings) if sentence]
    for session in sessions:
        session.close()
    return found


def _wrong(response: requests.Response, statuses: tuple[int, ...], seconds: float) -> str:
    if seconds > most_seconds():
        return f"took {seconds:.1f} s"
    if response.status_code not in statuses:
        return f"status {response.status_code}, expected {statuses}: {response.text[:200]}"
    if response.status_code != 200:
        body = json.loads(response.content)
        if set(body) != {"error", "request_id"} or not body["error"] or not body["request_id"]:
            return f"an error body of {sorted(body)}"
    return ""


def test_two_hundred_of_them_get_their_answer(colour_server, cases):
    process = worker_of(colour_server)
    some = [*hostile_photos.good(), *hostile_photos.strange(), *cases[::15]]
    assert len(some) > 200
    assert faults(colour_server.url, taking_turns(some)) == []
    assert worker_of(colour_server) == process, "the server's process died"


@pytest.mark.long
def test_every_hostile_photo_gets_its_answer_by_every_protocol_in_time_and_memory(colour_server, cases):
    server, process = colour_server, worker_of(colour_server)
    special = itertools.product([*hostile_photos.good(), *hostile_photos.strange()], (*APP, *TENSOR))
    found = faults(server.url, special) + faults(server.url, taking_turns(cases[::8]))  # warms up as well
    before = memory(process)
    found += faults(server.url, taking_turns(cases))
    after = memory(process)
    print(f"{len(cases)} photos; resident memory {before:.0f} MiB before, {after:.0f} MiB after")
    assert found == []
    assert worker_of(server) == process, "the server's process died"
    assert after - before < MOST_GROWTH


def test_several_photos_are_held_to_the_pixels_of_all_together(colour_server):
    bomb = text(hostile_photos.huge_png(7000, 7000))
    response = colour_server.post(PREDICT, json={"inputs": [bomb] * 3})
    assert response.status_code == 413
    assert "147.0 megapixels together; at most 100 are taken (DOGSNAP_MAX_REQUEST_PIXELS)" in response.json()["error"]
