"""Twelve breeds n0 to n11, a group of the first three, thresholds, and answers to photos of them."""

import numpy as np
from dogsnap.serving.answers.levels import Decision, Group, Levels

IDS = tuple(f"n{number}" for number in range(12))
LABELS = [{"id": each, "name": f"dog {each}", "name_zh": f"犬{each}"} for each in IDS]
HUSKIES = Group("husky", "husky", "哈士奇", ("n0", "n1", "n2"), "By the eyes.", "看眼睛。")
DECISION = Decision(confident=0.9, group=0.8, set=0.1, unknown=1.1)
LEVELS = Levels(DECISION, [HUSKIES], IDS)


def probabilities(**given: float) -> np.ndarray:
    """Probabilities (12,): those given for n0, n1, ..., the rest shared by the others."""
    answer = np.full(len(IDS), (1 - sum(given.values())) / (len(IDS) - len(given)))
    for name, value in given.items():
        answer[IDS.index(name)] = value
    return answer
