"""Named arrays in files, as a long computation keeps them to go on from."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from dogsnap.files import replacing
from dogsnap.training.stored_arrays import Arrays, load_arrays


def keep_arrays(file: Path, compute: Callable[[], Arrays]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, which is computed and written where it is not
    there. Raises OSError.
    """
    if not file.is_file():
        arrays = compute()
        with replacing(file) as temporary:
            np.savez(temporary, allow_pickle=False, **arrays)
    return load_arrays(file)


def pick_rows(arrays: Arrays, chosen: np.ndarray | Sequence[int]) -> dict[str, np.ndarray]:
    """The same rows of each of the arrays."""
    return {name: array[chosen] for name, array in arrays.items()}
