"""More than 2,000 hostile photos against a real server, by every way in: a clear answer each, in time and memory."""

import base64
import itertools
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import hostile_photos
from support.colour_photos import chunk
from support.hostile_photos import Case, with_chunk
from support.process_readings import memory, worker_of
from support.refusals import assert_clear, assert_refused

pytestmark = pytest.mark.early

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
    "bytes": lambda contents: {
        "json": {"signature_name": "image_bytes", "instances": [{"b64": text(contents)}]}
    },
    "text": lambda contents: {"json": {"inputs": [text(contents)]}},
}


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    cases = hostile_photos.corpus()
    assert len({case.name for case in cases}) == len(cases) > 2000
    return cases


def taking_turns(cases: list[Case]) -> Iterator[tuple[Case, str]]:
    """Each case once to /api/classify and once as a tensor, in a form that changes from case to case."""
    return itertools.chain(
        *(zip(cases, itertools.cycle(ways), strict=False) for ways in (APP, TENSOR))
    )


def faults(server, sendings: Iterable[tuple[Case, str]]) -> list[str]:
    """What is wrong with the answers: a sentence for each wrong one."""

    def fault(sending: tuple[Case, str]) -> str:
        case, way = sending
        path, statuses = ("/api/classify", case.api) if way in APP else (PREDICT, case.tensor)
        try:
            assert_clear(server.post(path, **(APP | TENSOR)[way](case.contents)), statuses)
        except AssertionError as wrong:
            return f"{case.name}, {way}: {wrong}"
        return ""

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [sentence for sentence in pool.map(fault, sendings) if sentence]


def test_two_hundred_of_them_get_their_answer(colour_server, cases):
    process = worker_of(colour_server)
    some = [*hostile_photos.good(), *hostile_photos.strange(), *cases[::15]]
    assert len(some) > 200
    assert faults(colour_server, taking_turns(some)) == []
    assert worker_of(colour_server) == process, "the server's process died"


@pytest.mark.long
def test_every_hostile_photo_gets_its_answer_by_every_protocol_in_time_and_memory(
    colour_server, cases
):
    server, process = colour_server, worker_of(colour_server)
    special = itertools.product(
        [*hostile_photos.good(), *hostile_photos.strange()], (*APP, *TENSOR)
    )
    found = faults(server, special) + faults(server, taking_turns(cases[::8]))  # warms up as well
    before = memory(process)
    found += faults(server, taking_turns(cases))
    after = memory(process)
    print(f"{len(cases)} photos; resident memory {before:.0f} MiB before, {after:.0f} MiB after")
    assert found == []
    assert worker_of(server) == process, "the server's process died"
    assert after - before < MOST_GROWTH


def test_several_photos_are_held_to_the_pixels_of_all_together(colour_server):
    bomb = text(hostile_photos.huge_png(7000, 7000))
    said = "147.0 megapixels together; at most 100 are taken, 2 times DOGSNAP_MAX_PHOTO_PIXELS"
    assert_refused(colour_server.post(PREDICT, json={"inputs": [bomb] * 3}), 413, said)


def test_the_damaged_fields_of_a_photo_fill_no_log(colour_server):
    table = b"II*\0" + struct.pack("<IH", 8, 2000)
    table += b"".join(struct.pack("<HHII", number, 7, 10**6, 8) for number in range(2000))
    before = len(colour_server.log())
    response = colour_server.post("/api/classify", data=with_chunk(chunk(b"eXIf", table)))
    assert response.status_code == 200
    assert len(colour_server.log()) - before < 1000
