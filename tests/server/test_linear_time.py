"""What meets a client's text takes time in proportion to its length."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import tensorflow as tf
from dogsnap.errors import DogsnapError
from dogsnap.gateway.client import ADDRESS
from dogsnap.server.protocols import tf_serving_rest
from dogsnap.serving.photos.base64_text import decode_base64
from dogsnap.serving.photos.hostile_files import check_structure
from dogsnap.serving.tensors.json_parsing import reading
from dogsnap.serving.tensors.json_tensors import from_rows
from dogsnap.serving.tensors.signatures import Signature
from dogsnap.serving.versions.servable import kernel_sentence

LEAST_SECONDS = 0.02  # below it, the clock and the interpreter decide
SLACK_SECONDS = 0.05
NUMBERS = Signature("", "", {"x": tf.TensorSpec([None], tf.float32)}, {"y": tf.TensorSpec([None])})


def read(body: bytes) -> None:
    with reading(body):
        pass


def read_wrong_last_row(text: bytes) -> None:
    from_rows([1] * len(text) + ["a"], NUMBERS)


def filter_outputs(text: bytes) -> None:
    NUMBERS.check_outputs(["y"] * len(text))


def parse_path(text: bytes) -> None:
    tf_serving_rest.parse_path("POST", f"/v1/models/{text.decode()}")


CASES = {
    "json, escaped quotes": (read, b'{"x": [Inf], "text": "', b'\\"'),
    "json, quotes": (read, b'{"x": [NaN, "', b'",Inf,"'),
    "json, base64 with Inf": (read, b'{"x": [NaN], "text": "', b"AAInfAAA"),
    "json, spaces": (read, b"", b"  "),
    "json, surrogates": (read, b'{"x": "', b"\\ud83d\\ude00"),
    "json, digits": (read, b'{"x": NaN, "y": 0.', b"12"),
    "base64, spaces": (decode_base64, b"", b" \n"),
    "base64, data prefix": (decode_base64, b" data:", b"data:"),
    "base64, wrong characters": (decode_base64, b"", b"?!"),
    "jpeg, markers": (check_structure, b"\xff\xd8\xff\xda", b"\xff\xff\x00"),
    "jpeg, escaped bytes": (check_structure, b"\xff\xd8\xff\xda", b"\xff\x00"),
    "gif, blocks": (check_structure, b"GIF89a" + bytes(7), b"!\xfe\x01a\x00"),
    "rows, the last one wrong": (read_wrong_last_row, b"", b"1"),
    "output filter": (filter_outputs, b"", b"yy"),
    "path, slashes": (parse_path, b"", b"a/versions/1"),
    "operation": (lambda text: kernel_sentence(text.decode()), b"", b"[Op:"),
    "operation, lines": (lambda text: kernel_sentence(text.decode()), b"", b" \n\tFile"),
    "engine's address": (lambda text: ADDRESS.search(text.decode()), b"", b"1.1.x"),
    "engine's address, digits": (lambda text: ADDRESS.search(text.decode()), b"", b"11111"),
}


def seconds(call: Callable[[bytes], object], text: bytes) -> float:
    started = time.thread_time()
    with suppress(DogsnapError):
        call(text)
    return time.thread_time() - started


@pytest.fixture
def no_collection() -> Iterator[None]:
    """A full collection takes as long as TensorFlow's modules are many, whatever the text."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.measures
@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(("call", "start", "piece"), CASES.values(), ids=list(CASES))
def test_four_times_the_text_takes_about_four_times_the_time(
    call: Callable[[bytes], object], start: bytes, piece: bytes
) -> None:
    count = 4_000
    once = 0.0
    while once < LEAST_SECONDS and count < 500_000:
        count *= 2
        once = min(seconds(call, start + piece * count) for _ in range(3))
    four_times = min(seconds(call, start + piece * 4 * count) for _ in range(3))
    # In proportion it is 4 times, with the square of the length 16 times.
    assert four_times < 10 * once + SLACK_SECONDS
