"""Fills holes in a file of starting weights, so that a network can be trained from what is left of it.

It trains nothing. Measured on ImageNet weights of Inception v3 in which two kernels (3x3x448x384, in the last two blocks)
lack their first two rows; top-1 of a breed head fitted on pooled features of 5,400 photos, on 1,200 others:
    fresh random values                                              84.2 %
    fresh random values, statistics behind them settled              84.8 %
    values predicted from the row that is there                      84.3 %
    values predicted, statistics behind them settled                 86.6 %
"""

import zlib
from collections.abc import Iterable

import keras
import numpy as np

# A trained value may be 0 by rounding; a run of them at the start of a kernel is a hole.
SHORTEST_HOLE = 16
# The last blocks' kernels are the most alike; more of them predict no better.
TEACHERS = 2


def fill_holes(backbone: keras.Model) -> list[keras.layers.Layer]:
    """Fill the kernels that begin with a run of zeros, and return their layers. What a file does hold stays as it is.

    Missing rows of a kernel (height, width, in, out) are predicted from its complete rows, by the least squares that fit the rows
    of the last intact kernels of the same height and width; without a complete row they are drawn as for a fresh layer.
    """
    kernels = {layer: layer.kernel.numpy() for layer in backbone.layers if hasattr(layer, "kernel")}
    holed = [layer for layer, kernel in kernels.items() if hole(kernel)]
    for layer in holed:
        kernel = kernels[layer]
        alike = [
            other for at, other in kernels.items() if at not in holed and other.shape[:2] == kernel.shape[:2] and other.ndim == 4
        ]  # fmt: skip
        layer.kernel.assign(_filled(kernel, alike[-TEACHERS:], layer.name))
    return holed


def hole(kernel: np.ndarray) -> int:
    """How many values at the start of a kernel are missing (zero); 0 for a kernel that is whole."""
    present = np.flatnonzero(kernel)
    missing = kernel.size if present.size == 0 else int(present[0])
    return missing if missing >= SHORTEST_HOLE else 0


def settle_statistics(backbone: keras.Model, layers: list[keras.layers.Layer], batches: Iterable[np.ndarray]) -> None:
    """Set the batch statistics behind `layers` to what the layers give for `batches`, of images as `backbone` takes them.

    A stored mean and variance belong to the values that were lost; what is there now comes out shifted and too weak.
    In the order of the network: what is settled first decides what reaches the next.
    """
    batches = list(batches) if layers else []
    for layer in layers:
        upto = keras.Model(backbone.inputs[0], layer.output)
        maps = np.concatenate([np.asarray(upto(batch, training=False)).astype(np.float32) for batch in batches])
        norm = next(
            other
            for other in backbone.layers
            if isinstance(other, keras.layers.BatchNormalization) and other.input is layer.output
        )
        norm.moving_mean.assign(maps.mean((0, 1, 2)))
        norm.moving_variance.assign(maps.var((0, 1, 2)))


def _filled(kernel: np.ndarray, alike: list[np.ndarray], name: str) -> np.ndarray:
    missing = hole(kernel)
    rows = -(-missing // kernel[0].size)  # those with any value missing
    guess = _predicted(kernel, rows, alike) if alike and rows < len(kernel) else _fresh(kernel, name)
    filled = kernel.ravel().copy()
    filled[:missing] = guess.ravel()[:missing]
    return filled.reshape(kernel.shape)


def _predicted(kernel: np.ndarray, rows: int, alike: list[np.ndarray]) -> np.ndarray:
    known = np.concatenate([_taps(other[rows:] / other.std()) for other in alike])
    lost = np.concatenate([_taps(other[:rows] / other.std()) for other in alike])
    rule = np.linalg.lstsq(known, lost, rcond=None)[0]
    guess = (_taps(kernel[rows:]) @ rule).T.reshape(rows, *kernel.shape[1:])
    return np.concatenate([guess, kernel[rows:]])


def _taps(kernel: np.ndarray) -> np.ndarray:
    """(height, width, in, out) -> (in * out, height * width): one row per pair of channels."""
    return kernel.reshape(kernel.shape[0] * kernel.shape[1], -1).T


def _fresh(kernel: np.ndarray, name: str) -> np.ndarray:
    """Glorot-uniform values of the kernel's own fan; the layer's name is the seed."""
    receptive = int(np.prod(kernel.shape[:-2]))
    limit = np.sqrt(6.0 / (receptive * (kernel.shape[-2] + kernel.shape[-1])))
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(-limit, limit, kernel.shape)
