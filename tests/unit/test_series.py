"""What versions did over the last day: buckets, points, and clocks that jump."""

import tracemalloc
from contextlib import suppress

import pytest
from dogsnap.errors import Unavailable
from dogsnap.serving.metrics import Metrics
from dogsnap.serving.series import BUCKET_SECONDS, BUCKETS, Series
from dogsnap.serving.tensors.signatures import ServableId

NOON = 1_800_000_000.0  # when a series begins, in seconds since 1970


class Clocks:
    """Those of a machine: one that never jumps, and the time of day."""

    def __init__(self):
        self.seconds, self.jump = 5.0, 0.0

    def monotonic(self) -> float:
        return self.seconds

    def time_of_day(self) -> float:
        return NOON - 5.0 + self.seconds + self.jump


class Counted:
    """A series of metrics that a test counts in."""

    def __init__(self):
        self.clocks, self.metrics = Clocks(), Metrics()
        self.series = Series(self.metrics, self.clocks.monotonic, self.clocks.time_of_day)

    def ask(self, version: int, outcome: str = "OK", times: int = 1, took: float = 0.02) -> None:
        which = ("dogs", str(version), "rest")
        self.metrics._requests.labels(*which, outcome).inc(times)
        for _ in range(times):
            self.metrics._seconds.labels(*which).observe(took)

    def wait(self, seconds: float) -> None:
        self.clocks.seconds += seconds
        self.series.look()

    def describe(self, seconds: float = 60, until: float | None = None) -> dict:
        return self.series.describe("dogs", seconds, until)


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_requests_refusals_failures_and_times_lie_in_the_bucket_in_which_they_came(counted):
    counted.ask(1, times=3)
    counted.ask(2, "INVALID_ARGUMENT")
    counted.wait(BUCKET_SECONDS)
    counted.ask(1, times=9, took=0.2)
    counted.ask(1, "UNAVAILABLE", took=0.2)
    counted.clocks.seconds += 3  # the bucket is still open
    found = counted.describe()
    assert (found["began"], found["now"], found["step"]) == (NOON, NOON + 13, BUCKET_SECONDS)
    assert found["times"] == [NOON, NOON + BUCKET_SECONDS]
    first, second = found["versions"]["1"], found["versions"]["2"]
    assert (first["requests"], first["failed"], first["refused"]) == ([3, 10], [0, 1], [0, 0])
    assert (second["requests"], second["failed"], second["refused"]) == ([1, 0], [0, 0], [1, 0])
    assert second["p50_ms"][1] is None
    assert 10 < first["p50_ms"][0] < 25
    assert 150 < first["p50_ms"][1] < first["p95_ms"][1] < 250
    assert counted.series.recent("dogs") == {1: 13, 2: 1}
    assert counted.series.recent("cats") == {}


def test_a_long_time_has_wide_points_that_stay_where_they_are(counted):
    for _ in range(1000):
        counted.ask(1)
        counted.wait(BUCKET_SECONDS)
    day = counted.describe(86400)
    assert (day["step"], len(day["times"])) == (240, 42)
    assert day["versions"]["1"]["requests"] == [24] * 41 + [16]
    counted.wait(BUCKET_SECONDS)
    assert counted.describe(86400)["times"] == day["times"]
    hour = counted.describe(3600)
    assert (hour["step"], len(hour["times"]), sum(hour["versions"]["1"]["requests"])) == (
        10,
        360,
        358,
    )


def test_a_time_that_is_over_is_described_and_one_that_is_not_known_is_empty(counted):
    for number in range(200):
        counted.ask(1, times=number)
        counted.wait(BUCKET_SECONDS)
    past = counted.describe(30, NOON + 100)
    assert past["times"] == [NOON + 80, NOON + 90, NOON + 100]
    assert past["versions"]["1"]["requests"] == [8, 9, 10]
    before = counted.describe(3600, NOON - 1000)
    assert (before["times"], before["versions"]["1"]["requests"]) == ([], [])
    assert counted.describe(30, NOON + 1e9)["times"] == counted.describe(30)["times"]


def test_a_clock_that_jumps_moves_all_of_it_and_loses_nothing(counted):
    for jump in (0, 7200, -7200, 86400 * 365, -86400 * 365):
        counted.clocks.jump = jump
        counted.ask(1, times=2)
        counted.wait(BUCKET_SECONDS)
        found = counted.describe()
        assert found["now"] - found["times"][-1] < BUCKET_SECONDS
        assert found["times"] == sorted(found["times"])
    assert counted.describe()["versions"]["1"]["requests"] == [2, 2, 2, 2, 2, 0]


def test_what_is_older_than_a_day_goes_also_after_a_pause_of_days(counted):
    counted.ask(1, times=7)
    counted.wait(BUCKET_SECONDS)
    counted.ask(2, times=5)
    counted.wait((BUCKETS - 1) * BUCKET_SECONDS)
    day = counted.describe(86400)
    assert "1" not in day["versions"]
    assert sum(day["versions"]["2"]["requests"]) == 5
    counted.wait(10 * 86400)
    assert counted.describe(86400)["versions"] == {}
    counted.ask(2)
    assert sum(counted.describe(86400)["versions"]["2"]["requests"]) == 1


def test_a_version_that_was_deleted_keeps_its_past_and_begins_anew_when_it_is_back(counted):
    counted.ask(1, times=7)
    counted.wait(BUCKET_SECONDS)
    counted.metrics.forget(ServableId("dogs", 1))
    counted.ask(1, times=2)
    counted.wait(BUCKET_SECONDS)
    counted.metrics.forget(ServableId("dogs", 1))
    counted.wait(BUCKET_SECONDS)
    counted.ask(1, times=9)
    assert counted.describe()["versions"]["1"]["requests"] == [7, 2, 0, 9]


def test_runs_as_a_shadow_and_requests_that_reach_no_version_are_nobodys(counted):
    with suppress(Unavailable), counted.metrics.request("rest"):
        raise Unavailable("no place")
    with counted.metrics.request("shadow") as request:
        request.servable = ServableId("dogs", 2)
    with counted.metrics.request("rest") as request:
        request.servable = ServableId("dogs", 3)
    assert list(counted.describe()["versions"]) == ["3"]


def test_a_bucket_that_is_full_stays_full(counted):
    counted.metrics._requests.labels("dogs", "1", "rest", "INTERNAL").inc(100_000)
    assert counted.describe()["versions"]["1"]["failed"] == [65535]


def test_a_day_of_three_versions_takes_at_most_a_megabyte(counted):
    def ask() -> None:
        for version in (1, 2, 3):
            counted.ask(version)

    ask()  # what the metrics hold of a version is theirs
    counted.series = Series(counted.metrics, counted.clocks.monotonic)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(BUCKETS // 100):
            ask()
            counted.wait(100 * BUCKET_SECONDS)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"a day of three versions takes {(after - before) / 1e6:.2f} MB")
    assert after - before < 1e6
    assert sum(counted.describe(86400)["versions"]["3"]["requests"]) == BUCKETS // 100
