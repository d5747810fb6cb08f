"""The guard's test keeps its rate of false alarms in every kind of traffic, and finds what is worse."""

import random

import pytest
from dogsnap.routing.choices import Change
from dogsnap.routing.guard import LEAST_CLIENTS, LEAST_REQUESTS, Counts, evidence, judge
from dogsnap.routing.switches import Switch, Who
from dogsnap.serving.inference.guarding import Watched

HOUR, PER_SECOND = 3600, 40
FEW, MANY = 60, 1000  # simulations


class Traffic:
    """An hour of requests of a split of equal versions: a client and whether its request fails or is slow."""

    def __init__(self, kind: str, seed: int):
        self.random, self.kind = random.Random(seed), kind
        self.clients = [str(number) for number in range(self.random.randint(5, 400))]

    def requests(self, count: int):
        failing = set(self.clients[: len(self.clients) // 10]) if self.kind == "own errors" else ()
        burst = 0
        for _ in range(count):
            client = self.random.choice(self.clients)
            if self.kind == "heavy" and self.random.random() < 0.5:
                client = "heavy"
            rate = 0.3 if self.kind == "heavy" and client == "heavy" else 0.01
            if self.kind == "bursts":
                burst = 50 if self.random.random() < 0.001 else max(0, burst - 1)
                rate = 0.5 if burst else 0.01
            fails = client in failing or self.random.random() < rate
            yield client, fails, self.random.random() < rate


def is_undone(traffic: Traffic, share: float, count: int, worse: float = 0.0) -> int:
    """After how many requests of the new side the guard undoes the split; 0: it does not."""
    counts, sides = Counts(), {}
    for index, (client, fails, is_slow) in enumerate(traffic.requests(count)):
        side = sides.setdefault(client, traffic.random.random() < share)
        has_failed = fails or (side and traffic.random.random() < worse)
        counts.requests[side] += 1
        counts.failures[side] += has_failed
        counts.clients[client] = side
        if has_failed:
            counts.failing[client] = side
        if is_slow:
            counts.slow[client] = side
        if index % 20 == 0 and judge(counts, share).is_worse:
            return counts.requests[1]
    return 0


KINDS = ("even", "bursts", "heavy", "own errors")


def false_alarms(kind: str, simulations: int, count: int) -> int:
    alarms = 0
    for seed in range(simulations):
        share = random.Random(seed).choice((0.05, 0.25, 0.5))
        alarms += is_undone(Traffic(kind, seed), share, count) > 0
    return alarms


@pytest.mark.parametrize("kind", KINDS)
def test_equal_versions_are_hardly_ever_undone(kind):
    assert false_alarms(kind, FEW, 2000) <= 2


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_thousand_splits_of_an_hour_at_most_one_percent_is_undone(kind):
    assert false_alarms(kind, MANY, HOUR * 10) <= MANY / 100


def test_a_version_that_fails_fifteen_percent_is_found_within_twenty_failures():
    harmed = []
    for seed in range(20):
        traffic = Traffic("even", seed)
        traffic.clients = [str(number) for number in range(400)]
        asked = is_undone(traffic, 0.05, 60 * PER_SECOND, worse=0.15)
        harmed.append(0.15 * asked if asked else 1000)
    assert sorted(harmed)[-2] <= 20


def test_without_a_difference_the_evidence_is_one_on_average():
    for share in (0.05, 0.5, 0.9):
        mean = (1 - share) * evidence([1, 0], share) + share * evidence([0, 1], share)
        assert mean == pytest.approx(1)


def counted(requests: list[int], clients: list[int]) -> Counts:
    names = [(f"{side}-{number}", bool(side)) for side in (0, 1) for number in range(clients[side])]
    return Counts(requests, [0, requests[1]], dict(names), {n: s for n, s in names if s}, {})


def test_it_is_silent_and_says_so_where_it_cannot_tell():
    few = judge(counted([1000, LEAST_REQUESTS - 1], [100, 5]), 0.05)
    assert not few.is_worse
    assert "too few requests: 9 on the new side and 1000 before" in few.text
    few = judge(counted([1000, 1000], [100, LEAST_CLIENTS - 1]), 0.05)
    assert not few.is_worse
    assert "too few clients" in few.text
    others = judge(counted([1000, 1000], [50, 50]), 0.05)
    assert not others.is_worse
    assert "differ in who asks" in others.text


def test_a_finding_has_the_figures_of_both_sides():
    finding = judge(counted([1000, 50], [100, 5]), 0.05)
    assert finding.is_worse
    assert finding.text.startswith(
        "100.0 % of 50 requests fail, of 5 clients; before 0.0 % of 1000"
    )


def watched_split(slowdown: float) -> Watched:
    """A guarded split of 10 % after a request of each of 200 clients."""
    value = {"version": 2, "share": 0.1}
    split = Switch.new(1, Who("x"), [Change("half", "split", "", None, value)], is_guarded=True)
    watched, generator = Watched(split), random.Random(1)
    for number in range(200):
        is_new_side = number % 10 == 0
        seconds = generator.uniform(0.010, 0.015) * (slowdown if is_new_side else 1)
        watched.count(f"client {number}", 2 if is_new_side else 1, None, seconds)
    return watched


def test_a_version_that_takes_three_times_as_long_is_found_and_an_equal_one_is_not():
    slow, equal = watched_split(3.0), watched_split(1.0)
    assert judge(slow.counts, slow.share).is_worse
    assert "20 of 20 clients wait more than twice" in judge(slow.counts, slow.share).text
    assert judge(equal.counts, equal.share).text.startswith("content")
