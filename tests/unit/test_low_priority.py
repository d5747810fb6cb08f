"""Work beside requests is done at the lowest priority, all other work where it is."""

import os
import sys
import threading

import pytest
from dogsnap.serving.versions import low_priority


def place() -> tuple[int, int]:
    """This thread, and its priority."""
    thread = threading.get_native_id()
    return thread, os.getpriority(os.PRIO_PROCESS, thread)


def test_only_beside_requests_a_function_runs_in_a_thread_of_the_lowest_priority():
    here = place()
    with low_priority.beside_requests(False):
        assert low_priority.run(place) == here
    with low_priority.beside_requests(True):
        thread, priority = low_priority.run(place)
    assert (thread != here[0], priority) == (True, 19)
    assert low_priority.run(place) == place() == here


def test_what_it_raises_arrives_and_the_switch_interval_is_as_before():
    before = sys.getswitchinterval()
    with low_priority.beside_requests(True):
        assert sys.getswitchinterval() < before
        with pytest.raises(ZeroDivisionError):
            low_priority.run(divmod, 1, 0)
    assert sys.getswitchinterval() == before
