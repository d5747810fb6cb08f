"""Named arrays in files, as a long computation keeps them to go on from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from dogsnap.files import replacing
from dogsnap.training.stored_arrays import Arrays


def save_arrays(file: Path, arrays: Arrays) -> None:
    """Write an .npz file, which is replaced atomically. Raises OSError."""
    with replacing(file) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)


def pick_rows(arrays: Arrays, chosen: np.ndarray | Sequence[int]) -> dict[str, np.ndarray]:
    """The same rows of each of the arrays."""
    return {name: array[chosen] for name, array in arrays.items()}
