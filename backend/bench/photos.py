"""The photos that are sent: generated, each different, so that no cache answers."""

import io

import numpy as np
from PIL import Image

SIDE = 299  # pixels: the size of the network's input
COUNT = 16  # photos: enough to defeat caches, few enough for the load generator


def made() -> list[bytes]:
    """COUNT different JPEGs of the network's size with soft shapes and camera noise."""
    return [_made(np.random.default_rng(number)) for number in range(COUNT)]


def _made(generator: np.random.Generator) -> bytes:
    shapes = (
        generator.normal(128, 50, (SIDE // 8 + 1, SIDE // 8 + 1, 3)).clip(0, 255).astype(np.uint8)
    )
    smooth = np.asarray(
        Image.fromarray(shapes).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32
    )
    noisy = smooth + generator.normal(0, 9, (SIDE, SIDE, 1)).astype(np.float32)
    buffer = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
