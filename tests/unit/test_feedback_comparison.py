"""The statistics behind a verdict: published examples, and simulated crowds whose report is read every day of a year."""

import random
from math import comb, exp

import pytest
from feedback_crowd import year

from backend.serving.feedback.comparison import SequentialTest, block_of, p_of_rates, wilson

# Answers of a phone, their correlation, and so many phones that a run takes less than a second.
ROWS = [
    (answers, correlation, {1: 400, 5: 200, 20: 80}[answers]) for answers in (1, 5, 20) for correlation in (0, 0.1, 0.3)
]


def test_a_share_has_the_published_interval():
    """Newcombe 1998 (Statistics in Medicine 17, 857), table I, method 3: 81 of 263."""
    found = wilson(81, 263)
    assert (round(found["low"], 4), round(found["high"], 4)) == (0.2553, 0.3662)


def test_rates_are_compared_by_the_published_chi_square():
    """Agresti, Categorical Data Analysis, on aspirin and heart attacks: 189 of 11,034 and 104 of 11,037 give 25.01."""
    assert p_of_rates((189, 104), (11_034, 11_037)) == pytest.approx(5.7e-7, rel=0.02)
    assert p_of_rates((5, 0), (5, 0)) == p_of_rates((5, 5), (5, 5)) == p_of_rates((0, 0), (5, 5)) == 1


@pytest.mark.parametrize(
    ("share", "block"), [(0.5, (1, 1)), (0.05, (19, 1)), (0.3, (7, 3)), (0.01, (99, 1)), (0.9, (1, 9))]
)
def test_a_block_has_the_votes_of_both_versions_as_the_split_has_their_phones(share, block):
    assert block_of(share) == block


def votes(seed: int, first: float, second: float, most: int, share: float = 0.5) -> SequentialTest:
    """A test after so many votes, or as soon as it has decided."""
    chance, test = random.Random(seed), SequentialTest(block_of(share))
    for _ in range(most):
        side = int(chance.random() < share)
        test.add(side, chance.random() < (first, second)[side])
        if test.better is not None:
            break
    return test


@pytest.mark.parametrize("before", [(0, 0), (90, 100)])
def test_a_block_gains_nothing_on_average_whatever_the_common_share(before):
    """The property of an E-variable, on which the guarantee stands: its mean is at most 1 while both are equally good."""
    for block in ((1, 1), (3, 1)):
        test = SequentialTest(block, right=before[0], votes=before[1])
        for share in (0.01, 0.3, 0.5, 0.9, 0.99):
            assert max(mean_e(test, share)) <= 1 + 1e-9


def mean_e(test: SequentialTest, share: float) -> list[float]:
    means = [0.0] * len(test.logs)
    for first in range(test.block[0] + 1):
        for second in range(test.block[1] + 1):
            right, size = first + second, sum(test.block)
            chance = (
                comb(test.block[0], first) * comb(test.block[1], second) * share**right * (1 - share) ** (size - right)
            )
            means = [mean + chance * exp(gain) for mean, gain in zip(means, test._gains(first, second), strict=True)]
    return means


def test_a_verdict_that_was_found_stays_whatever_comes_after():
    test = votes(3, 0.8, 0.99, 5000)
    assert test.better == 1
    for _ in range(300):
        test.add(0, True)
        test.add(1, False)
    assert test.better == 1


def test_what_is_missing_is_about_what_it_takes():
    told, taken = [], []
    for seed in range(30):
        test = votes(seed, 0.8, 0.95, 80)
        if test.better is None:
            told.append(test.votes_needed((32, 38), (40, 40)))
            taken.append(votes(seed, 0.8, 0.95, 5000).decided_at - 80)
    print(f"told {sum(told) / len(told):.0f} more on average, it took {sum(taken) / len(taken):.0f}")
    assert 0.4 < sum(told) / sum(taken) < 2.5


def test_with_no_votes_yet_nothing_is_found_and_a_number_is_told():
    test = SequentialTest((1, 1))
    assert (test.better, test.evidence()) == (None, pytest.approx(1))
    assert test.votes_needed((0, 0), (0, 0)) > 100


@pytest.mark.parametrize(("answers", "correlation"), [(1, 0), (20, 0.3)])
def test_equal_versions_have_no_winner_in_a_year_that_is_read_daily(answers, correlation):
    runs = [year(seed, {1: 150, 20: 30}[answers], answers, correlation) for seed in range(20)]
    print(f"{sum(each is not None for each in runs)} of {len(runs)} false verdicts")
    assert sum(each is not None for each in runs) <= 1


def test_a_version_that_is_better_by_far_is_found():
    assert [year(seed, 150, 5, 0.1, accuracy=(0.6, 0.95)) for seed in range(5)] == [2] * 5


@pytest.mark.long
@pytest.mark.parametrize(("answers", "correlation", "phones"), ROWS)
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_of_1000_years_of_equal_versions_at_most_5_percent_name_a_winner(answers, correlation, phones, share):
    false = sum(year(seed, phones, answers, correlation, share) is not None for seed in range(1000))
    print(f"{answers} answers, correlation {correlation}, share {share}: {false} of 1,000 false verdicts")
    assert false <= 50


@pytest.mark.long
def test_85_and_90_percent_are_told_apart_by_a_median_of_1500_phones():
    runs = [votes(seed, 0.85, 0.90, 20_000) for seed in range(300)]
    decided = sorted(each.decided_at for each in runs)
    print(f"85 and 90 %: half the runs decide by {decided[150]} phones, 8 of 10 by {decided[240]}")
    assert decided[150] < 1800
    assert sum(each.better == 1 for each in runs) >= 297
