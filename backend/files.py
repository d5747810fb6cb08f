"""Helpers for files: which names are photos, and replacing a file atomically."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Formats that TensorFlow decodes.
PHOTO_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
# Formats that TensorFlow does not decode; `training.dataset.photo_bytes` makes them readable for it.
CONVERTED_ENDINGS = (".heic", ".heif", ".avif")
READ_ENDINGS = (*PHOTO_ENDINGS, *CONVERTED_ENDINGS)


def is_photo(file: Path) -> bool:
    return file.suffix.lower() in PHOTO_ENDINGS


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary path beside `file`, which atomically replaces it when the block ends.

    If the block raises, the temporary file is removed and `file` is unchanged. Raises OSError.
    """
    temporary = file.with_name(f".partial.{file.name}")
    try:
        yield temporary
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
