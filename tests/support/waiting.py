"""Waiting for a condition instead of a time: as long as it takes on a busy machine, and no longer."""

import time
from collections.abc import Callable

import requests

CHECK_SECONDS = 0.02


def wait_until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Return once `condition` holds; fail if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not become so within {seconds:g} s"
        time.sleep(CHECK_SECONDS)


def answers(url: str) -> bool:
    """Whether a GET gets 200."""
    try:
        with requests.get(url, timeout=5) as response:
            return response.status_code == 200
    except requests.RequestException:
        return False
