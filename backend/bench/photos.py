"""The photos that benchmarks send: from a folder, from the test list of a data set, or generated."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from backend.bench.remote import CannotMeasure
from backend.files import PHOTO_ENDINGS, is_photo

SIDE = 299  # pixels: the size of the network's input
QUALITY = 90
COUNT = 16  # photos: enough to defeat caches, few enough for the load generator
LIST = "test_list"


def from_folder(folder: Path) -> list[bytes]:
    """At most COUNT photo files below a folder, evenly spread over their sorted names. Raises CannotMeasure without any."""
    files = sorted(file for file in folder.rglob("*") if is_photo(file))
    if not files:
        raise CannotMeasure(f"{folder} holds no photos; expected files that end in {', '.join(PHOTO_ENDINGS)}")
    return [file.read_bytes() for file in files[:: max(1, len(files) // COUNT)][:COUNT]]


def of_test_list(data: Path, most: int) -> list[bytes]:
    """At most `most` photos of the test list in the Stanford Dogs layout, evenly spread. Raises CannotMeasure."""
    from backend.fitting.dataset import read_list  # imports TensorFlow

    try:
        examples = read_list(data, LIST)
        contents = [each.path.read_bytes() for each in examples[:: -(-len(examples) // most) or 1]]
    except (ValueError, OSError) as error:
        raise CannotMeasure(f"--data: {error}") from error
    if not contents:
        raise CannotMeasure(f"--data: {data / LIST}.txt is empty; expected photos of Stanford Dogs")
    return contents


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
