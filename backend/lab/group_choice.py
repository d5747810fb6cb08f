"""Which breeds are groups of look-alikes: found by what the network confuses."""

from collections.abc import Sequence

import numpy as np
from dogsnap.networks.groups import CONFUSED, LARGEST_GROUP, find_confusion
from dogsnap.serving.answers.levels import says_more


def find_groups(probabilities: np.ndarray, breeds: np.ndarray) -> list[list[int]]:
    """Breeds that are confused with each other, as lists of places in the class
    order: average linkage (UPGMA).

    `probabilities` (n, classes) of photos whose breeds are `breeds` int (n,).
    How far two breeds are confused is the mean probability that the photos of
    each give to the other; between two groups, the mean over all pairs. The two
    that are confused most are joined, until none are by CONFUSED. Where both
    are larger than LARGEST_GROUP together, the smaller one stays as it is: the
    next one that it is confused with is not what it looks like.
    """
    confusion = find_confusion(probabilities, breeds)
    groups = [[index] for index in range(len(confusion))]
    closed: list[list[int]] = []
    while True:
        pairs = []
        for first, one in enumerate(groups):
            for second, other in enumerate(groups[:first]):
                confused = float(confusion[np.ix_(one, other)].mean())
                fits = len(one) + len(other) <= LARGEST_GROUP
                pairs.append((round(confused, 9), fits, first, second, confused))
        _, fits, first, second, most = max(pairs, default=(0.0, False, 0, 0, 0.0))
        if most < CONFUSED:
            return sorted(sorted(group) for group in [*groups, *closed] if len(group) > 1)
        if fits:
            groups[second] += groups.pop(first)
        else:  # better in no group than in a wrong one
            closed.append(groups.pop(min(first, second, key=lambda index: len(groups[index]))))


def of_groups(
    probabilities: np.ndarray, breeds: np.ndarray, groups: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The probability of the group that comes first for a photo (n,), and
    whether it holds the right breed.

    0 where there is none, or one that says no more than its first breed, which
    is never told.
    """
    classes = probabilities.shape[1]
    same = np.zeros((classes, classes), bool)
    for group in groups:
        same[np.ix_(group, group)] = True
    members = same[probabilities.argmax(-1)]
    shares = np.sort(probabilities * members, axis=-1)
    shared = np.where(says_more(shares[:, -1], shares[:, -2]), shares.sum(-1), 0.0)
    return shared, members[np.arange(len(breeds)), breeds]
