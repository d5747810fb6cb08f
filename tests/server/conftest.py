"""A small model whose folder may be changed, for tests of faults and of restarts."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def models(half_models, tmp_path) -> Path:
    return Path(shutil.copytree(half_models, tmp_path / "models"))
