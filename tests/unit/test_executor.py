"""The bounded executor: deadlines of what runs; test_serve.py and test_overload.py have those of what waits."""

import threading
import time
from contextlib import closing

import pytest
from dogsnap.errors import DeadlineExceeded
from dogsnap.serving.execution.executor import Executor


def test_a_request_that_runs_past_its_deadline_keeps_its_place_until_it_ends():
    release = threading.Event()
    with closing(Executor(threads=1, queue_size=1)) as executor:
        with pytest.raises(DeadlineExceeded):
            executor.run(lambda: release.wait(30), time.monotonic() + 0.05)
        assert executor.held == 1
        release.set()
        while executor.held:
            time.sleep(0.001)


def test_a_timeout_that_the_work_itself_raises_is_not_taken_for_the_deadline():
    def work():
        raise TimeoutError("of its own")

    with (
        closing(Executor(threads=1, queue_size=1)) as executor,
        pytest.raises(TimeoutError, match="of its own"),
    ):
        executor.run(work, time.monotonic() + 30)
