"""The bounded executor: a place for each request, a queue that ends, and deadlines."""

import threading
import time

import pytest

from backend.errors import Cancelled, DeadlineExceeded, Unavailable
from backend.serving.inference.executor import CHECK_SECONDS, Executor


@pytest.fixture
def executor():
    executor = Executor(threads=1, queue_size=1)
    yield executor
    executor.close()


def soon(seconds: float = 30) -> float:
    return time.monotonic() + seconds


def occupy(executor: Executor) -> tuple[threading.Event, threading.Thread]:
    """Holds the one thread until the event is set."""
    begun, release = threading.Event(), threading.Event()

    def work():
        begun.set()
        release.wait(30)

    thread = threading.Thread(target=executor.run, args=(work, soon()))
    thread.start()
    assert begun.wait(30)
    return release, thread


def test_the_result_and_the_error_of_the_work_come_through(executor):
    assert executor.run(lambda: 7, soon()) == 7
    with pytest.raises(ZeroDivisionError):
        executor.run(lambda: 1 / 0, soon())


def test_a_timeout_that_the_work_itself_raises_is_not_taken_for_the_deadline(executor):
    def work():
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        executor.run(work, soon())


def test_one_request_more_than_there_are_places_is_refused_with_a_time_to_try_again(executor):
    release, running = occupy(executor)
    waiting = threading.Thread(target=executor.run, args=(lambda: None, soon()))
    waiting.start()
    while executor.held < 2:
        time.sleep(0.001)
    with pytest.raises(Unavailable, match="the server is full: 2 requests") as error:
        executor.run(lambda: None, soon())
    assert error.value.retry_after >= 1
    release.set()
    running.join()
    waiting.join()
    assert executor.run(lambda: "free again", soon()) == "free again"
    assert executor.held == 0


def test_a_request_that_waits_past_its_deadline_is_given_up_and_never_run(executor):
    release, running = occupy(executor)
    ran = []
    with pytest.raises(DeadlineExceeded):
        executor.run(lambda: ran.append(1), soon(0.05))
    release.set()
    running.join()
    executor.run(lambda: None, soon())
    assert ran == []


def test_a_request_that_runs_past_its_deadline_keeps_its_place_until_it_ends(executor):
    release = threading.Event()
    with pytest.raises(DeadlineExceeded):
        executor.run(lambda: release.wait(30), soon(0.05))
    assert executor.held == 1
    release.set()
    while executor.held:
        time.sleep(0.001)


def test_a_request_whose_client_has_gone_leaves_the_queue_and_a_running_one_runs_on(executor):
    release, running = occupy(executor)
    ran = []
    with pytest.raises(Cancelled, match="its client disconnected"):
        executor.run(lambda: ran.append(1), soon(), is_gone=lambda: True)
    assert executor.held == 1
    release.set()
    running.join()
    assert executor.run(lambda: time.sleep(2 * CHECK_SECONDS) or "done", soon(), is_gone=lambda: True) == "done"
    assert ran == []
