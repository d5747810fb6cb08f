"""The lenient JSON reader: what TensorFlow Serving's parser takes, and nothing that breaks it."""

import gc

import pytest

from backend.errors import InvalidArgument, TooLarge, Unavailable
from backend.serving.tensors import json_text
from backend.serving.tensors.json_text import JsonLimits, is_deeper, reading


def read(body: bytes, **limits: int) -> dict:
    with reading(body, JsonLimits(**limits)) as document:
        return document


def test_deep_values_are_refused_also_under_keys_that_are_ignored() -> None:
    body = b'{"ignored": ' + b"[" * 100_000 + b"]" * 100_000 + b', "instances": [1]}'
    with pytest.raises(InvalidArgument, match="nested deeper than"):
        read(body)


@pytest.mark.parametrize("body", [b'{"a":' * 200_000, b"[" * 200_000, b'{"instances": ' + b"[" * 100_000])
def test_depth_that_is_never_closed_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match="JSON Parse error"):
        read(body)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Number too big"):
        read(b'{"instances": [' + b"9" * 5000 + b"]}")


def test_what_follows_the_object_is_left_alone() -> None:
    assert read(b'{"instances": [1]} and more') == {"instances": [1]}


def test_what_is_never_closed_is_refused_with_the_limit_and_its_setting() -> None:
    with pytest.raises(InvalidArgument, match=r"deeper than 7 levels \(DOGSNAP_MAX_JSON_DEPTH\)"):
        read(b'{"a":' * 200_000, depth=7)


def test_depth_is_counted_in_levels_of_lists_and_objects() -> None:
    for value, levels in ((1, 0), ([], 1), ({"a": [1]}, 2), ([1, {"a": [{}]}], 4)):
        assert is_deeper(value, levels - 1) or levels == 0
        assert not is_deeper(value, levels)


def test_more_values_than_allowed_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(TooLarge, match=r"million are taken \(DOGSNAP_MAX_JSON_VALUES\)"):
        read(b'{"instances": [' + b"[1]," * 500 + b"[1]]}", values=1000)


def test_one_large_document_is_read_at_a_time_and_no_garbage_is_looked_for_meanwhile(monkeypatch) -> None:
    monkeypatch.setattr(json_text, "WAIT_SECONDS", 0.01)
    large = b'{"instances": [' + b"0," * json_text.LARGE + b"0]}"
    with reading(large, JsonLimits()):
        assert not gc.isenabled()
        read(b'{"instances": ["' + b"A" * 10_000_000 + b'"]}')
        with pytest.raises(Unavailable, match="reading other large JSON documents"):
            read(large)
        assert not gc.isenabled()
    assert gc.isenabled()
    read(large)
