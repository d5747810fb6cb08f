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
# A version is surely as good once one that fails for so many more of its clients would have been
# found, with SURE (95 %, as a quantile of the normal distribution).
SURE_RATE, SURE = 0.03, 1.645
MISMATCH_RATE = 0.001  # below it, the sides differ in who asks (sample ratio mismatch)
HOUR = 3600.0  # a move is compared with the one before it, and guarded for as long
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
    """`text`: words for everybody, with the figures of both sides. `is_worse`: undo the switch.

    `is_content`: it could tell, and nothing is worse. `requests`: on the new
    side of a split.
    """

    text: str
    is_worse: bool = False
    is_content: bool = False
    requests: int = 0


class Versions(NamedTuple):
    """The version that a switch replaces, None if it is not known, and the new one."""

    before: int | None
    new: int

    def compare(self, how: str) -> str:
        """E.g. "version 3 is slower than version 2"."""
        before = "the one before" if self.before is None else f"version {self.before}"
        return f"version {self.new} {how} {before}"

    def cannot_be_judged(self, why: str) -> Finding:
        return Finding(f"version {self.new} cannot be judged yet: {why}")

    def lacks(self, what: str, found: Sequence[int], least: int) -> Finding:
        """E.g. "version 3 cannot be judged yet: it needs 10 requests and has 1 (version 2: 6)"."""
        figures = self.figures(f"has {found[1]}", str(found[0]))
        return self.cannot_be_judged(f"it needs {least} {what} and {figures}")

    def figures(self, new: str, before: str) -> str:
        """E.g. "0 of 10 requests failed (version 2: 0 of 74)"."""
        return f"{new} ({'before' if self.before is None else f'version {self.before}'}: {before})"


def judge(counts: Counts, share: float, versions: Versions, tests: int = 1) -> Finding:
    """Compare the sides of a split that sends `share` (0 to 1, both excluded)
    of the clients; `tests`: how many share the rate of false alarms.
    """
    if min(counts.requests) < LEAST_REQUESTS:
        return versions.lacks("requests", counts.requests, LEAST_REQUESTS)
    clients = _by_side(counts.clients)
    if min(clients) < LEAST_CLIENTS:
        return versions.lacks("clients", clients, LEAST_CLIENTS)
    if _differ_in_who_asks(clients, share):
        return versions.cannot_be_judged(
            f"{clients[1]} of {sum(clients)} clients ask it, where {100 * share:g} % were to; "
            "behind a proxy they need an X-Request-Key"
        )
    failing, slow = _by_side(counts.failing), _by_side(counts.slow)
    errors = versions.figures(
        f"{counts.failures[1]} of {counts.requests[1]} requests failed",
        f"{counts.failures[0]} of {counts.requests[0]}",
    )
    times = versions.figures(
        f"{slow[1]} of {clients[1]} clients waited twice the usual time of a run",
        f"{slow[0]} of {clients[0]}",
    )
    if evidence(failing, share) >= tests / ALARM_RATE:
        return Finding(f"{versions.compare('does worse than')}: {errors}", is_worse=True)
    if evidence(slow, share) >= tests / ALARM_RATE:
        return Finding(f"{versions.compare('is slower than')}: {times}", is_worse=True)
    missing = _clients_needed(failing, clients, share, tests) - clients[1]
    so_far, more = "", ""
    if missing > 0:
        so_far, more = " so far", f"; it needs about {_rounded(missing)} more clients to be sure"
    text = f"{versions.compare('does as well as')}{so_far}: {errors}, {times}{more}"
    return Finding(text, is_content=True, requests=counts.requests[1])


def judge_move(
    before: Sequence[Piece], after: Sequence[Piece], versions: Versions, tests: int = 1
) -> Finding:
    """Compare the pieces since a move with those of the hour before it, in the
    order of time; `tests` as in `judge`.
    """
    if len(before) < LEAST_PIECES:
        return versions.cannot_be_judged(
            f"of the hour before it took over there are {len(before)} times {PIECE_SECONDS:g} "
            f"seconds with {PIECE_CLIENTS} clients, at least {LEAST_PIECES} are needed"
        )
    if not after:
        return versions.cannot_be_judged(f"fewer than {PIECE_CLIENTS} clients have asked it")
    failing = [[piece.failing for piece in pieces] for pieces in (before, after)]
    seconds = [[piece.seconds for piece in pieces] for pieces in (before, after)]
    shares = [f"{100 * statistics.fmean(values):.1f} %" for values in failing]
    runs = [f"{1000 * statistics.median(values):.1f} ms" for values in seconds]
    errors = versions.figures(f"{shares[1]} of the clients failed", f"{shares[0]}")
    times = versions.figures(f"a run took {runs[1]}", f"{runs[0]}")
    if rank_evidence(*failing) >= tests / ALARM_RATE:
        return Finding(f"{versions.compare('does worse than')}: {errors}", is_worse=True)
    if rank_evidence(*seconds) >= tests / ALARM_RATE:
        return Finding(f"{versions.compare('is slower than')}: {times}", is_worse=True)
    text = f"{versions.compare('does as well as')} so far: {errors}, {times}"
    return Finding(text, is_content=True)


def _clients_needed(failing: list[int], clients: list[int], share: float, tests: int) -> float:
    """How many clients the new side needs until one that fails for SURE_RATE
    more of them than the other has most likely been undone.
    """
    number = failing[1]
    while number < MOST_CLIENTS and evidence([failing[0], number], share) < tests / ALARM_RATE:
        number += 1
    # The mean of a Poisson distribution that reaches `number` with SURE: its quantile by
    # chi-square, in the approximation of Wilson and Hilferty (1931).
    mean = number * (1 - 1 / (9 * number) + SURE / (3 * math.sqrt(number))) ** 3
    return mean / (failing[0] / clients[0] + SURE_RATE)


def _rounded(number: float) -> str:
    """To two digits, up."""
    unit = 10 ** max(0, math.ceil(math.log10(max(1.0, number))) - 2)
    return f"{math.ceil(number / unit) * unit:,}"


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
