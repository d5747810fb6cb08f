"""The lenient JSON reader: what TensorFlow Serving's parser takes, and nothing that breaks it."""

import gc

import pytest

from backend.errors import InvalidArgument, TooLarge, Unavailable
from backend.serving.tensors import json_text
from backend.serving.tensors.json_text import JsonLimits, is_deeper, reading, without_deep_values


def read(body: bytes, **limits: int) -> dict:
    with reading(body, JsonLimits(**limits)) as document:
        return document


def test_deep_values_under_keys_that_are_ignored_do_no_harm() -> None:
    body = b'{"ignored": ' + b"[" * 100_000 + b"]" * 100_000 + b', "instances": [1]}'
    assert read(body)["instances"] == [1]


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


@pytest.mark.parametrize(
    ("text", "depth", "kept"),
    [
        ('{"a": [[[1]], [2]], "b": [3]}', 2, '{"a": [null, null], "b": [3]}'),
        ('{"a[[[": "]]\\"[[", "b": [[[]]]}', 2, '{"a[[[": "]]\\"[[", "b": [null]}'),
        ('{"a": {"b": {"c": {}}}} [[[[', 2, '{"a": {"b": null}} [[[['),
        ("[[[[", 2, "[[[["),
    ],
)
def test_what_is_too_deep_is_replaced_by_null_and_brackets_in_texts_count_for_nothing(text, depth, kept) -> None:
    assert without_deep_values(text, depth) == kept


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
