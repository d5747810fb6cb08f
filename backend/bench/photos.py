"""The photos that benchmarks send: from a folder, or generated."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from backend.bench.remote import CannotMeasure
from backend.files import PHOTO_ENDINGS, is_photo

SIDE = 299  # pixels: the size of the network's input
QUALITY = 90
COUNT = 16  # photos: enough to defeat caches, few enough for the load generator


def to_send(folder: Path | None) -> list[bytes]:
    """At most COUNT photo files below a folder, evenly spread over their sorted names; without one those of `made`.

    Raises CannotMeasure for a folder without any.
    """
    if folder is None:
        return made()
    files = sorted(file for file in folder.rglob("*") if is_photo(file))
    if not files:
        raise CannotMeasure(f"{folder} holds no photos; expected files that end in {', '.join(PHOTO_ENDINGS)}")
    return [file.read_bytes() for file in files[:: max(1, len(files) // COUNT)][:COUNT]]


def made() -> list[bytes]:
    """COUNT different JPEGs of the network's size with soft shapes and camera noise."""
    return [_made(np.random.default_rng(number)) for number in range(COUNT)]


def _made(generator: np.random.Generator) -> bytes:
    shapes = generator.normal(128, 50, (SIDE // 8 + 1, SIDE // 8 + 1, 3)).clip(0, 255).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(shapes).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32)
    noisy = smooth + generator.normal(0, 9, (SIDE, SIDE, 1)).astype(np.float32)
    buffer = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
