"""Replaces files so that whoever reads one finds it whole, as it was or as it is to be.

It knows no format.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path beside `file` to write to, which takes its place in one step when the block ends.

    If the block raises, what it wrote is removed and `file` is as it was. Raises OSError.
    """
    temporary = file.with_name(f".partial.{file.name}")
    try:
        yield temporary
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
