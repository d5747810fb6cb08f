"""Base64 text in every form that clients send."""

import base64

import pytest
import tensorflow as tf
from dogsnap.errors import InvalidArgument
from dogsnap.serving.photos import preprocessing
from dogsnap.serving.photos.base64_text import decode_base64, web_safe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.base64_forms import FORMS

BYTES = bytes(range(256))
STANDARD = base64.b64encode(BYTES).decode()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_base64_is_read_and_so_it_is_once_its_alphabet_is_the_web_safe_one(form):
    text = FORMS[form](BYTES)
    assert decode_base64(text) == decode_base64(text.decode()) == BYTES
    assert b"+" not in web_safe(text)
    assert decode_base64(web_safe(text)) == BYTES


SPACE = st.sampled_from([b"", b" ", b"\n", b"\r\n\t", b"\f", b"\v", "\u00a0".encode()])
LONG = [
    letter.encode() * 256 for letter in "aé狗🐶"
]  # what a prefix may hold at most, in 1 to 4 bytes a character
PREFIXES = st.sampled_from(
    [b"", b"data:,", b"DATA:image/jpeg;base64,", b"data:\xff,", b"data:a\n\0b,"]
) | st.sampled_from([b"data:" + long + more + b"," for long in LONG for more in (b"", b"b")])
TEXTS = st.binary(max_size=9).flatmap(
    lambda c: st.sampled_from([base64.b64encode(c), base64.urlsafe_b64encode(c)])
)
ENDS = st.sampled_from([b"", b"=", b"==", b"= =", b"=\n", b"A", b"!"])
IN_THE_GRAPH = tf.function(
    preprocessing.decode_base64, input_signature=[tf.TensorSpec([None], tf.string)]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(
    parts=st.tuples(
        SPACE,
        PREFIXES,
        SPACE,
        TEXTS,
        SPACE,
        st.just(b"") | TEXTS.map(lambda t: t.rstrip(b"=")),
        ENDS,
        SPACE,
    )
)
def test_what_the_graph_takes_is_read_here_too_and_as_the_same(parts):
    text = b"".join(parts)
    try:
        (contents,) = IN_THE_GRAPH([text]).numpy()
    except tf.errors.InvalidArgumentError:
        return
    assert decode_base64(text) == contents


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("ab!d", "the character '!'"),
        (STANDARD + "!", "the character '='"),
        ("狗", "the character '狗'"),
        ("abcde", "5 characters"),
        ("\ud800", "the character"),
    ],
)
def test_what_is_no_base64_is_refused_naming_the_fault(text, received):
    with pytest.raises(
        InvalidArgument, match="Unable to base64 decode: expected base64 text"
    ) as error:
        decode_base64(text)
    assert received in error.value.message
    assert STANDARD[:20] not in error.value.message
