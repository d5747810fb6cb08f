"""Two versions of a small model, and one that sleeps, for tests of faults and of restarts."""

import shutil
from pathlib import Path

import pytest
import tiny_models


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Version n computes x / 2 + n; `sleeper` sleeps."""
    folder = tmp_path_factory.mktemp("made")
    for number in (1, 2):
        tiny_models.half_plus(number, folder / str(number))
    tiny_models.sleeper(folder / "sleeper")
    return folder


@pytest.fixture
def models(made, tmp_path) -> Path:
    shutil.copytree(made / "1", tmp_path / "models" / "half" / "1")
    return tmp_path / "models"
