"""Groups of look-alikes: found by what the network confuses, and named as
somebody wrote them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dogsnap.serving.answers.levels import Group, says_more

# mean probability that goes to the other of two breeds, from which on they are grouped
CONFUSED = 0.005
# as many as a set may hold; with 4 and 0.015, a tenth fewer photos get a sure answer
LARGEST_GROUP = 5


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
    confusion = _confusion(probabilities, breeds)
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


def _confusion(probabilities: np.ndarray, breeds: np.ndarray) -> np.ndarray:
    """Symmetric, (classes, classes), zero on the diagonal.

    A breed without photos counts by what the others' give it.
    """
    classes = probabilities.shape[1]
    means, shown = np.zeros((classes, classes)), np.zeros(classes)
    for breed in np.unique(breeds):
        means[breed], shown[breed] = probabilities[breeds == breed].mean(0), 1
    confusion = (means + means.T) / np.maximum(shown[:, np.newaxis] + shown, 1)
    np.fill_diagonal(confusion, 0.0)
    return confusion


def look_alikes(
    probabilities: np.ndarray, breeds: np.ndarray, groups: Sequence[Sequence[int]], breed: int
) -> list[int]:
    """The breeds, one group of `groups` or a single one of none, that `breed`
    joins by the rule of `find_groups`; [] for none.

    Where the group that it is confused with most is full, it joins none: better
    that than a wrong one. `probabilities` (n, classes) of photos of `breeds`
    int (n,), `breed` among them; the groups themselves stay as they are.
    """
    confusion = _confusion(probabilities, breeds)[breed]
    grouped = {breed}.union(*groups)
    single = [[index] for index in range(len(confusion)) if index not in grouped]
    candidates = [list(group) for group in (*groups, *single)]
    nearest = max(candidates, key=lambda group: confusion[group].mean(), default=[])
    is_right = nearest and confusion[nearest].mean() >= CONFUSED
    return nearest if is_right and len(nearest) < LARGEST_GROUP else []


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


def named_groups(
    groups: Sequence[Sequence[str]],
    written: Sequence[Mapping[str, Any]],
    labels: Sequence[Mapping[str, str]],
) -> list[Group]:
    """Groups of ids with the names and differences that somebody wrote for
    them: models/groups.json.

    What is `written` holds for exactly the breeds that it names. A group
    without a written name is called after its members: "A, B or C".
    """
    known = {label["id"]: label for label in labels}
    by_members = {frozenset(group["members"]): group for group in written}
    found = []
    for members in groups:
        own: dict[str, Any] = {"id": "-".join(members)}
        for name, comma, last in (("name", ", ", " or "), ("name_zh", "、", "或")):
            names = [known[member].get(name, "") for member in members]
            own[name] = last.join([comma.join(names[:-1]), names[-1]])
        own |= by_members.get(frozenset(members), {})
        found.append(Group(**{**own, "members": tuple(members)}))
    return found
