"""More than 2,000 hostile photos against a real server, by every way in: a clear answer each, in time and memory."""

import base64
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hostile_photos
import pytest
import requests
from hostile_photos import Case
from process_readings import memory, most_seconds, worker_of

from backend.serving.photos import photo_files

CLIENTS = 4
MOST_GROWTH = 50  # MiB
MOST_WRITTEN = 2**20  # bytes; its log is less, the photos are many times more
PREDICT = "/v1/models/inception_v3/versions/2:predict"

Send = Callable[[requests.Session, str, bytes], requests.Response]


def as_json(session: requests.Session, url: str, contents: bytes) -> requests.Response:
    return session.post(f"{url}/api/classify", json={"image": base64.b64encode(contents).decode()}, timeout=60)


def as_body(session: requests.Session, url: str, contents: bytes) -> requests.Response:
    return session.post(f"{url}/api/classify", data=contents, headers={"Content-Type": "image/jpeg"}, timeout=60)


def as_form(session: requests.Session, url: str, contents: bytes) -> requests.Response:
    return session.post(f"{url}/api/classify", files={"image": ("a.jpg", contents)}, timeout=60)


def as_tensor_of_bytes(session: requests.Session, url: str, contents: bytes) -> requests.Response:
    value = {"b64": base64.b64encode(contents).decode()}
    return session.post(url + PREDICT, json={"signature_name": "image_bytes", "instances": [value]}, timeout=60)


def as_tensor_of_text(session: requests.Session, url: str, contents: bytes) -> requests.Response:
    return session.post(url + PREDICT, json={"inputs": [base64.b64encode(contents).decode()]}, timeout=60)


APP, TENSOR = (as_json, as_body, as_form), (as_tensor_of_bytes, as_tensor_of_text)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    cases = hostile_photos.corpus()
    assert len({case.name for case in cases}) == len(cases) > 2000
    return cases


def every_way(cases: list[Case]) -> Iterator[tuple[Case, Send]]:
    return itertools.product(cases, (*APP, *TENSOR))


def taking_turns(cases: list[Case]) -> Iterator[tuple[Case, Send]]:
    """Each case once to /api/classify and once as a tensor, in a form that changes from case to case."""
    for number, case in enumerate(cases):
        yield case, APP[number % len(APP)]
        yield case, TENSOR[number % len(TENSOR)]


def faults(url: str, sendings: Iterator[tuple[Case, Send]]) -> list[str]:
    """What is wrong with the answers: a sentence for each wrong one."""
    local = threading.local()

    def fault(sending: tuple[Case, Send]) -> str:
        case, send = sending
        if not hasattr(local, "session"):
            local.session = requests.Session()
            sessions.append(local.session)
        begun = time.monotonic()
        response = send(local.session, url, case.contents)
        wrong = _wrong(response, case.api if send in APP else case.tensor, time.monotonic() - begun)
        return wrong and f"{case.name}, {send.__name__}: {wrong}"

    sessions: list[requests.Session] = []
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = [sentence for sentence in pool.map(fault, sendings) if sentence]
    for session in sessions:
        session.close()
    return found


def written(process: int) -> int:
    """Bytes that a process has handed to a disk (proc(5), io)."""
    lines = Path(f"/proc/{process}/io").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("write_bytes:")).split()[1])


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
    special = [*hostile_photos.good(), *hostile_photos.strange()]
    found = faults(server.url, every_way(special)) + faults(server.url, taking_turns(cases[::8]))  # warms up as well
    before, written_before = memory(process), written(process)
    found += faults(server.url, taking_turns(cases))
    after = memory(process)
    print(f"{len(cases)} photos; resident memory {before:.0f} MiB before, {after:.0f} MiB after")
    assert found == []
    assert worker_of(server) == process, "the server's process died"
    assert after - before < MOST_GROWTH
    assert written(process) - written_before < MOST_WRITTEN, "the server put photos on the disk"


def test_a_gif_is_cut_after_its_first_frame_and_nothing_else_is_changed():
    many = hostile_photos.gif_of_frames(10_000)
    one = photo_files.first_frame(many)
    assert one == hostile_photos.gif_of_frames(1)
    assert photo_files.first_frame(one) is one
    for name, contents in hostile_photos.small_files().items():
        if name != "animated gif":
            assert photo_files.first_frame(contents) is contents


def test_several_photos_are_held_to_the_pixels_of_all_together(colour_server):
    bomb = base64.b64encode(hostile_photos.huge_png(7000, 7000)).decode()
    response = requests.post(colour_server.url + PREDICT, json={"inputs": [bomb] * 3}, timeout=60)
    assert response.status_code == 413
    assert "147.0 megapixels together; at most 100 are taken (DOGSNAP_MAX_REQUEST_PIXELS)" in response.json()["error"]
