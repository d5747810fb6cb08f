"""Numbers as text in JSON: base64 of float16."""

import base64

import numpy as np


def write_halves(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.astype(np.float16).tobytes()).decode()


def read_halves(text: str) -> np.ndarray:
    """What `write_halves` wrote, float32 (n,)."""
    return np.frombuffer(base64.b64decode(text), np.float16).astype(np.float32)
