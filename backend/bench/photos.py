"""The photos that benchmarks send: from a folder, or generated."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image

from backend.files import PHOTO_ENDINGS, is_photo

SIDE = 299  # pixels: the size of the network's input
QUALITY = 90
PHONE_SIZE = (4032, 3024)  # 12 megapixels
PHONE_QUALITY = 87  # gives 5 MB with the noise below; phones write 4 to 6 MB
HELD_UPRIGHT = 6  # the EXIF orientation of a phone that is held upright
COUNT = 16  # photos: enough to defeat caches, few enough for the load generator


def from_folder(folder: Path) -> list[bytes]:
    """At most COUNT photo files below a folder, evenly spread over their sorted names. Raises ValueError if there are none."""
    files = sorted(file for file in folder.rglob("*") if is_photo(file))
    if not files:
        raise ValueError(f"{folder} holds no photos; expected files that end in {', '.join(PHOTO_ENDINGS)}")
    return [file.read_bytes() for file in files[:: max(1, len(files) // COUNT)][:COUNT]]


def made() -> list[bytes]:
    """COUNT different JPEGs of the network's size with soft shapes and camera noise."""
    return [_jpeg(_picture(np.random.default_rng(number), (SIDE, SIDE)), QUALITY) for number in range(COUNT)]


def from_phone() -> bytes:
    """A JPEG of 12 megapixels and 5 MB with an EXIF rotation, as from a phone held upright."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = HELD_UPRIGHT
    return _jpeg(_picture(np.random.default_rng(0), PHONE_SIZE), PHONE_QUALITY, exif=exif)


def _picture(generator: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    shapes = generator.normal(128, 50, (size[1] // 8 + 1, size[0] // 8 + 1, 3)).clip(0, 255).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(shapes).resize(size, Image.Resampling.BICUBIC), np.float32)
    noisy = smooth + generator.normal(0, 9, (*smooth.shape[:2], 1)).astype(np.float32)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def _jpeg(picture: Image.Image, quality: int, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality, **options)
    return buffer.getvalue()
