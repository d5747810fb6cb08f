"""The prior of the shipped network's breeds, by how common each is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dogsnap.networks.popularity import STRENGTH, read_ranks


def log_prior(labels: Sequence[Mapping[str, Any]], file: Path) -> np.ndarray:
    """Log-probabilities of the breeds up to a constant, float32 (classes,),
    with mean 0; zeros where no breed has a rank.

    `labels`: the classes, with their `id`. `file`: JSON with `ranks`, an object
    of numbers by id, 1 for the most common; a breed without one comes behind
    them all, and without the file none has one. Raises ValueError for a file of
    another kind.
    """
    ranks = read_ranks(file)
    last = max(ranks.values(), default=0) + 1
    found = np.array([ranks.get(label["id"], last) for label in labels], np.float32)
    return np.float32(STRENGTH) * (found.mean() - found)
