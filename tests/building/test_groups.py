"""Groups of look-alikes: which breeds join, and what they are called."""

import numpy as np
import pytest
from dogsnap.networks.groups import (
    CONFUSED,
    LARGEST_GROUP,
    look_alikes,
    named_groups,
)
from lab.group_choice import find_groups, of_groups
from support.twelve_breeds import LABELS

JUST_BELOW = CONFUSED * 2 - 0.001


def confused(
    classes: int, pairs: dict[tuple[int, int], float], photos: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Answers to `photos` of every class; of each pair (a, b), photos of `a` give that much of their probability to `b`."""
    answers = np.eye(classes)
    for (true, said), share in pairs.items():
        answers[true, said] += share
        answers[true, true] -= share
    return np.repeat(answers, photos, axis=0), np.repeat(np.arange(classes), photos)


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ({(0, 3): 0.2, (5, 6): 0.3, (1, 2): 0.01}, [[0, 3], [5, 6]]),
        ({(0, 1): JUST_BELOW}, []),
        ({(0, 1): JUST_BELOW, (1, 0): 0.01}, [[0, 1]]),  # both directions count
        (
            {(0, 1): 0.2, (1, 2): CONFUSED * 4 + 0.002},
            [[0, 1, 2]],
        ),  # by the mean confusion with both
        ({(0, 1): 0.2, (1, 2): CONFUSED * 4 - 0.002}, [[0, 1]]),
    ],
)
def test_breeds_that_are_confused_are_grouped_whatever_the_order_of_the_photos(pairs, groups):
    answers, breeds = confused(8, pairs)
    assert find_groups(answers, breeds) == groups
    shuffled = np.random.default_rng(5).permutation(len(breeds))
    assert find_groups(answers[shuffled], breeds[shuffled]) == groups


def test_no_group_grows_too_large_to_be_an_answer():
    alike = range(2 * LARGEST_GROUP)
    pairs = {(a, b): 0.9 / len(alike) for a in alike for b in alike if a != b}
    groups = find_groups(*confused(len(alike) + 2, pairs))
    assert max(map(len, groups)) <= LARGEST_GROUP
    assert sorted(place for group in groups for place in group) == list(alike)


GROUPS = [[0, 3], [5, 6]]


@pytest.mark.parametrize(
    ("pairs", "groups", "joined"),
    [
        ({(7, 5): 0.2, (6, 7): 0.05, (7, 1): 0.1}, GROUPS, [5, 6]),
        ({(7, 5): 0.05, (1, 7): 0.2}, GROUPS, [1]),  # a single breed
        ({(7, 1): JUST_BELOW, (7, 5): JUST_BELOW}, GROUPS, []),
        ({(7, 0): 0.4, (7, 5): 0.1}, [list(range(LARGEST_GROUP))], [5]),  # the group is full
    ],
)
def test_a_new_breed_joins_the_breeds_that_it_is_confused_with_most(pairs, groups, joined):
    assert look_alikes(*confused(8, pairs), groups, 7) == joined


def test_a_breed_without_photos_counts_by_what_the_others_give_it():
    answers, breeds = confused(8, {(7, 1): CONFUSED + 0.001})
    assert look_alikes(answers[breeds != 1], breeds[breeds != 1], GROUPS, 7) == [1]


def test_a_written_name_and_advice_hold_for_exactly_the_members_that_they_were_written_for():
    written = [
        {
            "id": "husky",
            "name": "husky",
            "name_zh": "哈士奇",
            "members": ["n2", "n1", "n0"],
            "difference": "By eyes.",
        },
        {
            "id": "told",
            "members": ["n7", "n8"],
            "difference": "By ears.",
            "difference_zh": "看耳朵。",
        },
    ]
    groups = [["n0", "n1", "n2"], ["n7", "n8"], ["n9", "n10", "n11"]]
    found = named_groups(groups, written, LABELS)
    assert [group.name for group in found] == [
        "husky",
        "dog n7 or dog n8",
        "dog n9, dog n10 or dog n11",
    ]
    assert [group.difference for group in found] == ["By eyes.", "By ears.", ""]
    assert found[1].name_zh == "犬n7或犬n8"
    assert found[0].members == ("n0", "n1", "n2")
    for others in (["n0", "n1"], ["n0", "n1", "n2", "n5"]):
        (listing,) = named_groups([others], written, LABELS)
        assert listing == named_groups([others], [], LABELS)[0]
        assert (listing.id, listing.difference) == ("-".join(others), "")


def test_a_group_that_says_no_more_than_its_first_breed_is_none():
    answers = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6], [0.92, 0, 0.005, 0.075]])
    shared, held = of_groups(answers, np.array([1, 2, 0]), [[0, 1, 2]])
    np.testing.assert_allclose(shared, [0.9, 0.0, 0.0])
    assert held.tolist() == [True, False, True]


def test_a_breed_whose_look_alikes_are_a_full_group_is_in_none():
    full = {(a, b): 0.1 for a in range(LARGEST_GROUP) for b in range(LARGEST_GROUP) if a != b}
    late, other = LARGEST_GROUP, LARGEST_GROUP + 1
    pairs = full | {(late, a): 0.08 for a in range(LARGEST_GROUP)} | {(late, other): 0.05}
    answers, breeds = confused(LARGEST_GROUP + 2, pairs)
    assert find_groups(answers, breeds) == [list(range(LARGEST_GROUP))]
    assert look_alikes(answers, breeds, [list(range(LARGEST_GROUP))], late) == []
