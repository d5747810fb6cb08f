"""Named arrays in files, as a long computation keeps them to go on from, and
their rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

Arrays = Mapping[str, np.ndarray]


def load_arrays(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as arrays:
        return dict(arrays)


def join_rows(parts: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """The arrays of all parts, one behind the other, by the first one's names."""
    joined = {}
    for name in parts[0]:
        joined[name] = np.concatenate([part[name] for part in parts])
    return joined
