"""What the console's cards say of a version beside the default one, its rows of labels, and what it draws."""

import pytest
from dogsnap.server.protocols.console_pages import MEDIAN, _answers, _compare, _points, draw

USUAL = {"requests": 600, "refused": 0, "failed": 0, "p50_ms": 2.0, "p95_ms": 9.0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p95_ms": 24.0}, "No worse than version 2, the default"),
        ({"p50_ms": 4.1}, "Slower than version 2, the default: 0.0 % errors against 0.0 %, median"),
        ({"refused": 10}, "Worse than version 2, the default: 14.7 % errors against 0.0 %"),
    ],
)
def test_a_version_is_slower_by_its_median_not_by_its_few_slowest_requests(changes, words):
    compared = _compare({2: USUAL, 3: {**USUAL, "requests": 68, **changes}}, 2)
    assert list(compared) == [3]
    assert compared[3]["text"].startswith(words)
    assert compared[3]["is_worse"] == (not words.startswith("No"))


def test_labels_that_differ_in_case_alone_have_a_row_each():
    split = {"label": "a", "version": 3, "percent": 5}
    model = {"default_version": 2, "labels": {"a": 1, "A": 2}, "pending_labels": {"b": 4}}
    model |= {"splits": [split], "rollouts": [], "guards": []}
    assert _answers(model) == [
        ("", 2, None, None, None),
        ("A", 2, None, None, None),
        ("a", 1, split, None, None),
        ("b", None, None, None, None),
    ]


def version(requests: list[int], refused: list[int], failed: list[int]) -> dict:
    times = [1.5 if each else None for each in requests]
    columns = {"requests": requests, "refused": refused, "failed": failed}
    return {**columns, "p50_ms": times, "p95_ms": times, "whole": {}}


SERIES = {
    "step": 10,
    "times": [100.2, 110.2, 120.2],
    "versions": {
        "2": version([10, 0, 5], [1, 0, 0], [1, 0, 0]),
        "3": version([20, 30, 1], [0, 0, 0], [0, 3, 0]),
    },
}


def test_a_picture_stacks_the_requests_of_points_that_are_over_and_has_errors_of_all():
    drawn = draw(SERIES, [])
    requests, errors, *_ = drawn["pictures"]
    assert requests["lines"] == [[1.0, 0.0], [2.0, 3.0]]
    assert requests["tops"] == [[1.0, 0.0], [3.0, 3.0]]
    assert errors["lines"] == [[20.0, None, 0.0], [0.0, 10.0, 0.0]]
    assert (drawn["times"], drawn["versions"]) == ([100, 110, 120], ["2", "3"])
    assert [each["title"] for each in draw(SERIES, [], MEDIAN)["pictures"]] == [MEDIAN]


def test_the_table_has_a_row_for_each_version_with_requests_at_a_point_the_newest_first():
    rows = [(at[11:19], number, did["requests"]) for at, number, did in _points(SERIES)]
    assert rows == [
        ("00:02:00", "2", 5),
        ("00:02:00", "3", 1),
        ("00:01:50", "3", 30),
        ("00:01:40", "2", 10),
        ("00:01:40", "3", 20),
    ]
