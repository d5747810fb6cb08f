"""The thresholds of what an answer may claim, and the reports on it."""

import numpy as np
import pytest
from dogsnap.networks.groups import of_groups
from dogsnap.serving.answers.levels import THRESHOLDS, Level, Levels
from dogsnap.training import thresholds as fitting
from twelve_breeds import HUSKIES, IDS, LABELS, LEVELS, probabilities


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
    held = [np.mean(given >= fitting.set_threshold(draw)) for draw in draws]
    assert np.mean(np.array(held) < fitting.COVERAGE) <= 0.06
    assert np.mean(held) == pytest.approx(fitting.COVERAGE, abs=0.015)


def test_the_bound_on_sets_is_that_of_the_binomial_distribution():
    """Of 59 photos all but 1 in 20 exceed the smallest with a probability of 0.95, as 0.95 ** 59 < 0.05; of 58 there is none."""
    given = np.arange(1, 60) / 100
    assert fitting.set_threshold(given) == 0.01
    assert fitting.set_threshold(given[:58]) == 0.0


def test_a_threshold_is_the_lowest_with_the_asked_precision():
    scores, right, one_kind = (
        np.array([0.9, 0.8, 0.7, 0.6]),
        np.array([True, True, True, False]),
        np.zeros(4, bool),
    )
    assert fitting.threshold_for(scores, right, 1.0, one_kind) == 0.7
    assert fitting.threshold_for(scores, right, 0.75, one_kind) == 0.6


def test_a_precision_is_reached_by_each_kind_of_photo():
    scores = np.linspace(1, 0.5, 100)
    right = np.ones(200, bool)
    right[150:] = False  # of the second kind, all below 0.75 are wrong
    kinds = np.arange(200) >= 100
    threshold = fitting.threshold_for(np.tile(scores, 2), right, 0.98, kinds)
    second = scores >= threshold
    assert right[100:][second].mean() >= 0.98
    assert threshold == pytest.approx(0.75, abs=0.02)
    assert fitting.threshold_for(scores, np.zeros(100, bool), 0.98, np.zeros(100, bool)) == 1.0


def fitted(answers: np.ndarray, breeds: np.ndarray, whole: np.ndarray) -> dict:
    return fitting.fit_decision(answers, breeds, *of_groups(answers, breeds, [[0, 1, 2]]), whole)


def test_what_is_fitted_keeps_its_promises_on_photos_it_has_not_seen():
    answers, breeds = photos_of(12, 6000, 0.04)
    whole = np.arange(6000) % 2 == 1
    half = np.arange(6000) < 3000
    levels = Levels(fitted(answers[half], breeds[half], whole[half]), [HUSKIES], IDS)
    scores = fitting.report(levels, answers[~half], breeds[~half], np.ones(3000, bool))
    assert scores["sure"]["right"] >= fitting.SURE_PRECISION - 0.005
    assert scores["sure"]["share"] > 0.25
    assert scores["coverage"] == pytest.approx(fitting.COVERAGE, abs=0.02)
    assert scores["unknown"]["share"] < 0.05
    assert sum(scores[level]["share"] for level in Level) == pytest.approx(1, abs=1e-3)
    # Where there is no whole picture, all of one kind calibrates the sets.
    crops, pictures = (fitted(answers, breeds, np.full(6000, whole)) for whole in (False, True))
    assert crops == pictures
    assert set(THRESHOLDS) <= set(crops)


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
    assert "sets hold the right breed in 75.0%" in fitting.as_text(scores)


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
    assert "shiba for dog n5 (2)" in fitting.unknown_as_text(scores)


# -- thresholds with a bound --------------------------------------------------------------------------------------------

ASKED, DRAWS, PHOTOS = 0.97, 400, 1000
ONE_KIND = np.zeros(2000, bool)


def true_precision(threshold: float) -> float:
    return (1 + (1 - threshold) * (1 + threshold)) / (1 + 2 * (1 - threshold))


def test_the_precision_holds_in_95_of_100_draws_where_the_largest_lucky_prefix_does_not():
    """Half of the photos have the score 1 and are right; the score of each other is the probability that it is right."""
    random = np.random.default_rng(3)
    scores = np.where(np.arange(PHOTOS) % 2, 1.0, random.uniform(0.5, 1, (DRAWS, PHOTOS)))
    draws = list(zip(scores, random.random((DRAWS, PHOTOS)) < scores, strict=True))
    found = [fitting.bounded_threshold(*draw, ASKED, ONE_KIND[:PHOTOS]) for draw in draws]
    assert np.mean([true_precision(each) < ASKED for each in found]) <= 0.05
    lucky = [fitting.threshold_for(*draw, ASKED, np.zeros(PHOTOS)) for draw in draws]
    assert np.mean([true_precision(each) < ASKED for each in lucky]) > 0.3


def test_where_nothing_is_sure_enough_the_threshold_is_1_and_equal_scores_stay_together():
    scores = np.linspace(0.5, 0.999, 500)
    assert fitting.bounded_threshold(scores, np.zeros(500, bool), ASKED, ONE_KIND[:500]) == 1.0
    assert (
        fitting.bounded_threshold(scores[-20:], np.ones(20, bool), ASKED, ONE_KIND[:20]) == 1.0
    )  # too few to tell
    tied = np.repeat([0.99, 0.7], 400)
    assert fitting.bounded_threshold(tied, tied > 0.8, ASKED, ONE_KIND[:800]) == 0.705


def test_a_candidate_that_too_few_answers_reach_ends_no_search():
    scores = np.linspace(0.5, 0.979, 2000)  # as a lapse rate of 0.021 bounds them
    assert fitting.bounded_threshold(scores, scores > 0.8, ASKED, ONE_KIND) < 0.81


def test_the_precision_holds_in_95_of_100_draws_where_few_answers_reach_the_first_candidates():
    random = np.random.default_rng(5)
    scores = random.uniform(0.5, 0.979, (DRAWS, 3000))
    draws = zip(
        scores, random.random(scores.shape) < 0.83 + scores / 6, strict=True
    )  # 0.993 of the surest are right
    found = np.array([fitting.bounded_threshold(*draw, ASKED, np.zeros(3000)) for draw in draws])
    # The mean of those above a threshold.
    assert np.mean((found < 1) & (0.83 + (found + 0.979) / 12 < ASKED)) <= 0.05
    assert np.mean(found < 1) > 0.3


def test_of_two_kinds_each_has_the_precision_above_the_threshold():
    # 90 whole pictures, 20 of them wrong, are as sure as the surest crops, and 1,500 that are right are less so.
    pictures, crops = np.repeat([0.97, 0.9], [90, 1500]), np.repeat([0.97, 0.9], [500, 1500])
    right = np.concatenate([np.arange(90) >= 20, np.ones(2000, bool), np.zeros(1500, bool)])
    kinds = np.repeat([True, False], [1590, 2000])
    assert fitting.bounded_threshold(np.concatenate([pictures, crops]), right, ASKED, kinds) == 1.0
