"""Thresholds with a bound: in a simulation, the precision that is asked holds with the confidence that is asked."""

import numpy as np
import pytest

from backend.training.levels import threshold_for
from backend.training.selective_risk import binomial_tail, bounded_threshold

ASKED, DRAWS, PHOTOS = 0.97, 400, 1000


def draws() -> list[tuple[np.ndarray, np.ndarray]]:
    """Calibration photos whose answers with the score s are right with the probability 0.9 + 0.1 s."""
    random = np.random.default_rng(3)
    scores = random.random((DRAWS, PHOTOS))
    return list(zip(scores, random.random((DRAWS, PHOTOS)) < 0.9 + 0.1 * scores, strict=True))


def true_precision(threshold: float) -> float:
    return 0.9 + 0.05 * (1 + threshold)


def test_the_precision_holds_in_95_of_100_draws_where_the_largest_lucky_prefix_does_not():
    found = [bounded_threshold(scores, right, ASKED) for scores, right in draws()]
    assert np.mean([true_precision(each) < ASKED for each in found]) <= 0.05
    lucky = [threshold_for(scores, right, ASKED, np.zeros(PHOTOS)) for scores, right in draws()]
    assert np.mean([true_precision(each) < ASKED for each in lucky]) > 0.3


def test_more_photos_find_a_threshold_nearer_to_the_best_one():
    random = np.random.default_rng(4)
    scores = random.random(100_000)
    found = bounded_threshold(scores, random.random(100_000) < 0.9 + 0.1 * scores, ASKED)
    assert 0.4 <= found <= 0.5


def test_where_nothing_is_sure_enough_the_threshold_is_1_and_equal_scores_stay_together():
    scores = np.linspace(0.1, 0.9, 500)
    assert bounded_threshold(scores, np.zeros(500, bool), ASKED) == 1.0
    assert bounded_threshold(scores[:20], np.ones(20, bool), ASKED) == 1.0  # too few to tell
    tied = np.repeat([0.9, 0.5], 400)
    assert bounded_threshold(tied, tied > 0.6, ASKED) == 0.9


def test_the_tail_is_that_of_the_binomial_distribution():
    assert binomial_tail(0, 10, 0.1) == pytest.approx(0.9**10)
    assert binomial_tail(1, 3, 0.5) == pytest.approx(0.5)
    assert binomial_tail(10, 10, 0.3) == pytest.approx(1.0)
