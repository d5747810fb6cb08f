"""The exact test of McNemar, and how often the bound of a drop is wrong."""

import math

import numpy as np
import pytest
from dogsnap.training.evaluation.paired_tests import drop_bound, mcnemar, photos_needed


def test_mcnemar_is_the_sign_test() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(8, 1) == mcnemar(1, 8) == pytest.approx(2 * (1 + 9) / 2**9)
    assert mcnemar(0, 3000) < 1e-300


def test_the_bound_is_exact_at_its_ends() -> None:
    assert drop_bound(0, 0, 400) == pytest.approx(1 - 0.025 ** (1 / 400))
    assert drop_bound(400, 0, 400) == 1.0
    assert drop_bound(0, 400, 400) == pytest.approx(1 - 0.025 ** (1 / 400) - 0.025 ** (1 / 400))
    assert drop_bound(10, 10, 400) > drop_bound(10, 15, 400) > 0
    assert drop_bound(0, 0, photos_needed(0.01)) <= 0.01 < drop_bound(0, 0, photos_needed(0.01) - 1)


@pytest.mark.parametrize(
    ("photos", "only_second", "excess"),
    [(400, 0.0, 0.02), (400, 0.05, 0.02), (400, 0.0, 1e-9), (300, 0.0, 1e-9), (1000, 0.04, 1e-9)],
)
def test_a_version_that_is_worse_than_allowed_passes_in_at_most_5_of_100(
    photos, only_second, excess
) -> None:
    """`excess`: beyond the allowed drop; at almost none it is hardest."""
    allowed = 0.01
    only_first = only_second + allowed + excess
    shares = [only_first, only_second, 1 - only_first - only_second]
    draws = np.random.default_rng(8).multinomial(photos, shares, 1000)
    pairs, times = np.unique(draws[:, :2], axis=0, return_counts=True)
    passed = 0
    for (first, second), count in zip(pairs.tolist(), times.tolist(), strict=True):
        passed += count * (drop_bound(first, second, photos) <= allowed)
    assert passed <= 50
    assert math.isfinite(passed)
