"""Python imports this when it starts with this folder in PYTHONPATH: the wall clock then goes wrong by CLOCK_FILE's seconds.

The monotonic clock stays right, as it does on a machine whose clock is set.
"""

import os
import time

_right = time.time


def _shifted() -> float:
    try:
        with open(os.environ["CLOCK_FILE"], encoding="ascii") as file:
            return _right() + float(file.read() or 0)
    except FileNotFoundError:  # the test is over and its files are gone, the server is to end
        return _right()


time.time = _shifted
