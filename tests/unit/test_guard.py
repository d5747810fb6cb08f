"""The guard's tests keep their rate of false alarms in every kind of traffic, and find what is worse."""

import json
import random
from datetime import UTC, datetime

import numpy as np
import pytest
from dogsnap.errors import InvalidArgument, NotFound, Unavailable
from dogsnap.routing.choices import Change
from dogsnap.routing.chosen_versions import ChosenVersions
from dogsnap.routing.sequential_test import (
    ALARM_RATE,
    LEAST_CLIENTS,
    LEAST_PIECES,
    LEAST_REQUESTS,
    Counts,
    Piece,
    Versions,
    evidence,
    judge,
    judge_move,
    rank_evidence,
)
from dogsnap.routing.spec import ModelSpec
from dogsnap.routing.sticky_split import Split
from dogsnap.routing.switch_log import Switch, Who, iso
from dogsnap.serving.inference.guard import NOTES, Guard, GuardedSplit, Pieces, seconds_of
from dogsnap.serving.metrics import Metrics, RequestRecord
from dogsnap.serving.tensors.signatures import ServableId

HOUR, PER_SECOND = 3600, 40
FEW, MANY = 40, 1000  # simulations
VERSIONS = Versions(1, 2)
KINDS = ("even", "bursts", "heavy", "own errors")
STEPS = (5, 25, 50, 100)


class Traffic:
    """Requests of an hour or two, whatever version answers: client, whether it fails, time of a run."""

    def __init__(self, kind: str, seed: int, seconds: int = HOUR):
        self.random = np.random.default_rng(seed)
        count, clients = seconds * PER_SECOND, int(self.random.integers(5, 400))
        self.clients = self.random.integers(0, clients, count)
        rates = np.full(count, 0.001)
        if kind == "heavy":
            is_heavy = self.random.random(count) < 0.5
            self.clients[is_heavy] = clients
            rates[is_heavy] = 0.3
        if kind == "bursts":
            begins = self.random.random(count) < 0.0001
            rates[np.convolve(begins, np.ones(50))[:count] > 0] = 0.5
        if kind == "own errors":
            rates[self.clients < clients // 10] = 1.0
        self.fails = self.random.random(count) < rates
        self.seconds = self.random.lognormal(-4, 0.5, count)
        self.at = np.arange(count) / PER_SECOND


def is_split_undone(traffic: Traffic, share: float, worse: float = 0.0, tests: int = 1) -> int:
    """After how many requests of the new side the guard undoes the split; 0: it does not."""
    places = traffic.random.random(int(traffic.clients.max()) + 1)
    is_new = (places < share)[traffic.clients]
    fails = traffic.fails | (is_new & (traffic.random.random(len(is_new)) < worse))
    return requests_until_undone(traffic.clients, is_new, fails, traffic.seconds, share, tests)


def requests_until_undone(clients, is_new, fails, seconds, share: float, tests: int = 1) -> int:
    """Arrays with an entry for each request; 0: it is not undone."""
    is_slow = seconds > 2 * np.quantile(seconds[:10], 0.25)
    first = np.unique(clients, return_index=True)[1]
    events = {
        "clients": first,
        "failing": np.flatnonzero(fails)[np.unique(clients[fails], return_index=True)[1]],
        "slow": first[is_slow[first]],
    }
    counts = Counts()
    for index in sorted(np.concatenate(list(events.values())).tolist()):
        for name, indices in events.items():
            if index in indices:
                getattr(counts, name)[str(clients[index])] = bool(is_new[index])
        new = int(is_new[: index + 1].sum())
        counts.requests = [index + 1 - new, new]
        if judge(counts, share, VERSIONS, tests).is_worse:
            return new
    return 0


def is_rollout_undone(traffic: Traffic) -> bool:
    """By 5, 25, 50 and 100 %: steps of 400 s, then ten minutes after the move."""
    places = traffic.random.random(int(traffic.clients.max()) + 1)
    for step, percent in enumerate(STEPS[:-1]):
        part = slice(step * 400 * PER_SECOND, (step + 1) * 400 * PER_SECOND)
        clients, share = traffic.clients[part], percent / 100
        is_new = (places < share)[clients]
        fails, seconds = traffic.fails[part], traffic.seconds[part]
        if requests_until_undone(clients, is_new, fails, seconds, share, len(STEPS)):
            return True
    return is_move_undone(pieces_of(traffic), 1200, len(STEPS))


def pieces_of(traffic: Traffic) -> list[Piece]:
    pieces = Pieces()
    requests = zip(traffic.at, traffic.clients, traffic.fails, traffic.seconds, strict=True)
    for at, client, fails, seconds in requests:
        pieces.add(float(at), str(client), bool(fails), float(seconds))
    return list(pieces.closed)


def is_move_undone(pieces: list[Piece], moved: float, tests: int = 1) -> bool:
    before = [piece for piece in pieces if piece.at < moved]
    after = [piece for piece in pieces if piece.at >= moved]
    counts = range(1, len(after) + 1)
    return any(judge_move(before, after[:count], VERSIONS, tests).is_worse for count in counts)


def undone_splits(kind: str, simulations: int, seconds: int) -> int:
    undone = 0
    for seed in range(simulations):
        share = random.Random(seed).choice((0.05, 0.25, 0.5))
        undone += is_split_undone(Traffic(kind, seed, seconds), share) > 0
    return undone


@pytest.mark.parametrize("kind", KINDS)
def test_equal_versions_are_hardly_ever_undone(kind):
    assert undone_splits(kind, FEW, 60) <= 2


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_thousand_splits_of_an_hour_at_most_one_percent_is_undone(kind):
    undone = undone_splits(kind, MANY, HOUR)
    print(f"{kind}: {undone} of {MANY} splits of equal versions undone")
    assert undone <= MANY / 100


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_of_the_moves_between_equal_versions_at_most_one_percent_is_undone(kind):
    """Of 100 days, 10 moves each: half an hour before, ten minutes after."""
    undone = 0
    for seed in range(MANY // 10):
        day = pieces_of(Traffic(kind, seed, 2400 + 9 * 60))
        for move in range(10):
            pieces = [piece for piece in day if 0 <= piece.at - 60 * move < 2400]
            undone += is_move_undone(pieces, 60 * move + 1800)
    print(f"{kind}: {undone} of {MANY} moves between equal versions undone")
    assert undone <= MANY / 100


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_thousand_rollouts_of_four_steps_at_most_one_percent_is_undone(kind):
    undone = sum(is_rollout_undone(Traffic(kind, seed, 1800)) for seed in range(MANY))
    print(f"{kind}: {undone} of {MANY} rollouts between equal versions undone")
    assert undone <= MANY / 100


def test_the_steps_of_a_rollout_share_the_rate_of_false_alarms():
    """Three clients of 5 % that fail are enough for one split, and four for a hundredth of it."""
    three, four = (counted([1000, 50], [100, clients]) for clients in (3, 4))
    assert judge(three, 0.05, VERSIONS).is_worse
    assert not judge(three, 0.05, VERSIONS, tests=100).is_worse
    assert judge(four, 0.05, VERSIONS, tests=100).is_worse
    slow = pieces(4, slowdown=3.0)
    assert judge_move(pieces(180), slow[:3], VERSIONS).is_worse
    assert not judge_move(pieces(180), slow[:3], VERSIONS, tests=100).is_worse
    change = Change("half", "split", "", None, {"version": 2, "share": 0.1})
    plan = {"version": 2, "steps": [10.0, 50.0, 100.0]}
    rollout = Change("half", "rollout", "", None, plan)
    for changes, tests in (([change], 1), ([change, rollout], 3)):
        split = Switch(1, "2026-01-01T00:00:00Z", Who("x"), changes, is_guarded=True)
        assert GuardedSplit(split, change).tests == tests


@pytest.mark.parametrize("tests", [1, len(STEPS)])
def test_a_version_that_fails_fifteen_percent_is_found_within_twenty_failures(tests):
    harmed = []
    for seed in range(20):
        traffic = Traffic("even", seed, 60)
        traffic.clients = traffic.random.integers(0, 400, len(traffic.clients))
        asked = is_split_undone(traffic, 0.05, worse=0.15, tests=tests)
        harmed.append(0.15 * asked if asked else 1000)
    assert sorted(harmed)[-2] <= 20


def test_without_a_difference_the_evidence_is_one_on_average():
    for share in (0.05, 0.5, 0.9):
        mean = (1 - share) * evidence([1, 0], share) + share * evidence([0, 1], share)
        assert mean == pytest.approx(1)


def test_without_a_change_the_evidence_of_ranks_is_at_most_one_on_average():
    generator, found = random.Random(1), []
    for _ in range(300):
        values = [generator.random() for _ in range(110)]
        found.append(rank_evidence(values[:100], values[100:]))
    assert sum(found) / len(found) <= 1


def test_it_is_sure_once_a_version_that_fails_for_3_of_100_clients_would_have_been_found():
    """Simulated, of a tenth where the other side never fails, and of half where it does for 2 of 100."""
    generator = np.random.default_rng(1)
    for share, before in ((0.1, 0.0), (0.5, 0.02)):
        found = 0
        for _ in range(60):
            clients, failing, is_over = [0, 0], [0, 0], False
            while not is_over:
                for side, part in ((0, 1 - share), (1, share)):
                    more = round(50 * part / share)
                    clients[side] += more
                    failing[side] += generator.binomial(more, before + 0.03 * side)
                finding = judge(sides(clients, failing), share, VERSIONS)
                is_over = finding.is_worse or "to be sure" not in finding.text
            found += finding.is_worse
        assert found >= 52, (share, before, found)
    many = judge(sides([9000, 1000], [0, 0]), 0.1, VERSIONS).text
    assert many.startswith("version 2 does as well as version 1: 0 of 1000 requests failed")
    few = judge(sides([74, 10], [0, 0]), 0.1, VERSIONS).text
    assert few.startswith(
        "version 2 does as well as version 1 so far: 0 of 10 requests failed (version 1: 0 of 74), "
    )
    assert few.endswith("; it needs about 200 more clients to be sure")


def sides(clients: list[int], failing: list[int]) -> Counts:
    """Of clients that ask once."""
    asked, failed = {}, {}
    for side in (0, 1):
        for number in range(clients[side]):
            asked[f"{side}-{number}"] = bool(side)
        for number in range(failing[side]):
            failed[f"{side}-{number}"] = bool(side)
    return Counts([*clients], [*failing], asked, failed, {})


def counted(requests: list[int], clients: list[int]) -> Counts:
    names = [(f"{side}-{number}", bool(side)) for side in (0, 1) for number in range(clients[side])]
    return Counts(requests, [0, requests[1]], dict(names), {n: s for n, s in names if s}, {})


def test_it_is_silent_and_says_so_where_it_cannot_tell():
    few = judge(counted([1000, LEAST_REQUESTS - 1], [100, 5]), 0.05, VERSIONS)
    assert not few.is_worse
    assert few.text == (
        "version 2 cannot be judged yet: it needs 10 requests and has 9 (version 1: 1000)"
    )
    few = judge(counted([1000, 1000], [100, LEAST_CLIENTS - 1]), 0.05, VERSIONS)
    assert not few.is_worse
    assert "it needs 3 clients and has 2 (version 1: 100)" in few.text
    others = judge(counted([1000, 1000], [50, 50]), 0.05, VERSIONS)
    assert not others.is_worse
    assert "50 of 100 clients ask it, where 5 % were to" in others.text
    few = judge_move(pieces(LEAST_PIECES - 1), pieces(10, 0.5), VERSIONS)
    assert not few.is_worse
    assert "of the hour before it took over there are 99 times 10 seconds" in few.text
    assert "fewer than 10 clients" in judge_move(pieces(LEAST_PIECES), [], VERSIONS).text


def test_a_finding_has_the_figures_of_both_sides():
    finding = judge(counted([1000, 50], [100, 5]), 0.05, VERSIONS)
    assert finding.is_worse
    assert finding.text == (
        "version 2 does worse than version 1: 50 of 50 requests failed (version 1: 0 of 1000)"
    )


def pieces(count: int, failing: float = 0.0, slowdown: float = 1.0) -> list[Piece]:
    generator = random.Random(1)
    return [
        Piece(10.0 * number, failing, slowdown * generator.uniform(0.01, 0.015))
        for number in range(count)
    ]


def test_a_version_that_is_worse_after_a_move_is_found_in_fifty_seconds():
    """With half an hour before it."""
    failing = judge_move(pieces(180), pieces(5, failing=0.15), VERSIONS)
    assert failing.is_worse
    assert failing.text == (
        "version 2 does worse than version 1: 15.0 % of the clients failed (version 1: 0.0 %)"
    )
    slow = judge_move(pieces(180), pieces(5, slowdown=3.0), Versions(None, 2))
    assert slow.is_worse
    assert slow.text.startswith("version 2 is slower than the one before: a run took 3")
    late = [*pieces(30), *pieces(8, failing=0.15)]
    assert judge_move(pieces(180), late, VERSIONS).is_worse
    assert judge_move(pieces(180), pieces(100), VERSIONS).is_content


def test_one_client_alone_that_fails_decides_nothing():
    pieces = Pieces()
    for second in range(3000):
        for client in range(2):
            pieces.add(second, f"{client} {second % 10}", False, 0.01)
        pieces.add(second, "broken", second > 1500, 0.01)
    before = [piece for piece in pieces.closed if piece.at <= 1500]
    after = [piece for piece in pieces.closed if piece.at > 1500]
    assert len(before) > LEAST_PIECES
    assert judge_move(before, after, VERSIONS).is_content
    assert rank_evidence([0.0] * 100, [0.0] * 10) < 1 / ALARM_RATE


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


class WatchingServer:
    """Its newest switch made these changes just now, by another server, and is guarded.

    `ahead`: the seconds by which its time of day is ahead of that server's. `trouble`: why
    the store did not answer until then.
    """

    def __init__(self, *changes: Change, ahead: float = 0, trouble: str = ""):
        self.chosen, self.clock, self.ahead = ChosenVersions(), Clock(), ahead
        self.chosen.trouble = trouble
        self.undone: list[str] = []  # why
        self.steps = 0  # that it made of rollouts
        self.guard = Guard(self, self, Metrics(), self.clock, self.time_of_day)
        self.guard.follow()
        self.chosen.trouble = ""
        self.chosen.switch(lambda: list(changes), Who("x"), is_guarded=True)
        self.made = seconds_of(self.chosen.switches()[0].at) - self.clock.now
        self.guard.follow()

    def time_of_day(self) -> float:
        return self.clock.now + self.ahead + (self.made if self.chosen.revision else 0)

    def plan(
        self,
        planners: dict,
        is_compared: bool,
        undoes: Switch | None = None,
        is_guarded: bool = False,
    ) -> Switch | None:
        return undoes

    def default_version(self, model: str) -> int:
        return 1

    def apply(self, plan: Switch | None, by: Who, reason: str = "") -> None:
        if plan is None:
            self.steps += 1
        else:
            self.undone.append(reason)

    def ask(self, client: int, version: int | None, seconds: float = 0.01) -> None:
        """None: no version answers."""
        spec = ModelSpec("half", sticky_key=f"client {client}")
        servable = None if version is None else ServableId("half", version)
        error = NotFound("gone") if version is None else None
        self.guard.record(spec, RequestRecord(servable, seconds), error)

    def texts(self) -> list[str]:
        """What is found now."""
        self.guard.look()
        return [found["text"] for found in self.guard.describe("half")["guards"]]


def split(share: float) -> Change:
    return Change("half", "split", "", None, {"version": 2, "share": share})


@pytest.mark.parametrize("slowdown", [1, 3])
def test_a_version_that_takes_three_times_as_long_is_found_and_an_equal_one_is_not(slowdown):
    """After a request of each of 200 clients."""
    server, generator = WatchingServer(split(0.1)), random.Random(1)
    for client in range(200):
        version = 2 if client % 10 == 0 else 1
        seconds = generator.uniform(0.010, 0.015) * (slowdown if version == 2 else 1)
        server.ask(client, version, seconds)
    (text,) = server.texts()
    if slowdown == 1:
        assert text.startswith(
            "version 2 does as well as version 1 so far: 0 of 20 requests failed"
        )
        assert not server.undone
    else:
        assert server.undone == [text]
        assert text == (
            "version 2 is slower than version 1: 20 of 20 clients waited twice the usual time of "
            "a run (version 1: 0 of 180)"
        )


def test_a_request_that_finds_no_version_counts_for_the_side_that_it_was_meant_for():
    server = WatchingServer(split(0.5))
    assert server.texts()[0].startswith(
        "version 2 cannot be judged yet: it needs 10 requests and has 0 (version 1: 0)"
    )
    server.ask(-1, 1)
    for client in range(100):
        is_new_side = Split(2, 0.5).takes("half", f"client {client}")
        server.ask(client, None if is_new_side else 1)
    assert server.texts()[0].startswith("version 2 does worse than version 1: ")
    assert server.undone


def test_what_cannot_be_told_since_the_store_is_away_is_told_when_it_is_back(monkeypatch):
    server = WatchingServer(split(0.5))
    server.ask(1, 1)
    before = server.texts()
    assert before[0].startswith("version 2 cannot be judged yet: ")

    def fail(kind: str) -> dict[str, str]:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(server.chosen.store, "notes", fail)
        assert server.texts() == ["the guard waits: the store is away"]
    assert server.texts() == before


def test_labels_that_do_not_exist_leave_nothing_behind():
    server = WatchingServer(Change("half", "shadow", "", None, 2))
    for number in range(100):
        spec = ModelSpec("half", label=f"none {number}")
        server.guard.record(spec, RequestRecord(), InvalidArgument("no such label"))
    assert not server.guard._pieces


def test_a_move_is_guarded_for_an_hour_and_its_pieces_are_the_next_ones_hour_before():
    server = WatchingServer(Change("half", "default", "", 1, 2))
    assert "cannot be judged yet" in server.texts()[0]

    def ask(seconds: int) -> None:
        for _ in range(seconds):
            server.clock.now += 1
            for client in range(10):
                server.ask(client, 2)

    ask(3500)
    assert "cannot be judged yet" in server.texts()[0]
    (note,) = server.chosen.store.notes(NOTES).values()
    before, after = json.loads(note)
    assert (len(before), len(after) > 300) == (0, True)
    ask(1500)
    assert not server.texts()
    assert not server.chosen.store.notes(NOTES)
    newest = list(server.guard._pieces["half", ""].closed)[-100:]
    assert newest[-1].at - newest[0].at < 1200


@pytest.mark.parametrize("ahead", [-2 * HOUR, 2 * HOUR])
def test_a_move_is_judged_for_an_hour_though_clocks_differ_or_are_set(ahead):
    server = WatchingServer(Change("half", "default", "", 1, 2), ahead=ahead)
    server.chosen.store.note(NOTES, "1/another server", "[[], []]")

    def ask_for(seconds: int) -> None:
        for second in range(seconds):
            server.clock.now += 1
            for client in range(10):
                server.ask(client + 10 * second, 2)
            server.guard.follow()

    ask_for(60)
    server.ahead -= 600
    ask_for(60)
    assert server.texts()
    notes = server.chosen.store.notes(NOTES)
    assert len(notes) == 2
    (own,) = [note for name, note in notes.items() if name != "1/another server"]
    times = [piece[0] for piece in json.loads(own)[1]]
    assert len(times) > 7
    assert 0 <= times[0] < times[-1] < 120
    server.clock.now += HOUR
    assert not server.texts()


def rollout_at_its_first_step() -> list[Change]:
    """Begun just now; its next step is due in ten minutes."""
    label = {"version": 2, "steps": [30, 100], "every": 600, "requests": 0, "step": 0}
    made = iso(datetime.now(UTC))
    after = {**label, "since": made, "is_paused": False}
    return [split(0.3), Change("half", "rollout", "", None, after)]


def ask_by_many_clients(server: WatchingServer) -> None:
    for client in range(400):
        server.ask(client, 2 if Split(2, 0.3).takes("half", f"client {client}") else 1)


def test_a_step_goes_on_where_a_server_starts_while_the_store_is_away():
    server = WatchingServer(*rollout_at_its_first_step(), ahead=590, trouble="the store is away")
    ask_by_many_clients(server)
    server.clock.now += 5
    server.guard.follow()
    assert server.steps == 0
    server.clock.now += 6
    server.guard.follow()
    assert server.steps == 1


@pytest.mark.parametrize("ahead", [-2 * HOUR, 0, 2 * HOUR])
def test_a_step_of_a_rollout_lasts_its_time_though_clocks_differ_or_are_set(ahead):
    server = WatchingServer(*rollout_at_its_first_step(), ahead=ahead)
    ask_by_many_clients(server)
    for _ in range(590):
        server.clock.now += 1
        server.guard.follow()
    assert server.steps == 0
    server.ahead -= 600
    server.clock.now += 11
    server.guard.follow()
    assert server.steps == 1
