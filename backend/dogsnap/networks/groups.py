"""Groups of look-alikes: which one a new breed joins, by what the network
confuses, and their names as somebody wrote them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dogsnap.serving.answers.levels import Group

# mean probability that goes to the other of two breeds, from which on they are grouped
CONFUSED = 0.005
# as many as a set may hold; with 4 and 0.015, a tenth fewer photos get a sure answer
LARGEST_GROUP = 5


def find_confusion(probabilities: np.ndarray, breeds: np.ndarray) -> np.ndarray:
    """Symmetric, (classes, classes), zero on the diagonal.

    A breed without photos counts by what the others' give it.
    """
    classes = probabilities.shape[1]
    means = np.zeros((classes, classes))
    shown = np.zeros(classes)
    for breed in np.unique(breeds):
        means[breed], shown[breed] = probabilities[breeds == breed].mean(0), 1
    confusion = (means + means.T) / np.maximum(shown[:, np.newaxis] + shown, 1)
    np.fill_diagonal(confusion, 0.0)
    return confusion


def look_alikes(
    probabilities: np.ndarray, breeds: np.ndarray, groups: Sequence[Sequence[int]], breed: int
) -> list[int]:
    """The breeds, one group of `groups` or a single one of none, that `breed`
    joins: that which it is confused with most, from CONFUSED on; [] for none.

    Where the group that it is confused with most is full, it joins none: better
    that than a wrong one. `probabilities` (n, classes) of photos of `breeds`
    int (n,), `breed` among them; the groups themselves stay as they are.
    """
    confusion = find_confusion(probabilities, breeds)[breed]
    grouped = {breed}.union(*groups)
    single = [[index] for index in range(len(confusion)) if index not in grouped]
    candidates = [list(group) for group in (*groups, *single)]
    nearest = max(candidates, key=lambda group: confusion[group].mean(), default=[])
    is_right = nearest and confusion[nearest].mean() >= CONFUSED
    return nearest if is_right and len(nearest) < LARGEST_GROUP else []


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
