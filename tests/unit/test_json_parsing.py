"""The lenient JSON reader: what TensorFlow Serving's parser takes, and nothing that breaks it."""

import gc
import re

import pytest
from dogsnap.errors import InvalidArgument, TooLarge, Unavailable
from dogsnap.serving.tensors import json_parsing
from dogsnap.serving.tensors.json_parsing import is_deeper, reading


def read(body: bytes) -> dict:
    with reading(body) as document:
        return document


DEEP = r"JSON Parse error: nested deeper than 100 levels"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"ignored": ' + b"[" * 100_000 + b"]" * 100_000 + b', "instances": [1]}', DEEP),
        (b'{"a":' * 200_000, DEEP),  # never closed
        (b"[" * 200_000, DEEP),
        (b'{"instances": ' + b"[" * 100_000, DEEP),
        (b'{"instances": [' + b"9" * 5000 + b"]}", "Number too big"),
    ],
    ids=["ignored key", "objects", "lists", "instances", "digits"],
)
def test_what_is_nested_too_deep_or_too_long_a_number_is_refused(
    body: bytes, sentence: str
) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        read(body)


def test_depth_is_counted_in_levels_of_lists_and_objects() -> None:
    for value, levels in ((1, 0), ([], 1), ({"a": [1]}, 2), ([1, {"a": [{}]}], 4)):
        assert is_deeper(value, levels - 1) or levels == 0
        assert not is_deeper(value, levels)


def test_more_values_than_allowed_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(TooLarge, match="at most 12 million are taken"):
        read(b'{"instances": [' + b"[1]," * 2_400_000 + b"[1]]}")


def test_one_large_document_is_read_at_a_time_and_no_garbage_is_looked_for_meanwhile(
    monkeypatch,
) -> None:
    monkeypatch.setattr(json_parsing, "WAIT_SECONDS", 0.01)
    large = b'{"instances": [' + b"0," * json_parsing.LARGE + b"0]}"
    with reading(large):
        assert not gc.isenabled()
        read(b'{"instances": ["' + b"A" * 10_000_000 + b'"]}')
        with pytest.raises(Unavailable, match="reading other large JSON documents"):
            read(large)
        assert not gc.isenabled()
    assert gc.isenabled()
    read(large)


def test_nan_and_infinity_are_read_and_the_short_inf_is_refused() -> None:
    document = read(b'{"instances": [NaN, Infinity, -Infinity]} and what follows')
    assert str(document["instances"]) == "[nan, inf, -inf]"
    for body in (b'{"instances": [Inf]}', b'{"instances": [-Inf]}'):
        with pytest.raises(InvalidArgument, match=r"JSON Parse error: Invalid value"):
            read(body)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1.5E+309"])
def test_a_number_that_no_double_holds_is_refused_and_named(number: str) -> None:
    for values in (number, f"NaN, {number}", f"1e308, {number}"):
        with pytest.raises(InvalidArgument, match=f"stored in double: {re.escape(number)}$"):
            read(f'{{"instances": [{values}]}}'.encode())


@pytest.mark.parametrize(
    "body",
    [rb'{"\ud800": 1}', rb'{"a": ["\udc00\ud800", NaN]}', rb'{"a": {"b": "\uD83D"}}'],
)
def test_half_a_character_is_refused_in_keys_and_values(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match="surrogate pair in string is invalid"):
        read(body)


def test_whole_characters_are_read_from_their_escapes() -> None:
    assert read(rb'{"a": ["\ud83d\ude00", NaN]}')["a"][0] == "\U0001f600"
    assert read(rb'{"a": ["\\ud800", NaN]}')["a"][0] == r"\ud800"
