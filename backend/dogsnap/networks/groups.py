"""Groups of look-alikes: found by what the network confuses, and named as somebody wrote them."""

from collections.abc import Mapping, Sequence

import numpy as np

from dogsnap.serving.answers.levels import Group

CONFUSED = (
    0.005  # mean probability that goes to the other of two breeds, from which on they are grouped
)
LARGEST_GROUP = (
    5  # as many as a set may hold; with 4 and 0.015, a tenth fewer photos get a sure answer
)


def find_groups(probabilities: np.ndarray, breeds: np.ndarray) -> list[list[int]]:
    """Breeds that are confused with each other, as lists of places in the class order: average linkage (UPGMA).

    `probabilities` (n, classes) of photos whose breeds are `breeds` int (n,). How far two breeds are confused is the mean
    probability that the photos of each give to the other; between two groups, the mean over all pairs. The two that are
    confused most are joined, until none are by CONFUSED or all would be larger than LARGEST_GROUP.
    """
    confusion = _confusion(probabilities, breeds)
    groups = [[place] for place in range(len(confusion))]
    while True:
        pairs = [
            (confusion[np.ix_(one, other)].mean(), first, second)
            for first, one in enumerate(groups)
            for second, other in enumerate(groups[:first])
            if len(one) + len(other) <= LARGEST_GROUP
        ]
        most, first, second = max(pairs, default=(0.0, 0, 0))
        if most < CONFUSED:
            return sorted(sorted(group) for group in groups if len(group) > 1)
        groups[second] += groups.pop(first)


def _confusion(probabilities: np.ndarray, breeds: np.ndarray) -> np.ndarray:
    """Symmetric, (classes, classes), zero on the diagonal. A breed without photos counts by what the others' give it."""
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
    """The breeds, one group of `groups` or a single one of none, that `breed` joins by the rule of `find_groups`; [] for none.

    `probabilities` (n, classes) of photos of `breeds` int (n,), `breed` among them; the groups themselves stay as they are.
    """
    confusion = _confusion(probabilities, breeds)[breed]
    grouped = {breed, *(place for group in groups for place in group)}
    single = [[place] for place in range(len(confusion)) if place not in grouped]
    fitting = [list(group) for group in (*groups, *single) if len(group) < LARGEST_GROUP]
    nearest = max(fitting, key=lambda group: confusion[group].mean(), default=[])
    return nearest if nearest and confusion[nearest].mean() >= CONFUSED else []


def of_groups(
    probabilities: np.ndarray, breeds: np.ndarray, groups: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The probability of the group, or else the breed, that comes first for a photo (n,), and whether it holds the right one."""
    same = np.eye(probabilities.shape[1], dtype=bool)
    for group in groups:
        same[np.ix_(group, group)] = True
    members = same[probabilities.argmax(-1)]
    return (probabilities * members).sum(-1), members[np.arange(len(breeds)), breeds]


def named_groups(
    groups: Sequence[Sequence[str]], written: Sequence[Mapping], labels: Sequence[Mapping[str, str]]
) -> list[Group]:
    """Groups of ids with the names and differences that somebody wrote for them: models/groups.json.

    What is `written` holds for exactly the breeds that it names. A group without a written name is called after its members:
    "A, B or C".
    """
    known = {label["id"]: label for label in labels}
    by_members = {frozenset(each["members"]): each for each in written}
    found = []
    for members in groups:
        own = {"id": "-".join(members)}
        for name, comma, last in (("name", ", ", " or "), ("name_zh", "、", "或")):
            names = [known[member].get(name, "") for member in members]
            own[name] = last.join([comma.join(names[:-1]), names[-1]])
        found.append(
            Group(**{**own, **by_members.get(frozenset(members), {}), "members": tuple(members)})
        )
    return found
