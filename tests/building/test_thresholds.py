"""The thresholds of what an answer may claim, and the reports on it."""

import numpy as np
import pytest
from dogsnap.serving.answers.levels import ONE_CLASS, Decision, Levels
from dogsnap.training import thresholds as fitting
from lab import decision_fit
from lab.group_choice import of_groups
from support.twelve_breeds import HUSKIES, IDS, LABELS, LEVELS, probabilities


def photos_of(classes: int, count: int, sharpness: float) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated answers: probabilities (count, classes), and breeds drawn from them; the same at each call."""
    random = np.random.default_rng(5)
    answers = random.dirichlet(np.full(classes, sharpness), count)
    breeds = np.array([random.choice(classes, p=row) for row in answers])
    return answers, breeds


def test_sets_hold_the_right_breed_in_95_of_100_photos_after_95_of_100_draws():
    answers, breeds = photos_of(20, 20_000, 0.03)
    given = answers[np.arange(20_000), breeds]
    draws = np.random.default_rng(5).choice(given, (400, 1200))
    held = [np.mean(given >= decision_fit.set_threshold(draw, np.ones(1200))) for draw in draws]
    assert np.mean(np.array(held) < decision_fit.COVERAGE) <= 0.06
    assert np.mean(held) == pytest.approx(decision_fit.COVERAGE, abs=0.015)


def test_the_bound_on_sets_is_that_of_the_binomial_distribution():
    """Of 59 photos all but 1 in 20 exceed the smallest with a probability of 0.95, as 0.95 ** 59 < 0.05; of 58 there is none."""
    given = np.arange(1, 60) / 100
    assert decision_fit.set_threshold(given, np.ones(59)) == 0.01
    assert decision_fit.set_threshold(given[:58], np.ones(58)) == 0.0


def fitted(answers: np.ndarray, breeds: np.ndarray, whole: np.ndarray) -> Decision:
    weights = decision_fit.weights_of(breeds, whole, np.zeros(answers.shape[1]))
    told = of_groups(answers, breeds, [[0, 1, 2]])
    return decision_fit.fit_decision(answers, breeds, *told, whole, weights, 0.5)


def test_what_is_fitted_keeps_its_promises_on_photos_it_has_not_seen():
    answers, breeds = photos_of(12, 6000, 0.02)
    whole = np.arange(6000) % 2 == 1
    half = np.arange(6000) < 3000
    levels = Levels(fitted(answers[half], breeds[half], whole[half]), [HUSKIES], IDS)
    scores = fitting.report(levels, answers[~half], breeds[~half], np.ones(3000, bool))
    assert scores["breed"]["right"] >= decision_fit.SURE_BREED_PRECISION - 0.005
    assert scores["sure"]["share"] > 0.25
    assert scores["coverage"] == pytest.approx(decision_fit.COVERAGE, abs=0.02)
    assert scores["unknown"]["share"] < 0.05
    assert sum(scores[level]["share"] for level in ONE_CLASS) == pytest.approx(1, abs=1e-3)
    # Where there is no whole picture, all of one kind calibrates the sets.
    crops, pictures = (fitted(answers, breeds, np.full(6000, whole)) for whole in (False, True))
    assert crops == pictures
    assert crops.dog == 0.5


# -- reports -----------------------------------------------------------------------------------------------------------


def test_the_report_counts_each_level_and_how_often_it_holds_the_breed():
    answers = np.array(
        [
            probabilities(n5=0.95),  # right
            probabilities(n5=0.95),  # wrong
            probabilities(n0=0.5, n1=0.35),  # its second breed
            probabilities(n5=0.5, n0=0.35),  # its second breed
            probabilities(n5=0.95),  # of a photo that is taken for one without a dog
        ]
    )
    breeds, is_dog = np.array([5, 6, 1, 0, 5]), np.array([True, True, True, True, False])
    scores = fitting.report(LEVELS, answers, breeds, is_dog)
    assert scores["breed"] == {"share": 0.4, "right": 0.5}
    assert scores["group"] == {"share": 0.2, "right": 1.0}
    assert scores["set"] == {"share": 0.2, "right": 1.0}
    assert scores["no_dog"] == {"share": 0.2}
    assert scores["sure"] == {"share": 0.6, "right": 0.6667}
    assert (scores["coverage"], scores["mean_set_size"]) == (0.75, 1.4)


def test_what_is_told_of_unknown_breeds_is_counted_with_what_they_are_taken_for():
    answers = np.array(
        [probabilities(n5=0.95)] * 2 + [probabilities(n0=0.5, n1=0.35), np.full(12, 1 / 12)]
    )
    scores = fitting.report_unknown(LEVELS, answers, ["shiba", "shiba", "akita", "akita"], LABELS)
    assert (scores["photos"], scores["breed"], scores["group"], scores["unknown"]) == (
        4,
        0.5,
        0.25,
        0.25,
    )
    assert scores["taken_for"][0] == {
        "is": "shiba",
        "level": "breed",
        "taken_for": "dog n5",
        "times": 2,
    }
    assert scores["taken_for"][1]["taken_for"] == "husky"


# -- thresholds with a bound --------------------------------------------------------------------------------------------

ASKED, DRAWS, PHOTOS = 0.97, 400, 1000


def threshold(scores: np.ndarray, right: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The threshold for ASKED; photos count alike where not said otherwise."""
    alike = np.ones(len(scores))
    return fitting.bounded_threshold(scores, right, alike if weights is None else weights, ASKED)


def lowest_right(scores: np.ndarray, right: np.ndarray) -> float:
    """The lowest score from which on ASKED of these photos are right, without a bound."""
    order = np.argsort(-scores)
    shares = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    return float(scores[order][np.flatnonzero(shares >= ASKED)[-1]])


def true_precision(threshold: float) -> float:
    return (1 + (1 - threshold) * (1 + threshold)) / (1 + 2 * (1 - threshold))


def test_the_precision_holds_in_95_of_100_draws_where_the_largest_lucky_prefix_does_not():
    """Half of the photos have the score 1 and are right; the score of each other is the probability that it is right."""
    random = np.random.default_rng(3)
    scores = np.where(np.arange(PHOTOS) % 2, 1.0, random.uniform(0.5, 1, (DRAWS, PHOTOS)))
    draws = list(zip(scores, random.random((DRAWS, PHOTOS)) < scores, strict=True))
    found = [threshold(*draw) for draw in draws]
    assert np.mean([true_precision(each) < ASKED for each in found]) <= 0.05
    lucky = [lowest_right(*draw) for draw in draws]
    assert np.mean([true_precision(each) < ASKED for each in lucky]) > 0.3


def test_where_nothing_is_sure_enough_the_threshold_is_1_and_equal_scores_stay_together():
    scores = np.linspace(0.5, 0.999, 500)
    assert threshold(scores, np.zeros(500, bool)) == 1.0
    assert threshold(scores[-20:], np.ones(20, bool)) == 1.0  # too few to tell
    tied = np.repeat([0.99, 0.7], 400)
    assert threshold(tied, tied > 0.8) == 0.705


def test_a_candidate_that_too_few_answers_reach_ends_no_search():
    scores = np.linspace(0.5, 0.979, 2000)  # as a lapse rate of 0.021 bounds them
    assert threshold(scores, scores > 0.7) < 0.71


def test_the_precision_holds_in_95_of_100_draws_where_few_answers_reach_the_first_candidates():
    random = np.random.default_rng(5)
    scores = random.uniform(0.5, 0.979, (DRAWS, 3000))
    draws = zip(
        scores, random.random(scores.shape) < 0.83 + scores / 6, strict=True
    )  # 0.993 of the surest are right
    found = np.array([threshold(*draw) for draw in draws])
    # The mean of those above a threshold.
    assert np.mean((found < 1) & (0.83 + (found + 0.979) / 12 < ASKED)) <= 0.05
    assert np.mean(found < 1) > 0.3


# -- weights ------------------------------------------------------------------------------------------------------------


def test_a_breed_counts_as_much_as_it_is_common_however_many_photos_it_has():
    breeds, whole = np.array([0] * 10 + [1] * 100 + [0, 1]), np.arange(112) < 110
    weights = decision_fit.weights_of(breeds, whole, np.log([3.0, 1.0]))
    assert weights[:10].sum() == pytest.approx(3)
    assert weights[10:110].sum() == pytest.approx(1)
    assert weights[110:].tolist() == pytest.approx([3, 1])


def test_the_precision_holds_in_95_of_100_draws_of_photos_that_count_unlike():
    """Rare breeds are photographed as often as common ones and more often wrong: by their weights 97 % are right from 0.85 on."""
    random = np.random.default_rng(7)
    rarity = random.uniform(0, 1, (DRAWS, PHOTOS))
    weights, scores = np.exp(-1.2 * rarity), random.uniform(0.5, 1, (DRAWS, PHOTOS))
    chance = np.clip(0.94 + 0.06 * scores - 0.03 * rarity, 0, 1)
    draws = zip(scores, random.random((DRAWS, PHOTOS)) < chance, weights, strict=True)
    found = np.array([threshold(*draw) for draw in draws])
    reached = scores[np.newaxis] >= np.unique(found)[:, np.newaxis, np.newaxis]
    true = {
        candidate: np.average(chance[each], weights=weights[each])
        for candidate, each in zip(np.unique(found), reached, strict=True)
        if candidate < 1
    }
    assert np.mean([true.get(each, 1.0) < ASKED for each in found]) <= 0.05
    assert np.mean(found < 1) > 0.3


def test_breeds_and_groups_keep_their_promises_in_95_of_100_draws_though_one_search_follows_the_other():
    """A group of two holds the breed where its first or second is right; the first of a photo is as often as it says."""
    random = np.random.default_rng(11)
    wrong_breeds, wrong_groups = [], []
    for _ in range(DRAWS // 2):
        first = random.uniform(0.5, 1, PHOTOS)
        second = (1 - first) * random.uniform(0.5, 1, PHOTOS)
        rest = np.maximum(1 - first - second, 0)
        answers = np.stack([first, second, rest], axis=1)
        breeds = np.array([random.choice(3, p=row / row.sum()) for row in answers])
        shared, held = of_groups(answers, breeds, [[0, 1]])
        weights = np.ones(PHOTOS)
        fitted = decision_fit.fit_decision(answers, breeds, shared, held, weights > 0, weights, 0.5)
        told = (first < fitted.confident) & (shared >= fitted.group)
        wrong_breeds.append((1 + fitted.confident) / 2 < decision_fit.SURE_BREED_PRECISION)
        wrong_groups.append(
            told.any() and (first + second)[told].mean() < decision_fit.GROUP_PRECISION
        )
    assert np.mean(wrong_breeds) <= 0.05
    assert np.mean(wrong_groups) <= 0.05
