"""Groups of look-alikes: which breeds join, and what they are called."""

import numpy as np
from twelve_breeds import LABELS

from backend.fitting.groups import CONFUSED, LARGEST_GROUP, find_groups, look_alikes, named_groups, of_groups

GENERATOR = np.random.default_rng(5)


def confused(classes: int, pairs: dict[tuple[int, int], float], photos: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Answers to `photos` of every class; of each pair (a, b), photos of `a` give that much of their probability to `b`."""
    answers = np.eye(classes)
    for (true, said), share in pairs.items():
        answers[true, said] += share
        answers[true, true] -= share
    return np.repeat(answers, photos, axis=0), np.repeat(np.arange(classes), photos)


def test_breeds_that_are_confused_are_grouped_and_others_are_not():
    assert find_groups(*confused(8, {(0, 3): 0.2, (5, 6): 0.3, (1, 2): 0.01})) == [[0, 3], [5, 6]]


def test_confusion_counts_in_both_directions():
    just_below = CONFUSED * 2 - 0.001
    assert find_groups(*confused(4, {(0, 1): just_below})) == []
    assert find_groups(*confused(4, {(0, 1): just_below, (1, 0): 0.01})) == [[0, 1]]


def test_a_third_breed_joins_by_its_mean_confusion_with_both():
    pairs = {(0, 1): 0.2, (1, 2): CONFUSED * 4 + 0.002}
    assert find_groups(*confused(5, pairs)) == [[0, 1, 2]]
    pairs[1, 2] = CONFUSED * 4 - 0.002
    assert find_groups(*confused(5, pairs)) == [[0, 1]]


def test_no_group_grows_too_large_to_be_an_answer():
    alike = range(2 * LARGEST_GROUP)
    pairs = {(a, b): 0.9 / len(alike) for a in alike for b in alike if a != b}
    groups = find_groups(*confused(len(alike) + 2, pairs))
    assert max(map(len, groups)) <= LARGEST_GROUP
    assert sorted(place for group in groups for place in group) == list(alike)


GROUPS = [[0, 3], [5, 6]]


def test_a_new_breed_joins_the_group_that_it_is_confused_with():
    assert look_alikes(*confused(8, {(7, 5): 0.2, (6, 7): 0.05, (7, 1): 0.1}), GROUPS, 7) == [5, 6]


def test_a_new_breed_forms_a_group_with_a_single_breed_that_it_is_confused_with_most():
    assert look_alikes(*confused(8, {(7, 5): 0.05, (1, 7): 0.2}), GROUPS, 7) == [1]


def test_a_new_breed_that_is_hardly_confused_joins_no_group():
    just_below = CONFUSED * 2 - 0.001
    assert look_alikes(*confused(8, {(7, 1): just_below, (7, 5): just_below}), GROUPS, 7) == []


def test_a_new_breed_joins_no_group_that_is_full():
    groups = [list(range(LARGEST_GROUP))]
    assert look_alikes(*confused(8, {(7, 0): 0.4, (7, 5): 0.1}), groups, 7) == [5]


def test_a_breed_without_photos_counts_by_what_the_others_give_it():
    answers, breeds = confused(8, {(7, 1): CONFUSED + 0.001})
    assert look_alikes(answers[breeds != 1], breeds[breeds != 1], GROUPS, 7) == [1]


def test_groups_do_not_depend_on_the_order_of_the_photos():
    answers, breeds = confused(8, {(0, 3): 0.2, (3, 4): 0.15, (5, 6): 0.3})
    shuffled = GENERATOR.permutation(len(breeds))
    assert find_groups(answers[shuffled], breeds[shuffled]) == find_groups(answers, breeds)


def test_a_written_name_and_advice_hold_for_exactly_the_members_that_they_were_written_for():
    written = [
        {"id": "husky", "name": "husky", "name_zh": "哈士奇", "members": ["n2", "n1", "n0"], "difference": "By eyes."},
        {"id": "told", "members": ["n7", "n8"], "difference": "By ears.", "difference_zh": "看耳朵。"},
    ]
    groups = [["n0", "n1", "n2"], ["n7", "n8"], ["n9", "n10", "n11"]]
    found = named_groups(groups, written, LABELS)
    assert [group.name for group in found] == ["husky", "dog n7 or dog n8", "dog n9, dog n10 or dog n11"]
    assert [group.difference for group in found] == ["By eyes.", "By ears.", ""]
    assert found[1].name_zh == "犬n7或犬n8"
    assert found[0].members == ("n0", "n1", "n2")
    for others in (["n0", "n1"], ["n0", "n1", "n2", "n5"]):
        (listing,) = named_groups([others], written, LABELS)
        assert listing == named_groups([others], [], LABELS)[0]
        assert (listing.id, listing.difference) == ("-".join(others), "")


def test_a_breed_in_no_group_is_one_by_itself():
    answers = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    shared, held = of_groups(answers, np.array([1, 2]), [[0, 1, 2]])
    np.testing.assert_allclose(shared, [0.9, 0.6])
    assert held.tolist() == [True, False]
