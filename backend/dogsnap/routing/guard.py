"""The sequential tests of guarded switches: whether a version is worse than the
one it replaces.

**A split** has two sides at the same time. The unit is the client, and each
counts once. A split puts a client on a side by a hash, so that without a
difference a client that fails (or is slow) lies on the new side with the
probability `share`, whatever clients send, however often, and in whatever
bursts. For each such client the likelihood ratio of a worse version is
multiplied up; the switch is undone when it reaches 1 / ALARM_RATE. By Ville's
inequality that happens at most once in 1 / ALARM_RATE splits of equal versions,
however long and however often one looks (Wald 1945; Shafer 2021).

**A move** of a label or default has only its own hour before. The unit is a
piece of ten seconds or more with ten clients or more; of each the share of
failing clients and the median time of a run count. If nothing changes, half of
a piece's value is hardly ever above those of the pieces before: the probability
of its rank is the p-value of a bet (Vovk, Nouretdinov and Gammerman 2003), and
Ville's inequality holds again, as long as what happens lasts less than a piece.

**The steps of a rollout** share the rate: each of n tests at 1 / n of it, so that
together they undo no more of equal versions than one (Bonferroni).
"""

import math
import statistics
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

ALARM_RATE = 0.005  # of each of the two tests, errors and times: together at most 1 %
ODDS_RATIOS = (3.0, 10.0, 100.0)  # how much worse a version may be; the test averages over them
LEAST_REQUESTS = 10  # on each side
LEAST_CLIENTS = 3  # on each side
MOST_CLIENTS = 2000  # that a server remembers for one switch
MISMATCH_RATE = 0.001  # below it, the sides differ in who asks (sample ratio mismatch)
HOUR = 3600.0  # a move is compared with the one before it, and watched for as long
PIECE_SECONDS, PIECE_CLIENTS = 10.0, 10  # the least of a piece
LEAST_PIECES = 100  # in the hour before: with fewer, no rank is rare enough
TWICE = 2.0  # a piece of a worse version has more than twice the value of most before
BET = 0.3  # exponent of the bet: finds what is always worse in three pieces


@dataclass
class Counts:
    """What one or all servers have counted; pairs are of the side before and
    the new one.

    `failing` and `slow`: the clients, by a hash, and whether each is on the new
    side.
    """

    requests: list[int] = field(default_factory=lambda: [0, 0])
    failures: list[int] = field(default_factory=lambda: [0, 0])
    clients: dict[str, bool] = field(default_factory=dict)
    failing: dict[str, bool] = field(default_factory=dict)
    slow: dict[str, bool] = field(default_factory=dict)

    def add(self, more: "Counts") -> None:
        for side in (0, 1):
            self.requests[side] += more.requests[side]
            self.failures[side] += more.failures[side]
        self.clients |= more.clients
        self.failing |= more.failing
        self.slow |= more.slow


class Piece(NamedTuple):
    """`at`: its begin, a time in seconds.

    `failing`: share of its clients. `seconds`: of a run.
    """

    at: float
    failing: float
    seconds: float


@dataclass(frozen=True)
class Finding:
    """`text`: a sentence with the figures of both sides. `is_worse`: undo the switch.

    `is_content`: it could tell, and nothing is worse. `requests`: on the new
    side of a split.
    """

    text: str
    is_worse: bool = False
    is_content: bool = False
    requests: int = 0


def judge(counts: Counts, share: float, tests: int = 1) -> Finding:
    """Compare the sides of a split that sends `share` (0 to 1, both excluded)
    of the clients; `tests`: how many share the rate of false alarms.
    """
    if min(counts.requests) < LEAST_REQUESTS:
        return Finding(
            f"too few requests: {_pair(counts.requests)}; at least {LEAST_REQUESTS} on each side"
        )
    clients = _by_side(counts.clients)
    if min(clients) < LEAST_CLIENTS:
        return Finding(f"too few clients: {_pair(clients)}; at least {LEAST_CLIENTS} on each side")
    if _differ_in_who_asks(clients, share):
        return Finding(
            f"the sides differ in who asks: {_pair(clients)} clients, where {100 * share:g} % were "
            "to be on the new side"
        )
    failing, slow = _by_side(counts.failing), _by_side(counts.slow)
    rates = [failed / all_ for failed, all_ in zip(counts.failures, counts.requests, strict=True)]
    errors = (
        f"{100 * rates[1]:.1f} % of {counts.requests[1]} requests fail, of {failing[1]} clients; "
        f"before {100 * rates[0]:.1f} % of {counts.requests[0]}, of {failing[0]}"
    )
    times = (
        f"{slow[1]} of {clients[1]} clients wait more than twice the usual time of a run, "
        f"{slow[0]} of {clients[0]} before"
    )
    if evidence(failing, share) >= tests / ALARM_RATE:
        return Finding(errors, is_worse=True)
    if evidence(slow, share) >= tests / ALARM_RATE:
        return Finding(times, is_worse=True)
    text = f"content: {errors}; {times}"
    return Finding(text, is_content=True, requests=counts.requests[1])


def judge_move(before: Sequence[Piece], after: Sequence[Piece], tests: int = 1) -> Finding:
    """Compare the pieces since a move with those of the hour before it, in the
    order of time; `tests` as in `judge`.
    """
    if len(before) < LEAST_PIECES:
        return Finding(
            f"too few requests in the hour before: {len(before)} times {PIECE_SECONDS:g} seconds "
            f"with {PIECE_CLIENTS} clients; at least {LEAST_PIECES}"
        )
    if not after:
        return Finding(f"too few requests since: less than {PIECE_CLIENTS} clients in one go")
    failing = [[piece.failing for piece in pieces] for pieces in (before, after)]
    seconds = [[piece.seconds for piece in pieces] for pieces in (before, after)]
    shares = [100 * statistics.fmean(values) for values in failing]
    runs = [1000 * statistics.median(values) for values in seconds]
    errors = f"{shares[1]:.1f} % of the clients fail, {shares[0]:.1f} % in the hour before"
    times = f"a run takes {runs[1]:.1f} ms, {runs[0]:.1f} ms in the hour before"
    if rank_evidence(*failing) >= tests / ALARM_RATE:
        return Finding(errors, is_worse=True)
    if rank_evidence(*seconds) >= tests / ALARM_RATE:
        return Finding(times, is_worse=True)
    return Finding(f"content: {errors}; {times}", is_content=True)


def rank_evidence(before: Sequence[float], after: Sequence[float]) -> float:
    """What bets on high ranks of `after` have won; their expectation without a
    change is 1.

    A bet begins at each piece, since a version may become worse later; the
    first has half the stake.
    """
    known, bets = sorted(before), []
    for count, value in enumerate(after, 1):
        larger = len(known) - bisect_left(known, value / TWICE)
        probability = (1 + larger) / (1 + len(known))
        bets.append(1 / (count * (count + 1)))
        bets = [bet * BET * probability ** (BET - 1) for bet in bets]
        insort(known, value)
    return sum(bets) + 1 / (1 + len(after))


def evidence(clients: list[int], share: float) -> float:
    """The mean likelihood ratio of a worse version; its expectation without a
    difference is 1.
    """
    ratios = []
    for odds in ODDS_RATIOS:
        worse = odds * share / (1 - share + odds * share)
        logarithm = clients[1] * math.log(worse / share)
        logarithm += clients[0] * math.log((1 - worse) / (1 - share))
        ratios.append(math.exp(min(logarithm, 700.0)))
    return sum(ratios) / len(ratios)


def _differ_in_who_asks(clients: list[int], share: float) -> bool:
    """Whether the clients of the sides are no split by `share`, by the normal
    approximation.
    """
    total = sum(clients)
    deviation = abs(clients[1] - share * total) - 0.5  # with the correction for continuity
    score = deviation / math.sqrt(total * share * (1 - share))
    # Of few clients the approximation has too light a tail; Chernoff's bound holds for all.
    is_unlikely = math.erfc(score / math.sqrt(2)) < MISMATCH_RATE
    observed = clients[1] / total
    divergence = 0.0
    for part, expected in ((observed, share), (1 - observed, 1 - share)):
        if part:
            divergence += part * math.log(part / expected)
    return is_unlikely and 2 * math.exp(-total * divergence) < MISMATCH_RATE


def _by_side(clients: Mapping[str, bool]) -> list[int]:
    new = sum(clients.values())
    return [len(clients) - new, new]


def _pair(counts: list[int]) -> str:
    return f"{counts[1]} on the new side and {counts[0]} before"
