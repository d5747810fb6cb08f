"""Photos in bodies: what the bytes and the form hold is answered, whatever their type, field or file's name says."""

import base64
import time
import tracemalloc
from contextlib import suppress
from urllib.parse import quote

import pytest
from dogsnap.errors import InvalidArgument
from dogsnap.server.bodies.photo_bodies import parse
from dogsnap.serving.photos.base64_text import decode_base64
from support import colour_photos
from support.colour_photos import GREEN, encode, plain
from support.refusals import assert_refused

PHOTO = encode(plain(GREEN), "JPEG")
TEXT = base64.b64encode(PHOTO)
URLENCODED = "application/x-www-form-urlencoded"
FORM = "multipart/form-data; boundary=XX"


def part(head: bytes, content: bytes = PHOTO, line: bytes = b"\r\n") -> bytes:
    head = b"Content-Disposition: form-data; " + head
    return b"--XX" + line + head + line * 2 + content + line


def photo_part(name: bytes) -> bytes:
    return part(b'name="image"; filename="' + name + b'"')


FURTHER = part(b'name="top_k"', b"1") + part(b'name="model_version"', b"2") + b"--XX--\r\n"
PAIRS = b"top_k=1&model_version=2&image="
ESCAPED = quote(TEXT.decode(), safe="").encode()
# The type that the request states, and its body.
BODIES = {
    "a form": (FORM, photo_part(b"dog.jpg") + FURTHER),
    "a file name in GBK": (FORM, photo_part("狗.jpg".encode("gbk")) + FURTHER),
    "a file name in Latin-1": (FORM, photo_part("Ofslútdyk.jpg".encode("latin-1")) + FURTHER),
    "no file name": (FORM, part(b"name=image") + FURTHER),
    "base64 text in a form": (FORM, part(b'name="image"', TEXT) + FURTHER),
    "a file of base64 text": (FORM, part(b'filename="a.b64"; name="image"', TEXT) + FURTHER),
    "a form without its boundary": ("multipart/form-data", photo_part(b"a") + FURTHER),
    "a form with another boundary": (f"{FORM}YY", photo_part(b"a") + FURTHER),
    "a form without its type": ("", photo_part(b"a") + FURTHER),
    "a form without its end": (FORM, FURTHER.removesuffix(b"--XX--\r\n") + photo_part(b"a")),
    "a form with bare line feeds": (FORM, part(b'name="image"', line=b"\n") + FURTHER),
    "another field": (FORM, part(b'name="file"; filename="dog.jpg"') + FURTHER),
    "an empty field beside it": (FORM, part(b'name="image"', b"") + part(b'name="b"') + FURTHER),
    "a part of multipart/related": (
        "multipart/related; boundary=XX",
        b"--XX\r\nContent-Type: image/jpeg\r\n\r\n" + PHOTO + b"\r\n" + FURTHER,
    ),
    "behind a preamble": (FORM, b"of several parts\r\n" + photo_part(b"a") + FURTHER),
    "a form as text/plain": ("text/plain", PAIRS.replace(b"&", b"\r\n") + TEXT + b"\r\n"),
    "one with base64 in lines": (
        "text/plain",
        PAIRS.replace(b"&", b"\n") + base64.encodebytes(PHOTO),
    ),
    "urlencoded": (URLENCODED, PAIRS + ESCAPED),
    "urlencoded in lower case": (URLENCODED, PAIRS + ESCAPED.replace(b"%2F", b"%2f")),
    "urlencoded, plus signs as they are": (URLENCODED, PAIRS + TEXT),
    "urlencoded bytes": (URLENCODED, PAIRS + quote(PHOTO).encode()),
    "urlencoded in another field": (URLENCODED, b"top_k=1&model_version=2&photo=" + ESCAPED),
    "urlencoded with a data: address": (
        URLENCODED,
        PAIRS + quote(f"data:image/jpeg;base64,{TEXT.decode()}").encode(),
    ),
    "urlencoded without its type": ("text/plain", PAIRS + ESCAPED),
}
RAW = {
    "bytes without a type": ("", PHOTO),
    "bytes of curl": (URLENCODED, PHOTO),
    "bytes as text": ("text/plain;charset=UTF-8", PHOTO),
    "bytes as JSON": ("application/json", PHOTO),
    "a HEIC without a type": ("", colour_photos.heic(plain(GREEN))),
    "base64 text": ("text/plain", TEXT),
    "base64 text in lines": (URLENCODED, base64.encodebytes(PHOTO)),
    "base64 text as a photo": ("image/jpeg", TEXT),
    "a data: address": ("", b"data:image/jpeg;base64," + TEXT),
}


@pytest.mark.parametrize("case", [*BODIES, *RAW])
def test_a_photo_is_answered_however_it_is_wrapped(colour_server, case):
    kind, body = {**BODIES, **RAW}[case]
    query = "" if case in BODIES else "?top_k=1&model_version=2"
    headers = {"Content-Type": kind}
    answer = colour_server.post(f"/api/classify{query}", data=body, headers=headers).json()
    assert [breed["name"] for breed in answer["breeds"]] == ["green dog"]
    response = colour_server.post(f"/{query}", data=body, headers=headers)
    assert (response.status_code, response.headers["X-Dogsnap-Model-Version"]) == (200, "2")


def test_large_photos_in_forms_are_answered(colour_server):
    photo = encode(plain(GREEN, (1000, 900)), "BMP")
    text = quote(base64.b64encode(photo), safe="").encode()
    for body in (PAIRS + text, photo_part(b"a").replace(PHOTO, photo) + FURTHER):
        response = colour_server.post("/api/classify", data=body, headers={"Content-Type": ""})
        assert response.json()["breeds"][0]["name"] == "green dog"


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (FORM, part(b'name="file"', b"x") + FURTHER, "received the fields file (1 bytes), top_k"),
        (FORM, b"", "received a form without fields"),
        (URLENCODED, b"image=&top_k=1", "received the fields image (0 bytes), top_k (1 bytes)"),
        ("", b"II*\0 a TIFF", "received 11 bytes of type unknown"),
        ("text/plain", b"", "received 0 bytes of type text/plain"),
        (FORM, photo_part(b"a") * 6 + FURTHER, "expected one to 5 photos of one dog, received 6"),
        (FORM, part(b"name=a") * 1001, "the form has more than 1000 fields"),
        (
            FORM,
            photo_part(b"a") + part(b"name=label", b"x") + part(b"name=label", b"y"),
            "the form has 'label' twice",
        ),
        (URLENCODED, PAIRS + TEXT + b"&top_k=2", "the form has 'top_k' twice; send it once"),
    ],
)
def test_what_holds_no_photo_is_refused_with_what_it_holds(colour_server, kind, body, said):
    response = colour_server.post("/api/classify", data=body, headers={"Content-Type": kind})
    assert_refused(response, 400, said)


@pytest.mark.parametrize("piece", [b"%41", b"&", b"a=", b"%", b"=", b"\r\n--XX", b"--XX\r\n\r\n"])
def test_a_hostile_form_costs_little_more_than_its_own_size(piece):
    body = b"--XX\r\n" * (b"XX" in piece) + b"image=" + piece * (2_000_000 // len(piece))
    began = time.process_time()
    tracemalloc.start()
    with suppress(InvalidArgument):
        parse(body, URLENCODED)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5 * len(body)
    assert time.process_time() - began < 2


@pytest.mark.measures
@pytest.mark.parametrize(
    "body",
    [
        photo_part(b"a").replace(PHOTO, bytes(2**24)),
        b"--XX\r\n" + b"X: y\r\n" * 2**21,
        b"--XX\r\nX: " + bytes(2**24),
        b" " * 2**24 + b"!",
    ],
    ids=["a photo", "a head of many lines", "a head of one line", "white space"],
)
def test_a_large_body_takes_a_few_looks_at_each_byte_at_most_since_all_other_threads_wait(body):
    began = time.thread_time()
    with suppress(InvalidArgument):
        parse(body, FORM if body.startswith(b"--") else "")
        decode_base64(body)
    ours = time.thread_time() - began
    began = time.thread_time()
    max(body)
    one_look = time.thread_time() - began
    assert ours < 3 * one_look


def test_json_may_begin_with_the_mark_of_its_encoding(colour_server):
    body = b'\xef\xbb\xbf{"image": "' + TEXT + b'"}'
    assert colour_server.post("/api/classify", data=body).status_code == 200
