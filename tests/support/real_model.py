"""Where the versions of the real network and the built mini program are, for tests that need them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("models/inception_v3/2/saved_model.pb", "backend/dogsnap/server/pages/app/index.html")


def built_models() -> Path:
    """The models folder as `make setup` leaves it; skips the test, naming what is missing."""
    for needed in NEEDED:
        if not (ROOT / needed).is_file():
            pytest.skip(f"{needed} is missing: `make setup` builds it")
    return ROOT / "models"
