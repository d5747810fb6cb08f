"""What an answer claims: a breed, a group, a set, or that no breed fits; and how groups and thresholds are found."""

import json
import time

import numpy as np
import pytest

from backend.fitting import thresholds as fitting
from backend.serving.answers.levels import LARGEST_SET, THRESHOLDS, Group, Level, Levels, top_z_score

IDS = tuple(f"n{number}" for number in range(12))
LABELS = [{"id": each, "name": f"dog {each}", "name_zh": f"犬{each}"} for each in IDS]
HUSKIES = Group("husky", "husky", "哈士奇", ("n0", "n1", "n2"), "By the eyes.", "看眼睛。")
DECISION = {"confident_threshold": 0.9, "group_threshold": 0.8, "set_threshold": 0.1, "unknown_threshold": 1.1}
LEVELS = Levels(DECISION, [HUSKIES], IDS)
GENERATOR = np.random.default_rng(5)


def probabilities(**given: float) -> np.ndarray:
    """Probabilities (12,): those given for n0, n1, ..., the rest shared by the others."""
    answer = np.full(len(IDS), (1 - sum(given.values())) / (len(IDS) - len(given)))
    for name, value in given.items():
        answer[IDS.index(name)] = value
    return answer


@pytest.mark.parametrize(
    ("given", "level", "held"),
    [
        ({"n5": 0.95}, Level.BREED, ["n5"]),
        ({"n0": 0.95}, Level.BREED, ["n0"]),
        ({"n0": 0.5, "n1": 0.35}, Level.GROUP, ["n0", "n1"]),
        ({"n5": 0.5, "n0": 0.35}, Level.SET, ["n5", "n0"]),
        ({"n5": 0.8}, Level.BREED, ["n5"]),
        ({"n5": 0.75}, Level.SET, ["n5"]),
        ({"n5": 0.2, "n6": 0.19, "n7": 0.18, "n8": 0.17, "n9": 0.16}, Level.SET, ["n5", "n6", "n7", "n8", "n9"]),
        ({f"n{number}": 0.16 for number in range(6)}, Level.UNKNOWN, [f"n{number}" for number in range(6)]),
    ],
)
def test_an_answer_claims_the_first_level_that_holds(given, level, held):
    claim = LEVELS.claim(probabilities(**given))
    assert (claim.level, [IDS[place] for place in claim.held]) == (level, held)


def test_more_breeds_than_a_set_may_have_are_not_sure():
    generous = Levels({**DECISION, "unknown_threshold": 0.0}, [HUSKIES], IDS)
    claim = generous.claim(probabilities(**{f"n{number}": 0.16 for number in range(6)}))
    assert (claim.level, len(claim.held)) == (Level.UNSURE, LARGEST_SET + 1)


def test_a_set_is_never_empty_though_no_breed_reaches_the_threshold():
    strict = Levels({**DECISION, "set_threshold": 0.99}, [], IDS)
    assert [IDS[place] for place in strict.claim(probabilities(n4=0.5)).held] == ["n4"]


def test_the_group_of_the_first_breed_comes_with_the_sum_of_its_members():
    claim = LEVELS.claim(probabilities(n1=0.5, n0=0.25))
    assert claim.group is HUSKIES
    assert claim.group_probability == pytest.approx(0.75 + 0.25 / 10)
    alone = LEVELS.claim(probabilities(n7=0.5, n0=0.25))
    assert (alone.group, alone.group_probability) == (None, 0.0)


def test_how_far_the_first_stands_out_does_not_depend_on_the_temperature():
    logits = GENERATOR.normal(size=(5, 12))
    sharp, soft = (np.exp(logits / t) / np.exp(logits / t).sum(-1, keepdims=True) for t in (0.5, 2.0))
    assert top_z_score(sharp) == pytest.approx(top_z_score(soft))
    assert top_z_score(sharp) == pytest.approx((logits.max(-1) - logits.mean(-1)) / logits.std(-1))
    assert np.isfinite(top_z_score(np.full(12, 1 / 12)))
    assert np.isfinite(top_z_score(np.eye(12)[3]))


def test_a_version_without_thresholds_of_its_own_has_no_levels():
    assert Levels.read({}) is None
    assert Levels.read({"labels": LABELS, "decision": {"dog_threshold": 0.5, "confident_threshold": 0.9}}) is None


def test_levels_are_read_as_export_writes_them():
    written = [{**vars(HUSKIES), "members": list(HUSKIES.members)}]
    read = Levels.read(json.loads(json.dumps({"labels": LABELS, "decision": DECISION, "groups": written})))
    assert read.groups == (HUSKIES,)
    assert read.claim(probabilities(n0=0.5, n1=0.35)).level is Level.GROUP


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"decision": {"group_threshold": 0.5}}, "decision lacks set_threshold, unknown_threshold; expected all of"),
        ({"groups": [{"id": "a", "name": "a", "name_zh": "", "members": ["n0", "other"]}]}, "breed other of a group"),
        ({"groups": [{"id": str(k), "name": "", "name_zh": "", "members": ["n0", "n1"]} for k in (1, 2)]}, "breed n0"),
        ({"groups": [{"id": "a", "members": ["n0", "n1"]}]}, "expected id, name, name_zh and members in each"),
        ({"groups": [{"id": "a", "name": "a", "name_zh": ""}]}, "expected id, name, name_zh and members in each"),
    ],
)
def test_levels_that_are_not_whole_are_refused_with_what_is_wrong(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        Levels.read({"labels": LABELS, "decision": DECISION, **changes})


@pytest.mark.long
def test_a_claim_costs_less_than_a_fifth_of_a_millisecond():
    ids = [str(number) for number in range(120)]
    levels = Levels(DECISION, [Group("a", "a", "", tuple(ids[:4]))], ids)
    rows = GENERATOR.dirichlet(np.full(120, 0.05), 300).astype(np.float32)
    times = []
    for row in rows:
        start = time.perf_counter()
        levels.claim(row)
        times.append(time.perf_counter() - start)
    assert np.median(times) < 200e-6


# -- groups ------------------------------------------------------------------------------------------------------------


def confused(classes: int, pairs: dict[tuple[int, int], float], photos: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Answers to `photos` of every class; of each pair (a, b), photos of `a` give that much of their probability to `b`."""
    answers = np.eye(classes)
    for (true, said), share in pairs.items():
        answers[true, said] += share
        answers[true, true] -= share
    return np.repeat(answers, photos, axis=0), np.repeat(np.arange(classes), photos)


def test_breeds_that_are_confused_are_grouped_and_others_are_not():
    assert fitting.find_groups(*confused(8, {(0, 3): 0.2, (5, 6): 0.3, (1, 2): 0.01})) == [[0, 3], [5, 6]]


def test_confusion_counts_in_both_directions():
    just_below = fitting.CONFUSED * 2 - 0.001
    assert fitting.find_groups(*confused(4, {(0, 1): just_below})) == []
    assert fitting.find_groups(*confused(4, {(0, 1): just_below, (1, 0): 0.01})) == [[0, 1]]


def test_a_third_breed_joins_by_its_mean_confusion_with_both():
    pairs = {(0, 1): 0.2, (1, 2): fitting.CONFUSED * 4 + 0.002}
    assert fitting.find_groups(*confused(5, pairs)) == [[0, 1, 2]]
    pairs[1, 2] = fitting.CONFUSED * 4 - 0.002
    assert fitting.find_groups(*confused(5, pairs)) == [[0, 1]]


def test_no_group_grows_too_large_to_be_an_answer():
    pairs = {(a, b): 0.15 for a in range(6) for b in range(6) if a != b}
    groups = fitting.find_groups(*confused(8, pairs))
    assert max(map(len, groups)) <= fitting.LARGEST_GROUP
    assert sorted(place for group in groups for place in group) == list(range(6))


GROUPS = [[0, 3], [5, 6]]


def test_a_new_breed_joins_the_group_that_it_is_confused_with():
    assert fitting.look_alikes(*confused(8, {(7, 5): 0.2, (6, 7): 0.05, (7, 1): 0.1}), GROUPS, 7) == [5, 6]


def test_a_new_breed_forms_a_group_with_a_single_breed_that_it_is_confused_with_most():
    assert fitting.look_alikes(*confused(8, {(7, 5): 0.05, (1, 7): 0.2}), GROUPS, 7) == [1]


def test_a_new_breed_that_is_hardly_confused_joins_no_group():
    just_below = fitting.CONFUSED * 2 - 0.001
    assert fitting.look_alikes(*confused(8, {(7, 1): just_below, (7, 5): 0.05}), GROUPS, 7) == []


def test_a_new_breed_joins_no_group_that_is_full():
    groups = [list(range(fitting.LARGEST_GROUP))]
    assert fitting.look_alikes(*confused(8, {(7, 0): 0.4, (7, 5): 0.1}), groups, 7) == [5]


def test_a_breed_without_photos_counts_by_what_the_others_give_it():
    answers, breeds = confused(8, {(7, 1): fitting.CONFUSED + 0.001})
    assert fitting.look_alikes(answers[breeds != 1], breeds[breeds != 1], GROUPS, 7) == [1]


def test_groups_do_not_depend_on_the_order_of_the_photos():
    answers, breeds = confused(8, {(0, 3): 0.2, (3, 4): 0.15, (5, 6): 0.3})
    shuffled = GENERATOR.permutation(len(breeds))
    assert fitting.find_groups(answers[shuffled], breeds[shuffled]) == fitting.find_groups(answers, breeds)


def test_a_written_name_and_advice_hold_for_exactly_the_members_that_they_were_written_for():
    written = [
        {"id": "husky", "name": "husky", "name_zh": "哈士奇", "members": ["n2", "n1", "n0"], "difference": "By eyes."},
        {"id": "told", "members": ["n7", "n8"], "difference": "By ears.", "difference_zh": "看耳朵。"},
    ]
    groups = [["n0", "n1", "n2"], ["n7", "n8"], ["n9", "n10", "n11"]]
    found = fitting.named_groups(groups, written, LABELS)
    assert [group.name for group in found] == ["husky", "dog n7 or dog n8", "dog n9, dog n10 or dog n11"]
    assert [group.difference for group in found] == ["By eyes.", "By ears.", ""]
    assert found[1].name_zh == "犬n7或犬n8"
    assert found[0].members == ("n0", "n1", "n2")
    for others in (["n0", "n1"], ["n0", "n1", "n2", "n5"]):
        (listing,) = fitting.named_groups([others], written, LABELS)
        assert listing == fitting.named_groups([others], [], LABELS)[0]
        assert (listing.id, listing.difference) == ("-".join(others), "")


# -- thresholds --------------------------------------------------------------------------------------------------------


def photos_of(classes: int, count: int, sharpness: float) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated answers: probabilities (count, classes), and breeds drawn from them; the same at each call."""
    random = np.random.default_rng(5)
    answers = random.dirichlet(np.full(classes, sharpness), count)
    breeds = np.array([random.choice(classes, p=row) for row in answers])
    return answers, breeds


def test_sets_hold_the_right_breed_in_95_of_100_photos_after_95_of_100_draws():
    answers, breeds = photos_of(20, 20_000, 0.03)
    given = answers[np.arange(20_000), breeds]
    held = [np.mean(given >= fitting.set_threshold(GENERATOR.choice(given, 1200))) for _ in range(400)]
    assert np.mean(np.array(held) < fitting.COVERAGE) <= 0.06
    assert np.mean(held) == pytest.approx(fitting.COVERAGE, abs=0.015)


def test_the_bound_on_sets_is_that_of_the_binomial_distribution():
    """Of 59 photos all but 1 in 20 exceed the smallest with a probability of 0.95, as 0.95 ** 59 < 0.05; of 58 there is none."""
    given = np.arange(1, 60) / 100
    assert fitting.set_threshold(given) == 0.01
    assert fitting.set_threshold(given[:58]) == 0.0


def test_a_threshold_is_the_lowest_with_the_asked_precision():
    scores, right, one_kind = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, True, False]), np.zeros(4, bool)
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
    return fitting.fit_decision(answers, breeds, *fitting.of_groups(answers, breeds, [[0, 1, 2]]), whole)


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


def test_all_of_one_kind_calibrates_the_sets_where_there_is_no_whole_picture():
    answers, breeds = photos_of(12, 500, 0.04)
    thresholds = [fitted(answers, breeds, np.full(500, whole)) for whole in (False, True)]
    assert thresholds[0] == thresholds[1]
    assert set(THRESHOLDS) <= set(thresholds[0])


def test_a_breed_in_no_group_is_one_by_itself():
    answers = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    shared, held = fitting.of_groups(answers, np.array([1, 2]), [[0, 1, 2]])
    np.testing.assert_allclose(shared, [0.9, 0.6])
    assert held.tolist() == [True, False]


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
    answers = np.array([probabilities(n5=0.95)] * 2 + [probabilities(n0=0.5, n1=0.35), np.full(12, 1 / 12)])
    scores = fitting.report_unknown(LEVELS, answers, ["shiba", "shiba", "akita", "akita"], LABELS)
    assert (scores["photos"], scores["breed"], scores["group"], scores["unknown"]) == (4, 0.5, 0.25, 0.25)
    assert scores["taken_for"][0] == {"is": "shiba", "level": "breed", "taken_for": "dog n5", "times": 2}
    assert scores["taken_for"][1]["taken_for"] == "husky"
    assert "shiba for dog n5 (2)" in fitting.unknown_as_text(scores)


# -- thresholds with a bound --------------------------------------------------------------------------------------------

ASKED, DRAWS, PHOTOS = 0.97, 400, 1000


def calibration_draws() -> list[tuple[np.ndarray, np.ndarray]]:
    """Calibration photos, half of which have the score 1 and are right; the others' score s is the probability that they are."""
    random = np.random.default_rng(3)
    scores = np.where(np.arange(PHOTOS) % 2, 1.0, random.uniform(0.5, 1, (DRAWS, PHOTOS)))
    return list(zip(scores, random.random((DRAWS, PHOTOS)) < scores, strict=True))


def true_precision(threshold: float) -> float:
    return (1 + (1 - threshold) * (1 + threshold)) / (1 + 2 * (1 - threshold))


def test_the_precision_holds_in_95_of_100_draws_where_the_largest_lucky_prefix_does_not():
    found = [fitting.bounded_threshold(scores, right, ASKED) for scores, right in calibration_draws()]
    assert np.mean([true_precision(each) < ASKED for each in found]) <= 0.05
    lucky = [fitting.threshold_for(scores, right, ASKED, np.zeros(PHOTOS)) for scores, right in calibration_draws()]
    assert np.mean([true_precision(each) < ASKED for each in lucky]) > 0.3


def test_more_photos_find_a_threshold_nearer_to_the_best_one():
    random = np.random.default_rng(4)
    scores = random.random(100_000)
    found = fitting.bounded_threshold(scores, random.random(100_000) < 0.9 + 0.1 * scores, 0.985)
    assert 0.7 <= found <= 0.75


def test_where_nothing_is_sure_enough_the_threshold_is_1_and_equal_scores_stay_together():
    scores = np.linspace(0.5, 0.999, 500)
    assert fitting.bounded_threshold(scores, np.zeros(500, bool), ASKED) == 1.0
    assert fitting.bounded_threshold(scores[-20:], np.ones(20, bool), ASKED) == 1.0  # too few to tell
    tied = np.repeat([0.99, 0.7], 400)
    assert fitting.bounded_threshold(tied, tied > 0.8, ASKED) == 0.705


def test_the_tail_is_that_of_the_binomial_distribution():
    assert fitting.binomial_tail(0, 10, 0.1) == pytest.approx(0.9**10)
    assert fitting.binomial_tail(1, 3, 0.5) == pytest.approx(0.5)
    assert fitting.binomial_tail(10, 10, 0.3) == pytest.approx(1.0)
