"""Versions of the tiny network that bring it along for OpenVINO, made by the real export and merge."""

from pathlib import Path

import pytest
from dogsnap.exporting import acceleration
from dogsnap.exporting.merging.merge import Options, merge

from support import exported


def patch(monkeypatch: pytest.MonkeyPatch, *speedups: float) -> None:
    """Have networks of any size tried. Only the stopwatch is replaced: whether a tiny network gains is a matter of chance.

    `speedups`: of float32, bfloat16 and int8 over TensorFlow.
    """
    measured = dict(zip(acceleration.TOLERANCES, speedups or (2.0, 4.0, 6.0), strict=False))
    monkeypatch.setattr(acceleration, "SMALLEST_BYTES", 0)
    monkeypatch.setattr(acceleration, "_speedup", lambda network, _: measured[network.precision])


def versions(model_folder: Path) -> Path:
    """Version 1, 2 merged from it, and 3, the fast one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        patch(monkeypatch)
        one = exported.export(model_folder)
        merge(one, Options())
        merge(one, Options(fast=True))
    return model_folder
