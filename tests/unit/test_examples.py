"""The answers of classify and regress: what a version's outputs have to be."""

import numpy as np
import pytest
from dogsnap.errors import InvalidArgument
from dogsnap.serving.tensors.examples import classify_rows, regress_rows

CLASSES = np.array([[b"a", b"b"]], object)
SCORES = np.array([[0.25, 0.75]], np.float32)


def test_each_class_has_its_score():
    assert classify_rows({"classes": CLASSES, "scores": SCORES}, 1) == [[("a", 0.25), ("b", 0.75)]]
    assert classify_rows({"scores": SCORES}, 1) == [[("", 0.25), ("", 0.75)]]
    assert classify_rows({"classes": CLASSES}, 1) == [[("a", 0.0), ("b", 0.0)]]


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (
            {"classes": CLASSES, "scores": np.zeros((1, 3), np.float32)},
            r"classes and scores of one shape but got \(1, 2\) and \(1, 3\)",
        ),
        ({"classes": SCORES, "scores": SCORES}, "classes Tensor of DT_STRING. Got: float32"),
        ({"classes": CLASSES, "scores": CLASSES}, "scores Tensor of DT_FLOAT. Got: strings"),
        ({"scores": SCORES.astype(np.complex64)}, "scores Tensor of DT_FLOAT. Got: complex64"),
    ],
)
def test_outputs_that_are_no_classes_and_scores_are_refused(outputs, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        classify_rows(outputs, 1)


def test_a_regression_of_strings_is_refused():
    with pytest.raises(InvalidArgument, match=r"outputs Tensor of DT_FLOAT. Got: strings"):
        regress_rows({"outputs": CLASSES[:, :1]}, 1)
