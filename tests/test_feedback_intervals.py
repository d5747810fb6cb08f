"""The statistics behind a verdict: published examples, and simulated crowds that are looked at after every answer."""

import numpy as np
import pytest

from backend.serving.feedback import intervals

RUNS = 200


def independent(first: tuple[int, int], second: tuple[int, int]) -> list[intervals.Outcome]:
    """Outcomes with so many right of so many, by the first and by the second version."""
    ones = [(place < first[0], None) for place in range(first[1])]
    return ones + [(None, place < second[0]) for place in range(second[1])]


def paired(both: int, one: int, other: int, neither: int) -> list[intervals.Outcome]:
    return [(True, True)] * both + [(True, False)] * one + [(False, True)] * other + [(False, False)] * neither


def test_a_share_has_the_published_interval():
    """Newcombe 1998 (Statistics in Medicine 17, 857), table I, method 3: 81 of 263."""
    found = intervals.wilson(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((5, 56), (0, 29), -0.0381, 0.1926)],
)
def test_a_difference_of_two_groups_has_the_published_interval(first, second, low, high):
    """Newcombe 1998 (Statistics in Medicine 17, 873), table II, method 10; there it is the first less the second."""
    found = intervals.difference(independent(second, first))
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


def test_a_difference_of_pairs_has_the_interval_of_its_formula_and_no_pairs_that_agree_make_it_vanish():
    wide = intervals.difference(independent((90, 100), (96, 100)))
    narrow = intervals.difference(paired(89, 1, 7, 3))
    assert narrow.value == wide.value == pytest.approx(0.06)
    assert 0 < narrow.low < narrow.high < wide.high
    same = intervals.difference(paired(50, 0, 0, 50))
    assert same.low < 0 < same.high


def crowd(random: np.random.Generator, first: float, second: float, answers: int, share: float = 0.5) -> list:
    """Answers of a split: who answers is chance, and so is whether it is right."""
    sides = random.random(answers) < share
    right = random.random(answers) < np.where(sides, second, first)
    return [(None, bool(ok)) if side else (bool(ok), None) for side, ok in zip(sides, right, strict=True)]


def pairs(random: np.random.Generator, shares: tuple[float, float, float, float], answers: int) -> list:
    kinds = ((True, True), (True, False), (False, True), (False, False))
    return [kinds[each] for each in random.choice(4, answers, p=shares)]


@pytest.mark.parametrize(("accuracy", "share"), [(0.9, 0.5), (0.9, 0.1), (0.7, 0.5), (0.97, 0.2)])
def test_of_200_splits_between_equals_at_most_5_percent_ever_name_a_better_one(accuracy, share):
    random = np.random.default_rng(21)
    runs = [intervals.find(crowd(random, accuracy, accuracy, 4800, share)) for _ in range(RUNS)]
    false = sum(found.better is not None for found in runs)
    print(f"split {accuracy} {share}: {false} of {RUNS} false verdicts, looked at up to 4,800 answers")
    assert false <= RUNS * 5 / 100


@pytest.mark.parametrize("shares", [(0.85, 0.05, 0.05, 0.05), (0.6, 0.2, 0.2, 0.0)])
def test_of_200_shadows_of_equals_at_most_5_percent_ever_name_a_better_one(shares):
    random = np.random.default_rng(21)
    runs = [intervals.find(pairs(random, shares, 4800)) for _ in range(RUNS)]
    false = sum(found.better is not None for found in runs)
    print(f"shadow {shares}: {false} of {RUNS} false verdicts")
    assert false <= RUNS * 5 / 100


def test_8_points_are_found_in_300_answers_of_a_split_mostly_and_of_a_shadow_nearly_always():
    random = np.random.default_rng(21)
    split = [intervals.find(crowd(random, 0.91, 0.99, 300)) for _ in range(RUNS)]
    shadow = [intervals.find(pairs(random, (0.84, 0.02, 0.10, 0.04), 300)) for _ in range(RUNS)]
    found = [sum(each.better == 1 for each in runs) for runs in (split, shadow)]
    print(f"8 points, 300 answers: found by {found[0]} splits and {found[1]} shadows of {RUNS}")
    assert found[0] > 0.7 * RUNS
    assert found[1] > 0.95 * RUNS
    assert not any(each.better == 0 for each in [*split, *shadow])


def test_8_points_between_shares_that_vary_more_are_found_in_1200_answers():
    random = np.random.default_rng(21)
    runs = [intervals.find(crowd(random, 0.84, 0.92, 1200)) for _ in range(RUNS)]
    found = sum(each.better == 1 for each in runs)
    print(f"84 and 92 %, 1,200 answers: found by {found} splits of {RUNS}")
    assert found > 0.85 * RUNS


def test_a_verdict_that_was_found_stays_whatever_comes_after():
    random = np.random.default_rng(3)
    outcomes = crowd(random, 0.8, 0.99, 300)
    first = intervals.find(outcomes)
    assert first.better == 1
    assert intervals.find(outcomes + crowd(random, 0.99, 0.8, 300)) == first


@pytest.mark.parametrize(("outcomes", "more"), [([], 75), ([(True, None)] * 20, 55), ([(True, None)] * 300, 300)])
def test_where_one_side_has_no_answer_yet_nothing_is_found(outcomes, more):
    assert intervals.answers_needed(outcomes) == more
    found = intervals.find(outcomes)
    assert found is None or found.better is None


def test_what_is_missing_is_enough_when_the_difference_stays():
    outcomes = independent((126, 150), (138, 150))
    random = np.random.default_rng(5)
    random.shuffle(outcomes)
    outcomes = [tuple(None if each is None else bool(each) for each in pair) for pair in outcomes]
    assert intervals.find(outcomes).better is None
    more = intervals.answers_needed(outcomes)
    assert 300 + more in intervals.INTERIM_ANALYSES
    assert intervals.find((outcomes * (1 + more // 300))[: 300 + more]).better == 1
