"""The statistics behind a verdict: published examples, and simulated crowds whose report is read every day of a year."""

import json
import random
from dataclasses import asdict
from math import comb

import numpy as np
import pytest
from feedback_crowd import crowd, decision, winner, winner_in_store

from backend.serving.feedback.comparison import Tally, block_of, gains, log_evidence, p_of_rates, wilson
from backend.serving.feedback.store import Store
from backend.serving.feedback.verdict import verdict

ROWS = [
    (answers, correlation, share) for answers in (1, 5, 20) for correlation in (0, 0.1, 0.3) for share in (0.5, 0.1)
]
PHONES = 2000


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


def votes(seed: int, first: float, second: float, most: int, share: float = 0.5) -> Tally:
    """A test after so many votes, or as soon as it has decided."""
    chance, test = random.Random(seed), Tally(block_of(share))
    for _ in range(most):
        side = int(chance.random() < share)
        test.add(side, chance.random() < (first, second)[side])
        if test.better is not None:
            break
    return test


@pytest.mark.parametrize("block", [(1, 1), (3, 1), (7, 13), (1, 999)])
def test_a_block_gains_nothing_on_average_whatever_the_common_share(block):
    """The property of an E-variable, on which the guarantee stands: its mean is at most 1 while both are equally good."""
    first, second = (each.ravel() for each in np.meshgrid(*(range(size + 1) for size in block)))
    ways = [comb(block[0], int(a)) * comb(block[1], int(b)) for a, b in zip(first, second, strict=True)]
    e = np.exp(gains(block, (first, second)))
    for share in (0.01, 0.3, 0.5, 0.9, 0.99):
        chances = ways * share ** (first + second) * (1 - share) ** (sum(block) - first - second)
        assert (chances @ e).max() <= 1 + 1e-9


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
            test.right, test.counted = [32, 38], [40, 40]
            told.append(test.votes_needed())
            taken.append(votes(seed, 0.8, 0.95, 5000).decided_at - 80)
    print(f"told {sum(told) / len(told):.0f} more on average, it took {sum(taken) / len(taken):.0f}")
    assert 0.4 < sum(told) / sum(taken) < 2.5


def test_with_no_votes_yet_nothing_is_found_and_a_number_is_told():
    test = Tally((1, 1))
    assert (test.better, float(log_evidence(test.logs))) == (None, pytest.approx(0))
    assert test.votes_needed() > 100


def test_vote_by_vote_and_over_arrays_the_test_decides_alike():
    chance = np.random.default_rng(5)
    side = (chance.random(3000) < 0.3).astype(int)
    right = chance.random(3000) < np.array([0.9, 0.8])[side]
    test = Tally(block_of(0.3))
    for of, is_right in zip(side, right, strict=True):
        test.add(int(of), bool(is_right))
    blocks, better = decision(side, right, 0.3)
    assert (test.decided_at, test.better) == (blocks * 10, better) == (blocks * 10, 0)


@pytest.mark.parametrize(("answers", "correlation"), [(1, 0), (5, 0.1), (20, 0.3)])
def test_a_store_that_is_read_daily_names_the_winner_that_the_votes_name(answers, correlation):
    given = [crowd(seed, 200, answers, correlation, accuracy=(0.6, 0.6 + 0.38 * seed)) for seed in (0, 1)]
    assert [winner_in_store(each) for each in given] == [winner(each) for each in given] == [None, 2]


def test_a_file_of_the_second_format_keeps_the_votes_of_its_splits(tmp_path):
    store = Store(tmp_path / "feedback.db", 30)
    store.follow({("dogs", ""): (1, 2, 0.5)})
    with store.transaction() as connection:
        tally = {**asdict(Tally((1, 1), asked=[5, 4], answered=[3, 2])), "judged": [3, 2], "right": [2, 2]}
        del tally["counted"]
        old = json.dumps({**tally, "right_in_blocks": 4, "votes_in_blocks": 4})
        connection.execute("UPDATE splits SET tally = ?", (old,))
        connection.execute("PRAGMA user_version=2")
    store.close()
    for _ in range(2):
        store = Store(tmp_path / "feedback.db", 30)
        (found,) = verdict(store, "dogs", [1, 2], {})["comparisons"]
        store.close()
        assert [found[name] for name in ("asked", "answered", "counted", "right")] == [[5, 4], [3, 2], [3, 2], [2, 2]]


@pytest.mark.parametrize(("answers", "correlation", "share"), ROWS)
def test_of_40_years_of_equal_versions_read_daily_few_name_a_winner(answers, correlation, share):
    assert false_verdicts(40, answers, correlation, share) <= 6  # more has a probability of 1 % at 5 % each


@pytest.mark.long
@pytest.mark.parametrize(("answers", "correlation", "share"), ROWS)
def test_of_1000_years_of_equal_versions_read_daily_at_most_50_name_a_winner(answers, correlation, share):
    assert false_verdicts(1000, answers, correlation, share) <= 50


def false_verdicts(runs: int, answers: int, correlation: float, share: float) -> int:
    false = sum(winner(crowd(seed, PHONES, answers, correlation, share)) is not None for seed in range(runs))
    print(f"{answers} answers, correlation {correlation}, share {share}: {false} of {runs} false verdicts")
    return false


@pytest.mark.long
def test_85_and_90_percent_are_told_apart_by_a_median_of_1500_phones():
    decided = []
    for seed in range(1000):
        chance = np.random.default_rng(seed)
        side = (chance.random(20_000) < 0.5).astype(int)
        blocks, better = decision(side, chance.random(20_000) < np.array([0.85, 0.9])[side], 0.5)
        decided.append((2 * (blocks or 10_000), better))
    phones = sorted(votes for votes, _ in decided)
    print(f"85 and 90 %: half the runs decide by {phones[500]} phones, 8 of 10 by {phones[800]}")
    assert phones[500] < 1800
    assert sum(better == 1 for _, better in decided) >= 990
