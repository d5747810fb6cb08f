"""Named arrays in files, as a long computation keeps them to go on from."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from dogsnap.files import replacing
from dogsnap.training.stored_arrays import Arrays, join_rows, load_arrays


def keep_chunks(
    work: Path,
    name: str,
    items: Sequence[Any],
    size: int,
    compute: Callable[[Sequence[Any]], Arrays],
) -> list[Path]:
    """Files of what is computed of each `size` of the items; those that are
    there are not computed again. Raises OSError.
    """
    work.mkdir(parents=True, exist_ok=True)
    files = []
    for start in range(0, len(items), size):
        chunk = items[start : start + size]
        digest = hashlib.sha256(repr(chunk).encode()).hexdigest()[:16]
        files.append(work / f"{name}-{digest}.npz")
        if not files[-1].is_file():
            arrays = compute(chunk)
            with replacing(files[-1]) as temporary:
                np.savez(temporary, allow_pickle=False, **arrays)
        click.echo(f"{name}: {start + len(chunk)} of {len(items)}")
    return files


def keep_rows(
    work: Path,
    name: str,
    items: Sequence[Any],
    size: int,
    compute: Callable[[Sequence[Any]], Arrays],
) -> dict[str, np.ndarray]:
    """The rows of all items, which `keep_chunks` keeps."""
    files = keep_chunks(work, name, items, size, compute)
    return join_rows([load_arrays(file) for file in files])


def pick_rows(arrays: Arrays, chosen: np.ndarray | Sequence[int]) -> dict[str, np.ndarray]:
    """The same rows of each of the arrays."""
    return {name: array[chosen] for name, array in arrays.items()}
