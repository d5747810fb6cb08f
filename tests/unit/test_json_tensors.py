"""Rows of JSON as arrays: which row an error names."""

from typing import Any

import pytest
import tensorflow as tf
from dogsnap.errors import InvalidArgument
from dogsnap.serving.tensors.json_tensors import from_rows
from dogsnap.serving.tensors.open_inference_tensors import Tensor
from dogsnap.serving.tensors.signatures import Signature

PAIRS = Signature("", "", {"x": tf.TensorSpec([None, 2], tf.float32)}, {})


@pytest.mark.parametrize("count", [1, 2, 3, 64, 1000])
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([1, "a"], 'JSON Value: "a" Type: String is not of expected type: float'),
        ([1], "Expecting tensor size: 2 but got: 1"),
        ([[1], [2]], r"Expecting shape \[2\] but got: \[2,1\]"),
        (5, "Expecting tensor size: 2 but got: 1"),
    ],
)
def test_the_first_wrong_row_is_named_wherever_it_is(count: int, wrong: Any, sentence: str) -> None:
    for number in {1, (count + 1) // 2, count}:
        rows: list[Any] = [[1, 2]] * number + [wrong] + [[1, 2]] * (count - number) + [["b", 1]]
        with pytest.raises(InvalidArgument, match=rf"element: {number} of .*{sentence}"):
            from_rows(rows, PAIRS)


def test_a_wrong_first_row_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"element: 0 of .*String is not of expected type"):
        from_rows([["a", 1], [1, 2]], PAIRS)


def test_bytes_of_a_message_are_no_numbers() -> None:
    with pytest.raises(InvalidArgument, match=r"Type: String is not of expected type: float"):
        Tensor("x", "FP32", [1], [b"1"]).array()
